#pragma once
// JSON documents and JSON lines from files, with errors that name the file and the position.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

/// Parses one JSON document; `name` stands for the file in errors. Error: corrupt_data
/// "NAME:LINE:COLUMN: ...". `first_line` shifts LINE for text that is part of a file.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name,
                                        int64_t first_line = 1);

/// Errors: not_found, io, corrupt_data.
[[nodiscard]] nlohmann::json read_json_file(const std::filesystem::path& path);

/// Two spaces of indentation, keys sorted, a newline at the end; atomic.
void write_json_file(const std::filesystem::path& path, const nlohmann::json& document);

/// The objects of a .jsonl file.
struct JsonLines {
  std::vector<nlohmann::json> rows;
  std::vector<int64_t> numbers;  ///< line number of each row, from 1
  int64_t cut_line = 0;          ///< number of a cut last line, which was left out; 0 when there is none
};

/// One object a line; empty lines are skipped. A last line without a newline that does not parse was cut by
/// an interrupted run and is left out; any other damaged line is corrupt_data "FILE:LINE: ...".
[[nodiscard]] JsonLines read_json_lines(const std::filesystem::path& path);

/// The number under `name` in a row of a log, which has it as a number or as null; a null is what
/// "NAME_nonfinite" says: nan (also when that is missing), inf or -inf.
[[nodiscard]] double logged_number(const nlohmann::json& row, const std::string& name);

}  // namespace minite::io
