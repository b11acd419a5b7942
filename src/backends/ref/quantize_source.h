#pragma once
// What a quantizer sees of x, and the amax of its blocks.
#include <algorithm>
#include <array>

#include "backends/ref/quantize.h"
#include "formats/hadamard.h"

namespace minite::ref {

using Block16 = std::array<float, 16>;

/// What the quantizer sees: x by rows or by columns, rotated if the spec says so.
class Source {
 public:
  explicit Source(const QuantizeArgs& args) : args_(args) {}

  /// Row r, columns [begin, begin + 16) of the operand; zeros past its end.
  [[nodiscard]] Block16 block(int64_t r, int64_t begin) const {
    Block16 v{};
    const bool rows = args_.along == Orientation::rows;
    const int64_t end = std::min(begin + 16, rows ? args_.x.cols : args_.x.rows);
    for (int64_t c = begin; c < end; ++c) v[static_cast<size_t>(c - begin)] = rows ? read(r, c) : read(c, r);
    return args_.out.spec.rotation == Rotation::none ? v : hadamard(v);
  }
  /// Adds the elements of row r, columns [begin, end), begin a multiple of 16.
  void add(Amax& amax, int64_t r, int64_t begin, int64_t end) const {
    for (int64_t c = begin; c < end; c += 16) {
      const Block16 v = block(r, c);
      for (int64_t i = 0; i < std::min<int64_t>(16, end - c); ++i) amax.add(v[static_cast<size_t>(i)]);
    }
  }

 private:
  [[nodiscard]] float read(int64_t r, int64_t c) const {
    return args_.x.dtype == DType::bf16 ? static_cast<float>(args_.x.row<const bf16>(r)[c])
                                        : args_.x.row<const float>(r)[c];
  }
  const QuantizeArgs& args_;
};

/// Amax of the block of columns [begin, end) that row r of `out` belongs to: a row's or a tile's.
inline float block_amax(const Source& x, const QTensor& out, int64_t r, int64_t begin, int64_t end,
                        Nan nan = Nan::counts) {
  Amax amax(nan);
  const int64_t size = out.spec.block_size();
  const bool tile = out.spec.blocks == BlockShape::tile;
  const int64_t first = tile ? r / size * size : r;
  const int64_t last = tile ? std::min(first + size, out.rows) : r + 1;
  for (int64_t i = first; i < last; ++i) x.add(amax, i, begin, end);
  return amax.value();
}

/// Stores the code of column c of a row of codes; of two in a byte, the even column comes first.
inline void put_code(uint8_t* codes, int64_t c, uint8_t code, int bits) {
  if (bits == 8) {
    codes[c] = code;
    return;
  }
  uint8_t& byte = codes[c / 2];
  byte = c % 2 == 0 ? code : static_cast<uint8_t>(byte | (code << 4));
}
/// The code of column c.
inline uint8_t code_at(const QTensor& q, int64_t r, int64_t c) {
  const uint8_t* codes = q.codes + r * q.code_stride();
  if (format(q.spec.format).bits == 8) return codes[c];
  return c % 2 == 0 ? codes[c / 2] & 15u : codes[c / 2] >> 4;
}

}  // namespace minite::ref
