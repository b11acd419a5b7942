#pragma once
// fail(code, format, args...): builds the message with fmt and throws minite::Error.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "minite/error.h"

namespace minite {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws invalid_argument unless `condition` holds.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// The name in `names` that is closest to `wanted` (Levenshtein), or "" when none is near.
std::string nearest_name(std::string_view wanted, const std::vector<std::string_view>& names);
/// "; did you mean 'bf16'?" for the nearest of `names`, or "" when none is near: the end of a message.
std::string did_you_mean(std::string_view wanted, const std::vector<std::string_view>& names);

}  // namespace minite
