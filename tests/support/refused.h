#pragma once
// A training command that must be refused: exit code 2, the reason on stderr, nothing written.
#include "support/tiny_run.h"

namespace minite::test_support {

/// Runs `arguments`; expects exit code 2, an empty stdout, every string of `parts` on stderr, and the folder
/// of `runs` as it was.
inline void expect_refused(const TinyRuns& runs, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& parts) {
  const auto before = bytes_below(runs / "");
  const CommandResult result = run_minite(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
  EXPECT_TRUE(bytes_below(runs / "") == before) << "a refused command wrote files: " << result.err;
}

}  // namespace minite::test_support
