#pragma once
// Test data with known statistics; a value depends on (distribution, sigma, seed, place) alone.
#include <cstdint>
#include <span>
#include <string_view>

namespace minite::diagnostics {

/// One row of distributions().
struct Distribution {
  std::string_view name;  ///< as written on the command line
  std::string_view does;  ///< one line
  /// A value of standard deviation 1 from the draw of `element` in `column`.
  float (*value)(uint64_t seed, uint64_t element, uint64_t column);
};

[[nodiscard]] std::span<const Distribution> distributions();
/// The row named `name`; throws not_found and offers the nearest name.
[[nodiscard]] const Distribution& distribution(std::string_view name);

/// Fills a row-major matrix of `cols` columns with fl(sigma * value).
void fill(const Distribution& distribution, float sigma, uint64_t seed, int64_t cols, std::span<float> out);

}  // namespace minite::diagnostics
