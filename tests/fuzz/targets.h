#pragma once
// The readers of files that other people make, and what each of them must survive: any bytes. A reader
// returns or throws minite::Error; it never crashes, and never allocates more than a factor of the file's
// size.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace minite::fuzz {

struct Target {
  std::string_view name;  ///< also of its folder in tests/fuzz/corpus
  /// Reads `bytes`; `folder` is empty before and may hold files after.
  void (*read)(std::string_view bytes, const std::filesystem::path& folder);
};
[[nodiscard]] std::span<const Target> targets();
/// Error: not_found.
[[nodiscard]] const Target& target_named(std::string_view name);

/// What became of an input.
enum class Outcome : uint8_t { taken, refused };
struct Result {
  Outcome outcome = Outcome::taken;
  int64_t peak = 0;   ///< bytes on the heap at most, beyond what was there before
  std::string error;  ///< of a refused input
};
/// Runs a target in `folder`, which it empties afterwards. Another exception than minite::Error passes
/// through.
[[nodiscard]] Result run(const Target& target, std::string_view bytes, const std::filesystem::path& folder);

/// Bytes of heap that an input of so many bytes may take: a value of a JSON document is up to forty times its
/// text.
constexpr int64_t most_heap(int64_t size) { return (int64_t{1} << 20) + 100 * size; }

}  // namespace minite::fuzz
