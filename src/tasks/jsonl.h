#pragma once
// JSONL files of problems: one object a line with "prompt" and "answer" (non-empty strings), optionally
// "response" (a worked solution) and "check" (a row of checkers()). Blank lines are skipped; other keys are
// ignored, unless one is a slip of the pen for an optional key, which would be lost without a word.
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/problem.h"

namespace minite::tasks {

/// Reads all problems of a file, in order; at least one. Errors name file and line: (not_found) no such file;
/// (io) it cannot be read; (corrupt_data) malformed JSON, invalid UTF-8, a missing key, a wrong type, an
/// empty value, an answer its checker can never match, an unknown check, an empty file.
[[nodiscard]] std::vector<Problem> read_problems(const std::filesystem::path& path);

/// The problem of one line. `place` is "file:line", used in errors.
[[nodiscard]] Problem parse_problem(std::string_view line, std::string_view place);

/// The line of a problem, without the line break: keys in the order prompt, answer, response, check; `check`
/// is left out when it is exact. parse_problem reads it back to an equal problem.
[[nodiscard]] std::string format_problem(const Problem& problem);

/// Writes all problems, whole or not at all (core/atomic_file.h). Errors: (invalid_argument) a problem that
/// read_problems would refuse, by index; (io) as AtomicFile.
void write_problems(const std::filesystem::path& path, std::span<const Problem> problems);

}  // namespace minite::tasks
