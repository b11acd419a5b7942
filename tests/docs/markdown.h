#pragma once
// The parts of a Markdown file that tests hold against the program.
//
//   <!-- generated: minite recipes --markdown -->   what the command prints, up to <!-- end -->
//   <!-- file: examples/quickstart.cpp -->          one fenced block that equals the file, up to <!-- end -->
//   ```sh tested                                    commands that run, with minite on PATH
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace minite::docs {

struct Block {
  std::string label;  ///< what follows "generated: minite " or "file: "
  std::string text;
};

/// README.md and the like in the root, and everything below docs/, by path.
[[nodiscard]] std::vector<std::filesystem::path> documents();

/// Blocks that start with "<!-- KIND: LABEL -->" and end with "<!-- end -->".
[[nodiscard]] std::vector<Block> marked_blocks(const std::filesystem::path& file, std::string_view kind);

/// Fenced blocks whose first line is ``` followed by `info`.
[[nodiscard]] std::vector<std::string> fenced_blocks(std::string_view text, std::string_view info);

/// Targets of links to files: [text](target), without a #part; addresses with a scheme are left out.
[[nodiscard]] std::vector<std::string> file_links(std::string_view text);

}  // namespace minite::docs
