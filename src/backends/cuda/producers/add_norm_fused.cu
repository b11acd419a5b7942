// add + norm + NVFP4 codes in one pass over BF16 rows. A block of threads owns two rows, a team each, and
// keeps them in shared memory: the sum first, whose vectors lanes read and write side by side; then one warp
// walks the 16 chains of both, half a warp a row; then the teams write y, in place of the sum and to memory,
// and the codes.
#include <algorithm>

#include "backends/cuda/producers/norm_rows.h"

namespace minite::cuda {
namespace {

__device__ inline uint32_t add_bf16(uint32_t a, uint32_t b) {
  return pack_bf16(low(a) + low(b), high(a) + high(b));
}

/// The sum with what is added, to shared memory and to memory.
__device__ void add_row(const FusedNorm& job, const Team& team, int64_t r, uint4* row) {
  const auto* a = reinterpret_cast<const uint4*>(job.x + r * job.x_stride);
  const auto* b = reinterpret_cast<const uint4*>(job.b + r * job.b_stride);
  auto* sum = reinterpret_cast<uint4*>(job.sum + r * job.sum_stride);
  constexpr int kAhead = 4;
  for (int first = team.lane; first < 2 * team.per_row; first += kAhead * team.size) {
    uint4 x[kAhead], y[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int v = first + i * team.size;
      if (v < 2 * team.per_row) {
        x[i] = a[v];
        y[i] = b[v];
      }
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int v = first + i * team.size;
      if (v >= 2 * team.per_row) break;
      const uint4 s = {add_bf16(x[i].x, y[i].x), add_bf16(x[i].y, y[i].y), add_bf16(x[i].z, y[i].z),
                       add_bf16(x[i].w, y[i].w)};
      row[vector_at(v)] = s;
      sum[v] = s;
    }
  }
}
/// Codes of a team's row of y. The loops over blocks are not unrolled: the code of one is long, and other
/// warps fill the gaps.
__device__ void write_codes(const QuantizeJob& q, const Team& team, int64_t r, const uint4* row, float amax) {
  const Outer outer = outer_scale(amax, q.range);
  if (team.lane == 0) {
    q.out.amax[r] = amax;
    q.out.outer[r] = outer.s_dec;
  }
  BlockPlace to = block_place(q, r, team.lane);
  to.decoded = nullptr;  // nobody can ask for it here
  const float sixth = outer.s_enc * kSixth;
#pragma unroll 1
  for (int b = team.lane; b < team.per_row; b += team.size) {
    finish_block(to, block_of(row, b), sixth, outer.s_dec);
    to.scale += team.size;
    to.codes += 8 * team.size;
  }
}

/// What follows y: nothing, codes without an outer scale, or with the row's own.
enum class Codes : uint8_t { none, plain, scaled };

/// y of a team's row, to memory and in place of x; the largest magnitude of a thread's blocks.
template <Form kForm, Codes kCodes>
__device__ uint32_t write_normed(const FusedNorm& job, const QuantizeJob& q, const Team& team, int64_t r,
                                 uint4* row, const NormStats& stats) {
  bf16* to = job.y + r * job.y_stride + 16 * team.lane;
  BlockPlace codes = kCodes == Codes::plain ? block_place(q, r, team.lane) : BlockPlace{};
  codes.decoded = nullptr;
  uint32_t most = 0;
#pragma unroll 1
  for (int b = team.lane; b < team.per_row; b += team.size, to += 16 * team.size) {
    const Words8 y = normed_words<kForm>(job, block_of(row, b), b, stats);
    store_words(to, y);
    if (kCodes == Codes::scaled) {
      row[vector_at(2 * b)] = {y.w[0], y.w[1], y.w[2], y.w[3]};
      row[vector_at(2 * b + 1)] = {y.w[4], y.w[5], y.w[6], y.w[7]};
      most = larger(most, pair_max(y.w, 8));
    }
    if (kCodes == Codes::plain) {
      finish_block(codes, y, kSixth, 1.0f);
      codes.scale += team.size;
      codes.codes += 8 * team.size;
    }
  }
  return widest(most & 0x7FFF7FFFu);
}

template <Form kForm, Codes kCodes>
__global__ void __launch_bounds__(kNormThreads, 2) add_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[2];
  __shared__ uint32_t part[2][kNormThreads / 32];
  const int thread = static_cast<int>(threadIdx.x), own = thread >= job.team ? 1 : 0;
  const Team team = {thread - own * job.team, job.team, job.d / 16};
  const int64_t first = int64_t{blockIdx.x} * job.rows, r = first + own;
  const bool inside = r < job.count;
  uint4* row = shared + own * pitch(job.d);
  if (inside) add_row(job, team, r, row);
  __syncthreads();
  if (walks()) walk_chains(job, first, shared, stats);
  __syncthreads();
  uint32_t most = inside ? write_normed<kForm, kCodes>(job, q, team, r, row, stats[own]) : 0;
  if (kCodes != Codes::scaled) return;
  most = __reduce_max_sync(0xFFFFFFFFu, most);
  const int lane = thread % 32, warps = job.team / 32;
  if (lane == 0) part[own][team.lane / 32] = most;
  __syncthreads();
  most = __reduce_max_sync(0xFFFFFFFFu, lane < warps ? part[own][lane] : 0);
  if (inside) write_codes(q, team, r, row, __uint_as_float(most));
}

/// Threads of a row: four or five blocks each, whichever leaves less of the team idle, share what a thread
/// does once; more where a row is long.
int team_of(int per_row) {
  const auto team = [&](int each) { return 32 * ((per_row + 32 * each - 1) / (32 * each)); };
  return std::min(kNormThreads, 5 * team(5) < 4 * team(4) ? team(5) : team(4));
}

template <Form kForm>
void launch_of(FusedNorm job, const QuantizeJob& q, const Exec& exec) {
  job.team = team_of(job.d / 16);
  job.rows = 2 * job.team <= kNormThreads && job.count > 1 ? 2 : 1;
  const auto kernel = q.out.codes == nullptr     ? add_kernel<kForm, Codes::none>
                      : q.domain == Domain::none ? add_kernel<kForm, Codes::plain>
                                                 : add_kernel<kForm, Codes::scaled>;
  launch_rows(kernel, job, q, exec);
}

}  // namespace

void fused_add_norm(const FusedNorm& job, const QuantizeJob& q, const Exec& exec) {
  if (job.form() == Form::plain_rms) return launch_of<Form::plain_rms>(job, q, exec);
  launch_of<Form::general>(job, q, exec);
}

}  // namespace minite::cuda
