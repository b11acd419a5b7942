#pragma once
// NVFP4 under convention te on the device: the formulas of backends/ref/quantize.h, operation by operation.
// For .cu files only.
#include "backends/cuda/quantize/load.h"
#include "core/philox.h"

namespace minite::cuda {

inline constexpr float kFloatMax = 3.40282346638528859812e+38f;
inline constexpr float kSixth = 0x1.555556p-3f;  // fl(1/6)

/// The outer scale of one domain.
struct Outer {
  float s_enc, s_dec, amax;
};
__device__ inline float clamp_finite(float x) { return x > kFloatMax ? kFloatMax : x; }
__device__ inline Outer outer_scale(float amax, float range) {
  const float s = clamp_finite(range / amax);
  const float s_enc = amax == 0.0f || s == 0.0f ? 1.0f : s;
  return {s_enc, 1.0f / s_enc, amax};
}
/// Rows of a job along rows, those of its groups where it has any.
__device__ inline int64_t rows_of(const QuantizeJob& job) {
  return job.groups.offset == nullptr ? job.out.rows : group_begin(job.groups, job.groups.count);
}
/// Which outer scale row r has.
__device__ inline int64_t domain_at(const QuantizeJob& job, int64_t r) {
  if (job.domain == Domain::group) return group_of_row(job.groups, static_cast<int>(r));
  return job.domain == Domain::row ? r : 0;
}
/// Of row r, whose amax a kernel before has written; 1 without an outer scale.
__device__ inline Outer outer_of(const QuantizeJob& job, int64_t r) {
  if (job.domain == Domain::none) return {1.0f, 1.0f, 0.0f};
  return outer_scale(job.out.amax[domain_at(job, r)], job.range);
}
/// Stores the multiplier once for each domain: by the thread of its first block.
__device__ inline void store_outer(const QuantizeJob& job, const Place& at, const Outer& outer) {
  if (job.domain == Domain::none || at.b != 0 || (job.domain == Domain::tensor && at.r != 0)) return;
  const int64_t domain = domain_at(job, at.r);
  if (job.domain == Domain::group && at.r != group_begin(job.groups, static_cast<int>(domain))) return;
  job.out.outer[domain] = outer.s_dec;
}

/// A block's scale byte and the factor of its elements.
struct Scale {
  uint8_t byte;
  float encode;
};
__device__ inline Scale scale_of(float t, const Outer& outer) {
  const uint8_t d = E4M3::encode(clamp_finite(t));
  return {d, clamp_finite(1.0f / (E4M3::decode(d) * outer.s_dec))};
}

/// Error of a 4over6 candidate on 16 elements, in order.
__device__ inline float candidate_error(const float* x, const Scale& scale, const Outer& outer,
                                        const QuantizeJob& job) {
  const float d = E4M3::decode(scale.byte);
  float error = 0;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float v = E2M1::decode(E2M1::encode(x[i] * scale.encode)) * d;
    if (job.domain != Domain::none) v = v * outer.amax / job.range;
    const float difference = v - x[i];
    error = error + (job.search == ScaleSearch::four_six_mae ? fabsf(difference) : difference * difference);
  }
  return error;
}

/// The 4over6 choice. In a tile the errors are those of its rows as x has them, folded 8, 4, 2, 1 over the 16
/// lanes that own it (a + b and b + a have the same bits).
__device__ inline Scale search_scale(const QuantizeJob& job, const Place& at, const float* v, float amax,
                                     const Outer& outer) {
  const float base = amax / 6.0f * outer.s_enc;
  const Scale six = scale_of(base, outer), four = scale_of(1.5f * base, outer);
  float rows[16];
  const float* x = v;
  int64_t row = at.r, end = job.x.rows;
  if (job.tile && job.x.columns) {
    DeviceSource plain = job.x;  // x itself: its row of the tile in place of the column
    plain.columns = false;
    plain.rows = end = job.x.cols;
    plain.cols = job.x.rows;
    row = at.b * 16 + at.r % 16;
    load_block<16>(plain, row, at.r / 16 * 16, rows);
    x = rows;
  }
  float e6 = candidate_error(x, six, outer, job), e4 = candidate_error(x, four, outer, job);
  if (job.tile) {
    if (row >= end) e6 = e4 = 0.0f;
#pragma unroll
    for (int lane = 8; lane > 0; lane /= 2) {
      e6 = e6 + __shfl_xor_sync(0xFFFFFFFFu, e6, lane);
      e4 = e4 + __shfl_xor_sync(0xFFFFFFFFu, e4, lane);
    }
  }
  return e4 < e6 ? four : six;
}

/// Codes of 16 elements.
__device__ inline void encode_block(const QuantizeJob& job, const Place& at, const float* v, float factor,
                                    uint8_t* code) {
  if (!job.stochastic) {
#pragma unroll
    for (int i = 0; i < 16; ++i) code[i] = E2M1::encode(v[i] * factor);
    return;
  }
  const auto counter = static_cast<uint64_t>(at.r * job.out.scale_stride + at.b);
  const std::array<uint32_t, 4> noise = Philox::generate(job.seed, counter, job.stream);
#pragma unroll
  for (int i = 0; i < 16; ++i)
    code[i] = E2M1::encode_stochastic(v[i] * factor, noise[i / 4] >> (8 * (i % 4)) & 0xFFu);
}

/// The block at a place: scale, codes and decoded values as far as they are wanted. In a tile all lanes call
/// it.
__device__ inline void quantize_place(const QuantizeJob& job, const Place& at) {
  float v[16];
  load_block<16>(job.x, at.r, at.b * 16, v);
  const Outer outer = outer_of(job, at.inside ? at.r : 0);
  const uint32_t own = amax_bits<16>(v);
  const float amax = __uint_as_float(job.tile ? tile_max<16>(own) : own);
  const Scale scale = job.search == ScaleSearch::amax ? scale_of(amax * (outer.s_enc * kSixth), outer)
                                                      : search_scale(job, at, v, amax, outer);
  if (!at.inside) return;
  store_outer(job, at, outer);
  uint8_t code[16];
  encode_block(job, at, v, scale.encode, code);
  if (job.out.codes != nullptr) {
    job.out.scales[at.r * job.out.scale_stride + at.b] = scale.byte;
    store_codes<4, 16>(job.out, at.r, at.b * 16, code);
  }
  if (job.decoded == nullptr) return;
  const float d = E4M3::decode(scale.byte);
  bf16* to = job.decoded + at.r * job.decoded_stride + at.b * 16 * job.decoded_step;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (at.b * 16 + i < job.decoded_cols) to[i * job.decoded_step] = bf16(E2M1::decode(code[i]) * d);
  }
}

}  // namespace minite::cuda
