#pragma once
// Where a block scale lies in memory. Files and the kernels of miniTE keep scales linear, row by row; GPU
// products read them in tiles: 128x4 (cuBLAS, CUTLASS; 512 bytes for 128 rows by 4 scales) and 8x4
// (TensorRT-LLM's small batches; 32 bytes). Tiled layouts pad rows and columns to whole tiles, and padding is
// zero.
//
//   128x4  ((r/128) * ceil(C/4) + c/4) * 512 + (r%32) * 16 + ((r%128)/32) * 4 + c%4
//   8x4    ((r/8)   * ceil(C/4) + c/4) * 32  + (r%8) * 4 + c%4
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace minite {

enum class ScaleLayout : uint8_t { linear, tiles_128x4, tiles_8x4 };
inline constexpr std::array<std::string_view, 3> kScaleLayoutNames = {"linear", "128x4", "8x4"};
[[nodiscard]] constexpr std::string_view to_string(ScaleLayout layout) {
  return kScaleLayoutNames[static_cast<size_t>(layout)];
}

/// A matrix of block scales.
struct ScalePlace {
  int64_t row, col;
  friend constexpr bool operator==(const ScalePlace&, const ScalePlace&) = default;
};

/// Scales of `rows` x `cols` blocks in a layout.
class ScaleMap {
 public:
  constexpr ScaleMap(ScaleLayout layout, int64_t rows, int64_t cols)
      : layout_(layout),
        rows_(rows),
        cols_(cols),
        tile_rows_(layout == ScaleLayout::tiles_128x4 ? 128
                   : layout == ScaleLayout::tiles_8x4 ? 8
                                                      : 1),
        tile_cols_(layout == ScaleLayout::linear ? 1 : 4) {}

  [[nodiscard]] constexpr int64_t padded_rows() const { return up(rows_, tile_rows_); }
  [[nodiscard]] constexpr int64_t padded_cols() const { return up(cols_, tile_cols_); }
  /// Size of the layout, padding included.
  [[nodiscard]] constexpr int64_t bytes() const { return padded_rows() * padded_cols(); }

  /// Byte of scale (r, c), inside the padded matrix.
  [[nodiscard]] constexpr int64_t offset(int64_t r, int64_t c) const {
    const int64_t tile = r / tile_rows_ * (padded_cols() / tile_cols_) + c / tile_cols_;
    return tile * tile_rows_ * tile_cols_ + inside(r % tile_rows_, c % tile_cols_);
  }
  /// The scale at a byte: the inverse of offset().
  [[nodiscard]] constexpr ScalePlace place(int64_t offset) const {
    const int64_t size = tile_rows_ * tile_cols_, tiles = padded_cols() / tile_cols_;
    const int64_t tile = offset / size, i = offset % size;
    ScalePlace in{i / tile_cols_, i % tile_cols_};
    if (layout_ == ScaleLayout::tiles_128x4) in.row = i / 16 + i % 16 / 4 * 32;
    return {tile / tiles * tile_rows_ + in.row, tile % tiles * tile_cols_ + in.col};
  }
  /// Whether a place is a scale rather than padding.
  [[nodiscard]] constexpr bool holds(const ScalePlace& at) const { return at.row < rows_ && at.col < cols_; }

  /// out[offset(r, c)] = linear[r * cols + c]; the padding becomes 0. `out` holds bytes(), and must not
  /// overlap.
  constexpr void from_linear(std::span<const uint8_t> linear, std::span<uint8_t> out) const {
    std::fill(out.begin(), out.end(), uint8_t{0});
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c)
        out[static_cast<size_t>(offset(r, c))] = linear[static_cast<size_t>(r * cols_ + c)];
    }
  }
  /// The inverse; padding is not read.
  constexpr void to_linear(std::span<const uint8_t> in, std::span<uint8_t> linear) const {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < cols_; ++c)
        linear[static_cast<size_t>(r * cols_ + c)] = in[static_cast<size_t>(offset(r, c))];
    }
  }

 private:
  static constexpr int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }
  [[nodiscard]] constexpr int64_t inside(int64_t r, int64_t c) const {
    return layout_ == ScaleLayout::tiles_128x4 ? r % 32 * 16 + r / 32 * 4 + c : r * tile_cols_ + c;
  }

  ScaleLayout layout_;
  int64_t rows_, cols_, tile_rows_, tile_cols_;
};

}  // namespace minite
