// NVFP4 along the columns of groups of BF16 rows, nearest: a thread owns two neighbouring columns and walks
// blocks of 16 rows, so that x and the decoded values are read and written by whole lines of memory.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/quantize/encode16.h"
#include "backends/cuda/quantize/group_place.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 128, kStrip = 8;  ///< blocks of 16 rows of a thread

/// Walks the strip of a block of threads.
struct Walk {
  const DeviceGroups& groups;
  GroupUnit at;
  int64_t padded;  ///< S_g
  int left;        ///< blocks

  __device__ Walk(const DeviceGroups& all, const BlockTable& table, int first) : groups(all) {
    left = min(kStrip, table.units(groups) - first);
    if (left <= 0) return;
    at = table.find(groups, first, 16);
    padded = int64_t{16} * (first - at.unit);
  }
  [[nodiscard]] __device__ int row() const { return at.begin + 16 * at.unit; }
  [[nodiscard]] __device__ int rows() const { return min(16, at.rows - 16 * at.unit); }
  /// The next block; whether it is another group's.
  __device__ bool next() {
    if (--left == 0) return true;
    if (16 * ++at.unit < at.rows) return false;
    padded += 16 * at.unit;
    at.unit = 0;
    do {
      at.begin += at.rows;
      at.rows = group_begin(groups, ++at.group + 1) - at.begin;
    } while (at.rows <= 0);
    return true;
  }
};

/// Columns c and c + 1 of a block: word k holds row k of both; zeros past the group.
__device__ void load_pair(const QuantizeJob& job, const Walk& walk, int64_t c, uint32_t (&w)[16]) {
  const bf16* from = static_cast<const bf16*>(job.x.x) + walk.row() * job.x.stride + c;
  const int rows = walk.rows();
#pragma unroll
  for (int k = 0; k < 16; ++k)
    w[k] = k < rows ? *reinterpret_cast<const uint32_t*>(from + k * job.x.stride) : 0;
}

__global__ void __launch_bounds__(kThreads) amax_kernel(QuantizeJob job) {
  __shared__ BlockTable table;
  table.fill(job.groups, 16);
  const int64_t c = 2 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  const bool inside = c < job.out.rows;
  auto* amax = reinterpret_cast<unsigned*>(job.out.amax);
  Walk walk(job.groups, table, static_cast<int>(blockIdx.y) * kStrip);
  uint32_t most = 0;
  while (walk.left > 0) {
    if (inside) {
      uint32_t w[16];
      load_pair(job, walk, c, w);
      most = larger(most, pair_max(w, 16));
    }
    const int group = walk.at.group;
    if (!walk.next()) continue;
    most &= 0x7FFF7FFFu;
    if (job.domain == Domain::group) {
      const uint32_t all = __reduce_max_sync(0xFFFFFFFFu, widest(most));
      if (threadIdx.x % 32 == 0) atomicMax(amax + group, all);
    } else if (inside) {
      atomicMax(amax + group * job.out.rows + c, most << 16);
      atomicMax(amax + group * job.out.rows + c + 1, most & 0xFFFF0000u);
    }
    most = 0;
  }
}

/// Outer scales of columns c and c + 1 in the walk's group; those of its first block store them.
__device__ void pair_scales(const QuantizeJob& job, const Walk& walk, int64_t c, Outer (&outer)[2]) {
  if (job.domain == Domain::none) {
    outer[0] = outer[1] = {1.0f, 1.0f, 0.0f};
    return;
  }
  const bool shared = job.domain == Domain::group;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t at = shared ? walk.at.group : walk.at.group * job.out.rows + c + h;
    outer[h] = outer_scale(job.out.amax[at], job.range);
    if (walk.at.unit == 0 && (!shared || c + h == 0)) job.out.outer[at] = outer[h].s_dec;
  }
}

/// Values of both columns, back in the places of x.
__device__ void store_decoded(const QuantizeJob& job, const Walk& walk, int64_t c, const uint2 (&codes)[2],
                              const float (&scale)[2]) {
  bf16* to = job.decoded + walk.row() * job.decoded_step + c;
  const int rows = walk.rows();
  const uint32_t both[2] = {pack_bf16(scale[0], scale[0]), pack_bf16(scale[1], scale[1])};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    uint32_t v[2][4];
#pragma unroll
    for (int h = 0; h < 2; ++h) decode_e2m1(half == 0 ? codes[h].x : codes[h].y, v[h]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t a = multiply_bf16(v[0][i], both[0]), b = multiply_bf16(v[1][i], both[1]);
      const int k = 8 * half + 2 * i;
      if (k < rows) *reinterpret_cast<uint32_t*>(to + k * job.decoded_step) = __byte_perm(a, b, 0x5410);
      if (k + 1 < rows)
        *reinterpret_cast<uint32_t*>(to + (k + 1) * job.decoded_step) = __byte_perm(a, b, 0x7632);
    }
  }
}

/// The two blocks of a thread.
__device__ void quantize_pair(const QuantizeJob& job, const Walk& walk, int64_t c, const Outer (&outer)[2]) {
  uint32_t w[16];
  load_pair(job, walk, c, w);
#pragma unroll
  for (int k = 0; k < 16; ++k) w[k] = add_zero(w[k]);
  const uint32_t most = pair_max(w, 16);
  uint2 signs[2], codes[2];
  float values[2];
  signs_across(w, signs[0].x, signs[1].x);
  signs_across(w + 8, signs[0].y, signs[1].y);
  const int64_t blocks = (walk.at.rows + 15) / 16;  // of a column of the group
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float amax = __uint_as_float(h == 0 ? most << 16 : most & 0xFFFF0000u);
    const FastScale scale = fast_scale(amax * (outer[h].s_enc * kSixth), outer[h].s_dec);
    codes[h] =
        encode_nearest([&](int k) { return h == 1 ? high(w[k]) : low(w[k]); }, signs[h], amax, scale.divisor);
    values[h] = scale.value;
    if (job.out.codes == nullptr) continue;
    const int64_t at = job.out.rows * walk.padded / 16 + (c + h) * blocks + walk.at.unit;
    job.out.scales[at] = static_cast<uint8_t>(scale.byte);
    reinterpret_cast<uint2*>(job.out.codes)[at] = codes[h];
  }
  if (job.decoded != nullptr) store_decoded(job, walk, c, codes, values);
}

__global__ void __launch_bounds__(kThreads) quantize_kernel(QuantizeJob job) {
  __shared__ BlockTable table;
  table.fill(job.groups, 16);
  const int64_t c = 2 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  if (c >= job.out.rows) return;
  Walk walk(job.groups, table, static_cast<int>(blockIdx.y) * kStrip);
  Outer outer[2];
  bool fresh = true;
  while (walk.left > 0) {
    if (fresh) pair_scales(job, walk, c, outer);
    quantize_pair(job, walk, c, outer);
    fresh = walk.next();
  }
}

bool aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

}  // namespace

bool group_columns_fit(const QuantizeJob& job) {
  return job.x.columns && !job.x.f32 && !job.x.rotated && !job.stochastic &&
         job.search == ScaleSearch::amax && job.out.rows % 2 == 0 && job.x.stride % 2 == 0 &&
         job.decoded_step % 2 == 0 && aligned(job.x.x, 4) && aligned(job.decoded, 4) &&
         aligned(job.out.codes, 8);
}

void quantize_group_columns(const QuantizeJob& job, const Exec& exec) {
  constexpr int64_t kMost = 65535;  // of a grid's second dimension
  const int64_t strips = (job.out.scale_stride + kStrip - 1) / kStrip;
  if (strips > kMost) return nvfp4_groups(job, exec);
  const dim3 grid(blocks(static_cast<size_t>(job.out.rows), 2 * kThreads), static_cast<unsigned>(strips));
  if (const int64_t count = outer_count(job); count > 0) {
    check(cudaMemsetAsync(job.out.amax, 0, static_cast<size_t>(count) * sizeof(float), stream_of(exec)),
          "cudaMemsetAsync");
    amax_kernel<<<grid, kThreads, 0, stream_of(exec)>>>(job);
    check(cudaGetLastError(), "grouped_quantize: amaxes");
  }
  quantize_kernel<<<grid, kThreads, 0, stream_of(exec)>>>(job);
  check(cudaGetLastError(), "grouped_quantize");
}

}  // namespace minite::cuda
