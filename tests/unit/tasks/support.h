#pragma once
// Helpers of the tests of this room.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "core/philox.h"
#include "minite/error.h"
#include "support/expect_error.h"

namespace minite::tasks {

using test_support::expect_error;

/// A folder that is gone after the test.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "minite_tasks_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }
  std::string read(std::string_view name) const {
    std::ostringstream text;
    text << std::ifstream(path_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

/// A word that depends on (seed, index) alone.
inline uint32_t random_word(uint64_t seed, uint64_t index) { return Philox::generate(seed, index, 0)[0]; }

/// `length` arbitrary bytes.
inline std::string random_bytes(uint64_t seed, size_t length) {
  std::string bytes;
  for (size_t i = 0; i < length; ++i) bytes.push_back(static_cast<char>(random_word(seed, i)));
  return bytes;
}

}  // namespace minite::tasks
