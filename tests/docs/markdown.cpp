#include "docs/markdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "support/temp_folder.h"

namespace minite::docs {
namespace fs = std::filesystem;

std::vector<fs::path> documents() {
  const fs::path root(MINITE_SOURCE_DIR);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root)) files.push_back(entry.path());
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) files.push_back(entry.path());
  std::erase_if(files, [](const fs::path& path) { return path.extension() != ".md"; });
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Block> marked_blocks(const fs::path& file, std::string_view kind) {
  const std::string begin = "<!-- " + std::string(kind) + ": ";
  constexpr std::string_view kClose = " -->";
  std::vector<Block> blocks;
  std::istringstream lines(test_support::slurp(file));
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin) && line.ends_with(kClose)) {
      EXPECT_FALSE(inside) << file << ": a block begins before the one before it ends";
      blocks.push_back({line.substr(begin.size(), line.size() - begin.size() - kClose.size()), {}});
      inside = true;
    } else if (line == "<!-- end -->") {
      inside = false;
    } else if (inside) {
      blocks.back().text += line + '\n';
    }
  }
  EXPECT_FALSE(inside) << file << ": a block does not end";
  return blocks;
}

std::vector<std::string> fenced_blocks(std::string_view text, std::string_view info) {
  const std::string begin = "```" + std::string(info);
  std::vector<std::string> blocks;
  std::istringstream lines{std::string(text)};
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + '\n';
    } else if (line == begin) {
      blocks.emplace_back();
      inside = true;
    }
  }
  return blocks;
}

std::vector<std::string> file_links(std::string_view text) {
  std::vector<std::string> links;
  for (size_t at = text.find("]("); at != text.npos; at = text.find("](", at + 2)) {
    std::string_view target = text.substr(at + 2);
    target = target.substr(0, target.find(')'));
    target = target.substr(0, target.find('#'));
    if (!target.empty() && target.find("://") == target.npos) links.emplace_back(target);
  }
  return links;
}

}  // namespace minite::docs
