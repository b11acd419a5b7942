#pragma once
// Block scales of NVFP4 in lanes: the plain rule and 4over6 (formulas: backends/ref/quantize.h).
#include "backends/simd/encode.h"
#include "backends/simd/tasks.h"
#include "backends/simd/transpose.h"

namespace minite::simd::MINITE_ISA {

/// The scales of one outer domain; the defaults are those of no outer scale.
struct Nvfp4Outer {
  float s_enc = 1.0f;
  float s_dec = 1.0f;  ///< fl(1 / S_enc)
  float amax = 0.0f;
};
MINITE_INLINE Nvfp4Outer nvfp4_outer(float amax, const QuantSpec& spec) {
  const float s_enc = ref::nvfp4_encode_scale(amax, ref::nvfp4_range(spec));
  return {s_enc, 1.0f / s_enc, amax};
}
/// The same with a domain a lane.
struct OuterLanes {
  vf s_enc, s_dec, amax;
  MINITE_INLINE explicit OuterLanes(const Nvfp4Outer& o) : s_enc(o.s_enc), s_dec(o.s_dec), amax(o.amax) {}
  MINITE_INLINE OuterLanes(const float* e, const float* d, const float* a)
      : s_enc(load(e)), s_dec(load(d)), amax(load(a)) {}
};

/// Sixteen elements of sixteen blocks: element i of every block is one vector.
struct BlockLanes {
  alignas(64) float v[16][kLanes];
  [[nodiscard]] MINITE_INLINE vf operator[](int64_t i) const { return load(v[i]); }
};

/// Each lane's error of a 4over6 candidate over its block.
MINITE_INLINE vf candidate_error(const BlockLanes& x, const Nvfp4Blocks& blocks, const OuterLanes& outer,
                                 const QuantSpec& spec) {
  const vf d = decode_e4m3(blocks.scale), range(ref::nvfp4_range(spec));
  vf error;
  for (int64_t i = 0; i < 16; ++i) {
    vf v = lookup16(kE2M1, encode_e2m1(x[i] * blocks.encode)) * d;
    if (spec.outer != OuterScale::none) v = v * outer.amax / range;
    const vf difference = v - x[i];
    error = error + (spec.search == ScaleSearch::four_six_mae ? from_bits(magnitude_bits(difference))
                                                              : difference * difference);
  }
  return error;
}

/// The two candidates of 4over6.
struct Candidates {
  Nvfp4Blocks six, four;
  MINITE_INLINE Candidates(vf amax, const OuterLanes& outer)
      : six(nvfp4_with_scale(amax / vf(6.0f) * outer.s_enc, outer.s_dec)),
        four(nvfp4_with_scale(vf(1.5f) * (amax / vf(6.0f) * outer.s_enc), outer.s_dec)) {}
  MINITE_INLINE Nvfp4Blocks choose(vmask take_four) const {
    return {select(take_four, four.scale, six.scale), select(take_four, four.encode, six.encode)};
  }
};

/// Scales of sixteen 1D blocks whose elements are `x` (read by 4over6 only: x() makes them).
template <class Elements>
MINITE_INLINE Nvfp4Blocks choose_blocks(vf amax, const OuterLanes& outer, const QuantSpec& spec,
                                        const Elements& x) {
  if (spec.search == ScaleSearch::amax)
    return nvfp4_with_scale(amax * (outer.s_enc * vf(ref::kSixth)), outer.s_dec);
  const Candidates c(amax, outer);
  const BlockLanes elements = x();
  return c.choose(candidate_error(elements, c.four, outer, spec) <
                  candidate_error(elements, c.six, outer, spec));
}

/// Rows [top, top + 16) and columns [left, left + 16) of x turned: lane r holds row r; zeros past the end.
template <class T>
MINITE_INLINE BlockLanes tile_lanes(const TensorView& x, int64_t top, int64_t left) {
  alignas(64) float rows[16 * kLanes] = {};
  BlockLanes turned;
  const int64_t n = min64(kLanes, x.cols - left);
  for (int64_t r = 0; r < min64(16, x.rows - top); ++r)
    store(rows + r * kLanes, load_n(x.row<const T>(top + r) + left, n));
  transpose16(rows, kLanes, turned.v[0], kLanes);
  return turned;
}

/// Scale of the 16 x 16 tile at (top, left) of x, in every lane.
template <class T>
MINITE_INLINE Nvfp4Blocks choose_tile(vf amax, const OuterLanes& outer, const QuantSpec& spec,
                                      const TensorView& x, int64_t top, int64_t left) {
  if (spec.search == ScaleSearch::amax) return choose_blocks(amax, outer, spec, [] { return BlockLanes{}; });
  const Candidates c(amax, outer);
  const BlockLanes elements = tile_lanes<T>(x, top, left);
  const float four = fold_add(candidate_error(elements, c.four, outer, spec));
  const float six = fold_add(candidate_error(elements, c.six, outer, spec));
  return c.choose(vf(four) < vf(six));
}

/// Rounds one vector of scaled values; `u` holds the random bytes of stochastic rounding.
MINITE_INLINE vi round_e2m1(vf y, const QuantSpec& spec, vi u) {
  return spec.rounding == Rounding::nearest ? encode_e2m1(y) : encode_e2m1_stochastic(y, u);
}

}  // namespace minite::simd::MINITE_ISA
