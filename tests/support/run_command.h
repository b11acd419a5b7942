#pragma once
// Runs the command and keeps what it wrote.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace minite::test_support {

struct CommandResult {
  int exit_code = -1;  ///< -1 when the process was killed by a signal
  std::string out;
  std::string err;
  double seconds = 0;
};

/// `text` as one word of the shell.
inline std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// The command with `arguments`; `environment` holds "NAME=value". Variables MINITE_* of the test's own
/// environment are not passed on.
inline CommandResult run_minite(const std::vector<std::string>& arguments,
                                const std::vector<std::string>& environment = {}) {
  const TempFolder folder;
  std::string line = "exec env -u MINITE_RECIPE -u MINITE_BACKEND -u MINITE_THREADS -u MINITE_SIMD";
  for (const std::string& variable : environment) line += " " + quoted(variable);
  line += " " + quoted(MINITE_BINARY);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line +=
      " >" + quoted((folder / "out").string()) + " 2>" + quoted((folder / "err").string()) + " </dev/null";

  CommandResult result;
  const auto start = std::chrono::steady_clock::now();
  const int status = std::system(line.c_str());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  result.out = slurp(folder / "out");
  result.err = slurp(folder / "err");
  return result;
}

}  // namespace minite::test_support
