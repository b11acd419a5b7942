// Documentation that is generated equals what the command prints today.
//
// A generated block is everything between the lines
//   <!-- generated: minite recipes --markdown -->
//   <!-- end -->
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "support/run_command.h"

namespace minite {
namespace {

constexpr std::string_view kBegin = "<!-- generated: minite ";
constexpr std::string_view kClose = " -->";
constexpr std::string_view kEnd = "<!-- end -->";

struct Block {
  std::vector<std::string> arguments;
  std::string text;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<Block> generated_blocks(const std::filesystem::path& file) {
  std::vector<Block> blocks;
  std::istringstream lines(test_support::slurp(file));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(kBegin, 0) == 0) {
      EXPECT_FALSE(inside) << file << ": a block begins before the one before it ends";
      const size_t length = line.size() - kBegin.size() - kClose.size();
      blocks.push_back({words(line.substr(kBegin.size(), length)), {}});
      inside = true;
    } else if (line == kEnd) {
      inside = false;
    } else if (inside) {
      blocks.back().text += line + '\n';
    }
  }
  EXPECT_FALSE(inside) << file << ": a generated block does not end";
  return blocks;
}

TEST(Docs, GeneratedBlocksEqualTheCommandsOutput) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(MINITE_SOURCE_DIR) + "/docs")) {
    if (entry.path().extension() != ".md") continue;
    for (const Block& block : generated_blocks(entry.path())) {
      const auto result = test_support::run_minite(block.arguments);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(block.text, result.out)
          << entry.path() << ": run the command in the marker and paste its output";
      ++count;
    }
  }
  EXPECT_GE(count, 2) << "docs/recipes.md alone holds two";
}

}  // namespace
}  // namespace minite
