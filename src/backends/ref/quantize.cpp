#include "backends/ref/quantize.h"

#include <cmath>

#include "backends/ref/convention.h"
#include "backends/ref/numeric.h"
#include "backends/ref/quantize_source.h"

namespace minite::ref {
namespace {

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
      put_code(codes, c,
               out.spec.rounding == Rounding::nearest ? E2M1::encode(y) : E2M1::encode_stochastic(y, byte),
               4);
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

}  // namespace

void quantize(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  spec.format == FormatId::nvfp4 && !by_rule(spec) ? quantize_nvfp4(args) : quantize_by_rule(args);
  if (!args.decoded.empty()) dequantize({args.out, args.decoded, Multiplier::block});
}

void dequantize_rows(const DequantizeArgs& args, int64_t begin, int64_t end) {
  const QTensor& q = args.q;
  for (int64_t r = begin; r < end; ++r) {
    const DecodeRow row(q, r);
    for (int64_t c = 0; c < q.cols; ++c) {
      const float value = args.multiplier == Multiplier::all ? row.value(c) : decode_element(q, r, c);
      if (args.y.dtype == DType::bf16) {
        args.y.row<bf16>(r)[c] = bf16(value);
      } else {
        args.y.row<float>(r)[c] = value;
      }
    }
  }
}

void dequantize(const DequantizeArgs& args) { dequantize_rows(args, 0, args.q.rows); }

void copy_outer(const QTensor& from, const QTensor& to) {
  const int64_t n = from.outer_count();
  std::copy_n(from.outer, n, to.outer);
  std::copy_n(from.amax, n, to.amax);
  if (from.reciprocal != nullptr) std::copy_n(from.reciprocal, n, to.reciprocal);
}

void transpose_codes(const TransposeCodesArgs& args) {
  const QTensor &q = args.q, &out = args.out;
  const int bits = format(q.spec.format).bits, block = q.spec.block_size();
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      put_code(out.codes + r * out.code_stride(), c, code_at(q, c, r), bits);
      if (c % block == 0)
        out.block_scales[r * out.scale_stride() + c / block] =
            q.block_scales[c * q.scale_stride() + r / block];
    }
  }
  copy_outer(q, out);
}

}  // namespace minite::ref
