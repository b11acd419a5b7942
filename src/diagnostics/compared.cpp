#include "diagnostics/compared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>

namespace minite::diagnostics {
namespace fs = std::filesystem;
namespace {

// The last `parts` parts of a path, "b/c" of "/a/b/c"; all of it when it has fewer.
std::string end_of(const fs::path& path, size_t parts) {
  std::vector<std::string> all;
  for (const auto& part : path) {
    if (!part.empty() && part != "/") all.push_back(part.string());
  }
  const size_t first = all.size() - std::min(parts, all.size());
  std::string text;
  for (size_t i = first; i < all.size(); ++i) text += (text.empty() ? "" : "/") + all[i];
  return text;
}

// The first and last whole characters of a long text, `limit` bytes in all at most.
std::string shortened(const std::string& text, size_t limit) {
  if (text.size() <= limit) return text;
  const auto inside = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; };
  size_t head = limit / 2, tail = text.size() - (limit / 2 - 3);
  while (head > 0 && inside(head)) --head;
  while (tail < text.size() && inside(tail)) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail);
}

fs::path whole(const std::string& path) {
  std::error_code ignored;
  return fs::absolute(path, ignored).lexically_normal();
}

}  // namespace

std::string Compared::label() const {
  constexpr size_t kMost = 28;
  return letter + " " + shortened(name, kMost);
}

std::vector<std::string> distinct_names(const std::vector<std::string>& paths) {
  std::vector<std::string> names(paths.size());
  std::vector<size_t> parts(paths.size(), 1);
  constexpr size_t kDeepest = 64;
  for (size_t round = 1; round < kDeepest; ++round) {
    for (size_t i = 0; i < paths.size(); ++i) names[i] = end_of(whole(paths[i]), parts[i]);
    bool again = false;
    for (size_t i = 0; i < paths.size(); ++i) {
      if (std::count(names.begin(), names.end(), names[i]) == 1) continue;
      ++parts[i];
      again = true;
    }
    if (!again) break;
  }
  return names;
}

std::vector<Compared> side_by_side(const std::vector<RunData>& runs) {
  std::vector<std::string> paths;
  for (const RunData& run : runs) paths.push_back(run.path);
  const auto names = distinct_names(paths);
  std::vector<Compared> all;
  for (size_t i = 0; i < runs.size(); ++i) {
    const int n = static_cast<int>(i);
    all.push_back({&runs[i], headline(runs[i]), std::string(1, static_cast<char>('A' + n % 26)), names[i],
                   n % kColors, static_cast<Dash>((n + n / kColors) % kDashes)});
  }
  return all;
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " and " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace minite::diagnostics
