#include "backends/ref/quantize.h"

#include <algorithm>
#include <cmath>

#include "backends/ref/numeric.h"
#include "formats/sim.h"

namespace minite::ref {
namespace {

using Block16 = std::array<float, 16>;

/// z of the `rht` formula.
Block16 hadamard(Block16 v) {
  for (uint32_t i = 0; i < 16; ++i) {
    if ((kHadamardSigns >> i & 1u) != 0) v[i] = -v[i];
  }
  for (uint32_t stride = 1; stride < 16; stride *= 2) {
    for (uint32_t i = 0; i < 16; ++i) {
      if ((i & stride) != 0) continue;
      const float a = v[i], b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
  }
  for (float& x : v) x = static_cast<float>(bf16(x * 0.25f));
  return v;
}

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
float block_amax(const Source& x, const QTensor& out, int64_t r, int64_t begin, int64_t end) {
  Amax amax;
  const int64_t size = format(out.spec.format).block;
  const bool tile = out.spec.blocks == BlockShape::tile;
  const int64_t first = tile ? r / size * size : r;
  const int64_t last = tile ? std::min(first + size, out.rows) : r + 1;
  for (int64_t i = first; i < last; ++i) x.add(amax, i, begin, end);
  return amax.value();
}

/// The outer scale of one domain; without one, S_enc = 1 and nothing is stored.
struct Outer {
  float s_enc = 1, s_dec = 1, amax = 0;
};

/// Error of one 4over6 candidate on one block of 16 elements.
float candidate_error(const Block16& x, const Nvfp4Block& block, const Outer& outer, const QuantSpec& spec) {
  float error = 0;
  for (const float value : x) {
    float v = E2M1::decode(E2M1::encode(value * block.encode)) * E4M3::decode(block.scale);
    if (spec.outer != OuterScale::none) v = v * outer.amax / nvfp4_range(spec);
    const float difference = v - value;
    error =
        error + (spec.search == ScaleSearch::four_six_mae ? std::fabs(difference) : difference * difference);
  }
  return error;
}

/// The sum of a candidate's errors over a block: one row of 16, or the 16 rows of a tile.
float block_error(const Source& x, const QuantizeArgs& args, int64_t r, int64_t begin,
                  const Nvfp4Block& block, const Outer& outer) {
  const QuantSpec& spec = args.out.spec;
  if (spec.blocks == BlockShape::row) return candidate_error(x.block(r, begin), block, outer, spec);
  // Rows of the tile as w has them, whichever way it is read.
  QuantizeArgs by_rows = args;
  by_rows.along = Orientation::rows;
  const Source w(by_rows);
  const bool rows = args.along == Orientation::rows;
  const int64_t top = rows ? r / 16 * 16 : begin, left = rows ? begin : r / 16 * 16;
  std::array<float, 16> errors{};
  for (int64_t i = 0; i < std::min<int64_t>(16, args.x.rows - top); ++i)
    errors[static_cast<size_t>(i)] = candidate_error(w.block(top + i, left), block, outer, spec);
  return lane_sum<float>(16, [&](float sum, int64_t i) { return sum + errors[static_cast<size_t>(i)]; });
}

Nvfp4Block choose_block(const Source& x, const QuantizeArgs& args, int64_t r, int64_t begin, float amax,
                        const Outer& outer) {
  const auto with_scale = [&](float t) {
    const uint8_t d = E4M3::encode(clamp_finite(t));
    return Nvfp4Block{d, nvfp4_encode(d, outer.s_dec)};
  };
  if (args.out.spec.search == ScaleSearch::amax) return with_scale(amax * (outer.s_enc * kSixth));
  const float base = amax / 6.0f * outer.s_enc;
  const Nvfp4Block six = with_scale(base), four = with_scale(1.5f * base);
  const bool smaller =
      block_error(x, args, r, begin, four, outer) < block_error(x, args, r, begin, six, outer);
  return smaller ? four : six;
}

void put_nibble(uint8_t* codes, int64_t c, uint8_t code) {
  uint8_t& byte = codes[c / 2];
  byte = c % 2 == 0 ? code : static_cast<uint8_t>(byte | (code << 4));
}

void nvfp4_row(const Source& x, const QuantizeArgs& args, int64_t r, const Outer& outer) {
  const QTensor& out = args.out;
  uint8_t* codes = out.codes + r * out.code_stride();
  for (int64_t begin = 0, b = 0; begin < out.cols; begin += 16, ++b) {
    const int64_t end = std::min(begin + 16, out.cols), index = r * out.scale_stride() + b;
    const Nvfp4Block block = choose_block(x, args, r, begin, block_amax(x, out, r, begin, end), outer);
    out.block_scales[index] = block.scale;
    const Block16 v = x.block(r, begin);
    const auto noise = rounding_noise(args.noise, index);
    for (int64_t c = begin; c < end; ++c) {
      const auto i = static_cast<size_t>(c - begin);
      const float y = v[i] * block.encode;
      const uint32_t byte = noise[i / 4] >> (8 * (i % 4)) & 0xFFu;
      put_nibble(codes, c,
                 out.spec.rounding == Rounding::nearest ? E2M1::encode(y) : E2M1::encode_stochastic(y, byte));
    }
  }
}

void quantize_nvfp4(const QuantizeArgs& args) {
  const Source x(args);
  const QTensor& out = args.out;
  const bool by_row = out.spec.outer == OuterScale::row;
  Outer outer;
  for (int64_t r = 0; r < out.rows; ++r) {
    if (out.spec.outer != OuterScale::none && (by_row || r == 0)) {
      Amax amax;
      for (int64_t i = r; i < (by_row ? r + 1 : out.rows); ++i) x.add(amax, i, 0, out.cols);
      outer.amax = amax.value();
      outer.s_enc = nvfp4_encode_scale(outer.amax, nvfp4_range(out.spec));
      outer.s_dec = 1.0f / outer.s_enc;
      out.amax[r] = outer.amax;
      out.outer[r] = outer.s_dec;
    }
    nvfp4_row(x, args, r, outer);
  }
}

/// Blocks with one byte an element: `scale_of(amax)` gives the scale byte, `code_of(x, scale)` an element.
template <class ScaleOf, class CodeOf>
void quantize_bytes(const QuantizeArgs& args, const ScaleOf& scale_of, const CodeOf& code_of) {
  const Source x(args);
  const QTensor& out = args.out;
  const int64_t size = format(out.spec.format).block;
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t begin = 0, b = 0; begin < out.cols; begin += size, ++b) {
      const int64_t end = std::min(begin + size, out.cols);
      const uint8_t scale = scale_of(block_amax(x, out, r, begin, end));
      out.block_scales[r * out.scale_stride() + b] = scale;
      for (int64_t c = begin; c < end; ++c) {
        const float value = x.block(r, c / 16 * 16)[static_cast<size_t>(c % 16)];
        out.codes[r * out.code_stride() + c] = code_of(value, scale);
      }
    }
  }
}

void quantize_mxfp8(const QuantizeArgs& args) {
  quantize_bytes(
      args, [](float amax) { return E8M0::encode_round_up(amax * (1.0f / 448.0f)); },
      // Every NaN is one byte: the sign of a product of NaNs depends on the order of its operands.
      [](float x, uint8_t scale) {
        const float y = x * E8M0::inverse(scale);
        return codec_detail::is_nan(y) ? E4M3::kNaN : E4M3::encode(y);
      });
}

float decode_sim_scale(const Format& format, uint8_t scale) {
  return format.block_scale == Element::e8m0 ? E8M0::decode(scale) : E4M3::decode(scale);
}

void quantize_sim(const QuantizeArgs& args) {
  const Format& row = format(args.out.spec.format);
  with_sim_element(row.element, [&](auto element) {
    using Codec = decltype(element);
    quantize_bytes(
        args,
        [&](float amax) {
          const float t = amax / Codec::kMax;
          return row.block_scale == Element::e8m0 ? E8M0::encode_round_up(t) : E4M3::encode(t);
        },
        [&](float x, uint8_t scale) { return Codec::encode(x / decode_sim_scale(row, scale)); });
  });
}

float nvfp4_code(const QTensor& q, int64_t r, int64_t c) {
  const uint8_t byte = q.codes[r * q.code_stride() + c / 2];
  return E2M1::decode(c % 2 == 0 ? byte & 15u : byte >> 4);
}

float dequantize_element(const QTensor& q, int64_t r, int64_t c) {
  if (q.spec.format != FormatId::nvfp4) return decode_element(q, r, c);
  const float* amax = q.outer_count() == 0 ? nullptr : q.amax + (q.spec.outer == OuterScale::row ? r : 0);
  return nvfp4_code(q, r, c) *
         nvfp4_decode_scale(q.block_scales[r * q.scale_stride() + c / 16], amax, nvfp4_range(q.spec));
}

}  // namespace

void quantize(const QuantizeArgs& args) {
  switch (args.out.spec.format) {
    case FormatId::nvfp4:
      return quantize_nvfp4(args);
    case FormatId::mxfp8:
      return quantize_mxfp8(args);
    default:
      return quantize_sim(args);
  }
}

float decode_element(const QTensor& q, int64_t r, int64_t c) {
  const Format& row = format(q.spec.format);
  const uint8_t scale = q.block_scales[r * q.scale_stride() + c / row.block];
  if (q.spec.format == FormatId::nvfp4) return nvfp4_code(q, r, c) * E4M3::decode(scale);
  const uint8_t code = q.codes[r * q.code_stride() + c];
  if (q.spec.format == FormatId::mxfp8) return E4M3::decode(code) * E8M0::decode(scale);
  return with_sim_element(row.element, [&](auto element) {
    return decltype(element)::decode(code) * decode_sim_scale(row, scale);
  });
}

void dequantize(const DequantizeArgs& args) {
  for (int64_t r = 0; r < args.q.rows; ++r) {
    for (int64_t c = 0; c < args.q.cols; ++c) {
      const float value = dequantize_element(args.q, r, c);
      if (args.y.dtype == DType::bf16) {
        args.y.row<bf16>(r)[c] = bf16(value);
      } else {
        args.y.row<float>(r)[c] = value;
      }
    }
  }
}

}  // namespace minite::ref
