#pragma once
// 4over6 of NVFP4, one block of 16 BF16 values a thread. For .cu files only.
//
// A candidate's decoded magnitudes v are eight numbers a block. fl(fl(q d) A) is exact, as x and so A have 8
// bits, and v of 2q is twice v of q: those of 1 and 1.5 give all eight, which a thread keeps in a column of
// its own in shared memory and looks up by rank. Signs do not matter, as |v - x| = ||v| - |x||.
#include "backends/cuda/quantize/encode16.h"

namespace minite::cuda {

inline constexpr int kSearchThreads = 128;  ///< of a block of threads, at most

/// fl(x / b) for x of at most 15 bits and b = 6, 1536 or 2688, nothing subnormal: a Newton step on the
/// product with the reciprocal, compared with the division for all such x.
__device__ inline float divide(float x, float b, float reciprocal) {
  const float q = x * reciprocal;
  return fmaf(fmaf(-q, b, x), reciprocal, q);
}

/// One of the two scales with what follows from it.
struct Candidate {
  FastScale scale;
  float factor, one, more;  ///< v of 1 and of 1.5
  bool easy;
  __device__ Candidate(float t, float amax, const Outer& outer, const QuantizeJob& job)
      : scale(fast_scale(t, outer.s_dec)), factor(quick_reciprocal(scale.divisor)) {
    one = scale.value;
    more = 1.5f * scale.value;
    easy = cuda::easy(amax, factor);
    if (job.domain == Domain::none) return;
    const float reciprocal = 1.0f / job.range, whole = one * outer.amax;
    easy = easy && (whole == 0.0f || (whole >= 0x1p-100f && whole <= 0x1p100f));
    one = divide(whole, job.range, reciprocal);
    more = divide(1.5f * whole, job.range, reciprocal);
  }
};

struct Score {
  float error;
  uint2 codes;  ///< without signs
};
/// Ranks and the error of a candidate; `column` is the thread's in shared memory.
template <bool kSquares>
__device__ inline Score score(const Words8& x, const Candidate& c, float* column) {
  constexpr int kStep = kSearchThreads;
  column[0] = 0.0f;
  column[kStep] = 0.5f * c.one;
  column[2 * kStep] = c.one;
  column[3 * kStep] = c.more;
  column[4 * kStep] = 2.0f * c.one;
  column[5 * kStep] = 2.0f * c.more;
  column[6 * kStep] = 4.0f * c.one;
  column[7 * kStep] = 4.0f * c.more;
  Score s = {0.0f, {0, 0}};
  uint32_t word[2] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const float magnitude = fabsf(element(x, i));
    const uint32_t rank = rank_bits(magnitude * c.factor) - kRankBase;
    const float difference = column[rank * kStep] - magnitude;
    s.error = s.error + (kSquares ? difference * difference : fabsf(difference));
    word[i / 8] += rank << (4 * (i % 8));
  }
  s.codes = {word[0], word[1]};
  return s;
}

struct Searched {
  uint32_t byte;
  uint2 codes;
};
/// A block that the short way does not take, by the formulas. Arguments are values: what a call may point to
/// would lie in local memory for everybody.
__device__ __noinline__ inline Searched search_slowly(ScaleSearch search, Domain domain, float range,
                                                      Words8 x, float amax, Outer outer) {
  QuantizeJob job = {};
  job.search = search;
  job.domain = domain;
  job.range = range;
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = element(x, i);
  const Scale scale = search_scale(job, {}, v, amax, outer);
  uint32_t word[2] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i)
    word[i / 8] |= static_cast<uint32_t>(E2M1::encode(v[i] * scale.encode)) << (4 * (i % 8));
  return {scale.byte, {word[0], word[1]}};
}

/// Quantizes a block with the better of both scales.
template <bool kSquares>
__device__ inline void finish_searched_block(const QuantizeJob& job, const BlockPlace& to, const Words8& x,
                                             const Outer& outer) {
  __shared__ float table[8 * kSearchThreads];
  const float amax = __uint_as_float(widest(pair_max(x.w, 8)));
  const float base = divide(amax, 6.0f, kSixth) * outer.s_enc;
  const Candidate six(base, amax, outer, job), four(1.5f * base, amax, outer, job);
  const bool normal = amax == 0.0f || (amax >= 0x1p-100f && amax <= 0x1p100f);
  if (!(normal && six.easy && four.easy)) {
    const Searched found = search_slowly(job.search, job.domain, job.range, x, amax, outer);
    return store_block(to, {found.byte, e4m3_value(found.byte), 0.0f}, found.codes);
  }
  const Words8 y = plus_zeros(x);
  const uint2 signs = signs_of(y);
  const Score by_six = score<kSquares>(y, six, table + threadIdx.x),
              by_four = score<kSquares>(y, four, table + threadIdx.x);
  const bool take_four = by_four.error < by_six.error;
  const uint2 codes = take_four ? by_four.codes : by_six.codes;
  store_block(to, take_four ? four.scale : six.scale, {codes.x + signs.x, codes.y + signs.y});
}

}  // namespace minite::cuda
