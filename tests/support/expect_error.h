#pragma once
// Checks on thrown minite::Error.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "minite/error.h"

namespace minite::test_support {

/// Runs `body` and expects an Error with `code` whose message holds every string of `parts`.
template <class Body>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown";
}

}  // namespace minite::test_support
