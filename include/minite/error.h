#pragma once
// The one error type of the library. Messages carry the offending value, the place and the remedy.
#include <stdexcept>
#include <string>
#include <string_view>

namespace minite {

enum class ErrorCode {
  invalid_argument,  ///< the caller's value is wrong (command line exit code 2)
  unsupported,       ///< valid, but no backend can do it; the message says which and why (2)
  not_found,         ///< a named thing does not exist (2)
  corrupt_data,      ///< a file is malformed or was cut short (2)
  io,                ///< reading or writing failed, e.g. disk full (3)
  non_finite,        ///< a loss or gradient became NaN or infinite (3)
  resource,          ///< out of memory or another limit (3)
  internal,          ///< a broken invariant of the library itself (3)
};

/// Thrown by every function of the library that fails; never anything else on purpose.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// Exit code of the command for this error: 2 usage or bad input, 3 the run itself failed.
  [[nodiscard]] int exit_code() const noexcept;

 private:
  ErrorCode code_;
};

/// "invalid_argument", "io", ...
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;

}  // namespace minite
