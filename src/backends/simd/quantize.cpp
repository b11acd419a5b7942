// quantize, dequantize and swiglu_quantize (formulas: backends/ref/quantize.h). The fused op always writes y
// as well: a row's codes are made from its y while that is in cache.
#include "backends/ref/convention.h"
#include "backends/simd/kernels.h"
#include "backends/simd/quantize_amax.h"
#include "backends/simd/quantize_columns.h"
#include "backends/simd/swiglu_row.h"
#include "backends/simd/transpose_codes.h"

namespace minite::simd::MINITE_ISA {
namespace {

template <class T>
void quantize_rows(const QuantizeArgs& args, const Exec& exec, const Nvfp4Outer& outer) {
  const QTensor& out = args.out;
  const int64_t strip = out.spec.blocks == BlockShape::tile ? format(out.spec.format).block : 1;
  for_rows(exec, ceil_div(out.rows, strip), strip * out.cols, [&](int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      const int64_t r = s * strip;
      quantize_strip(RowStrip<T>{args.x, r, min64(strip, out.rows - r)}, outer, out, args.noise);
    }
  });
}

/// Whether rows of a spec take quantize_quotient_row().
bool by_quotient(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  return spec.format == FormatId::nvfp4 && args.along == Orientation::rows &&
         spec.blocks == BlockShape::row &&
         (spec.search == ScaleSearch::amax || spec.search == ScaleSearch::amax4) &&
         spec.outer != OuterScale::row && spec.rotation == Rotation::none &&
         nvfp4_rule(spec.convention).quotient_nan >= 0;
}

/// A row under a rule whose codes are E2M1(x / factor): amaxes and codes in lanes, a block's scale and factor
/// by the rule itself.
template <class T>
void quantize_quotient_row(const T* x, int64_t r, const QTensor& out, const Nvfp4Rule& rule,
                           const PeerOuter& outer, const PeerContext& context) {
  constexpr int64_t kGroup = 16 * 16;
  const vi nan(static_cast<uint32_t>(rule.quotient_nan));
  uint8_t* codes = out.codes + r * out.code_stride();
  uint8_t* scales = out.block_scales + r * out.scale_stride();
  for (int64_t begin = 0; begin < out.cols; begin += kGroup) {
    const int64_t n = min64(kGroup, out.cols - begin), blocks = ceil_div(n, 16);
    alignas(64) float amax[kLanes], factor[kLanes];
    store(amax, from_bits(block_amaxes<16>(x + begin, n)));
    for (int64_t b = 0; b < blocks; ++b) {
      scales[begin / 16 + b] = rule.scale(amax[b], outer, context, 1.0f);
      factor[b] = rule.factor(scales[begin / 16 + b], outer);
    }
    for_lanes(n, [&](int64_t i, int64_t lanes) {
      const vf y = load_n(x + begin + i, lanes) / vf(factor[i / 16]);
      const uint64_t bytes = pack_nibbles(select(is_nan(y), nan, e2m1_low_bits(y) & vi(15u)));
      std::memcpy(codes + (begin + i) / 2, &bytes, static_cast<size_t>((lanes + 1) / 2));
    });
    if (n % 2 != 0) codes[(begin + n) / 2] &= 0x0Fu;  // the half of a byte that no element has
  }
}

/// Rules without a vector body: the reference's rows, spread over the threads.
template <class T>
void quantize_scalar_rows(const QuantizeArgs& args, const Exec& exec) {
  const QTensor& out = args.out;
  const bool shares = ref::shares_outer(out.spec);
  const PeerOuter shared =
      shares ? ref::store_outer(args, 0, shared_amax<T>(args.x, out.spec, exec)) : PeerOuter{};
  if (by_quotient(args)) {
    const PeerContext context =
        peer_context(out.spec, args.x.dtype == DType::bf16 ? DType::bf16 : args.stored);
    for_rows(exec, out.rows, out.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        quantize_quotient_row(args.x.row<const T>(r), r, out, nvfp4_rule(out.spec.convention), shared,
                              context);
    });
    return;
  }
  for_rows(exec, out.rows, out.cols,
           [&](int64_t begin, int64_t end) { ref::quantize_rows(args, shared, begin, end); });
}

template <class T>
void quantize_typed(const QuantizeArgs& args, const Exec& exec) {
  const QTensor& out = args.out;
  if (out.rows == 0) return;
  if (!in_lanes(out.spec)) return quantize_scalar_rows<T>(args, exec);
  const Nvfp4Outer outer = shares_outer(out) ? shared_outer<T>(args.x, out, exec) : Nvfp4Outer{};
  if (args.along == Orientation::rows) return quantize_rows<T>(args, exec, outer);
  // Tiles of columns by rows of x; a tile whose columns have scales of their own takes all rows.
  const int64_t rows = out.spec.outer == OuterScale::row ? max64(out.cols, 1) : 512;
  const int64_t down = max64(1, ceil_div(out.cols, rows));
  for_tasks(exec, down * ceil_div(args.x.cols, kColumns), [&](int64_t task, int) {
    const int64_t c = task / down * kColumns, r = task % down * rows;
    quantize_columns<T>(args, c, min64(kColumns, args.x.cols - c), r, min64(out.cols, r + rows), outer);
  });
}

/// Whether dequantize_row() decodes a spec: NVFP4 of every convention, since each multiplies codes with one
/// number a block; else what products read.
bool decodes_in_lanes(const QuantSpec& spec) {
  return in_lanes(spec) || spec.format == FormatId::nvfp4 || operand_in_lanes(spec);
}

/// Row r decoded in the convention's order.
template <class T>
MINITE_INLINE void dequantize_row(const QTensor& q, int64_t r, T* y) {
  constexpr int64_t kGroup = 16 * 16;
  const uint8_t* codes = q.codes + r * q.code_stride();
  const uint8_t* scales = q.block_scales + r * q.scale_stride();
  const float* amax = q.outer_count() == 0 ? nullptr : q.amax + (q.spec.outer == OuterScale::row ? r : 0);
  for (int64_t c = 0; c < q.cols; c += kGroup) {
    const int64_t n = min64(kGroup, q.cols - c);
    alignas(64) float out[kGroup], d[kLanes];
    if (q.spec.format != FormatId::nvfp4) {
      decode_row(q, r, c, c + n, out);
    } else if (ref::by_rule(q.spec)) {
      const Nvfp4Rule& rule = nvfp4_rule(q.spec.convention);
      const PeerContext context = peer_context(q.spec, DType::f32);
      const float stored = q.stored_global(r);
      for (int64_t b = 0; b < ceil_div(n, 16); ++b) d[b] = rule.decode(scales[c / 16 + b], stored, context);
      decode_nvfp4(
          codes, c, c + n, [&](int64_t b) { return d[b - c / 16]; }, out);
    } else {
      vf scale = decode_e4m3(load_u8(scales + c / 16, ceil_div(n, 16)));
      if (amax != nullptr) scale = scale * vf(*amax) * vf(1.0f / ref::nvfp4_range(q.spec));
      store(d, scale);
      decode_nvfp4(
          codes, c, c + n, [&](int64_t b) { return d[b - c / 16]; }, out);
    }
    for_lanes(n, [&](int64_t i, int64_t lanes) { store_n(y + c + i, load(out + i), lanes); });
  }
}

}  // namespace

Support supports_quantize(const QuantSpec& spec) {
  return {true, in_lanes(spec) ? "quantize_lanes" : "quantize_reference_rows", {}, true, {}};
}

void quantize(const QuantizeArgs& args, const Exec& exec) {
  with_type("quantize", args.x.dtype, [&](auto tag) { quantize_typed<decltype(tag)>(args, exec); });
  if (!args.decoded.empty()) dequantize({args.out, args.decoded, Multiplier::block}, exec);
}

void dequantize(const DequantizeArgs& args, const Exec& exec) {
  with_type("dequantize", args.y.dtype, [&](auto tag) {
    for_rows(exec, args.q.rows, args.q.cols, [&](int64_t begin, int64_t end) {
      if (!decodes_in_lanes(args.q.spec) || args.multiplier == Multiplier::block)
        return ref::dequantize_rows(args, begin, end);
      for (int64_t r = begin; r < end; ++r) dequantize_row(args.q, r, args.y.row<decltype(tag)>(r));
    });
  });
}

void transpose_codes(const TransposeCodesArgs& args, const Exec& exec) {
  const QTensor &q = args.q, &out = args.out;
  // A block is a multiple of 8: where it is no multiple of 16, tiles of codes and blocks of scales do not
  // meet.
  if (q.spec.block_size() % kCodeTile != 0) return ref::transpose_codes(args);
  const bool nibbles = format(q.spec.format).bits == 4;
  for_rows(exec, ceil_div(q.cols, kCodeTile), kCodeTile * q.rows, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin * kCodeTile; c < min64(end * kCodeTile, q.cols); c += kCodeTile) {
      for (int64_t r = 0; r < q.rows; r += kCodeTile) {
        nibbles ? transpose_tile<4>(q, out, r, c) : transpose_tile<8>(q, out, r, c);
        transpose_tile_scale(q, out, r, c);
      }
    }
  });
  ref::copy_outer(q, out);
}

void swiglu_quantize(const SwigluQuantizeArgs& args, const Exec& exec) {
  with_type("swiglu_quantize", args.act.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    if (!row_by_row(args.out)) {
      swiglu(args.act, exec);
      return quantize_typed<T>({args.act.y, Orientation::rows, args.out, {}}, exec);
    }
    for_rows(exec, args.act.y.rows, args.act.y.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        swiglu_row(args.act.x.row<const T>(r), args.act.y.cols, args.act.y.row<T>(r));
        quantize_row<T>(args.act.y, r, args.out);
      }
    });
  });
}

void add_norm_quantize(const AddNormQuantizeArgs& args, const Exec& exec) {
  add(args.add, exec);
  norm_quantize({args.norm, args.out}, exec);
}

void permute_quantize(const PermuteQuantizeArgs& args, const Exec& exec) {
  permute(args.permute, exec);
  quantize({args.permute.y, Orientation::rows, args.out, {}}, exec);
}

}  // namespace minite::simd::MINITE_ISA
