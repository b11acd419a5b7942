#pragma once
// What the fused norms share: rows in shared memory, the walk over their chains, y. For .cu files only.
#include "backends/cuda/common/copy_async.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {

inline constexpr int kNormThreads = 512;        ///< of a block of threads at most
inline constexpr int64_t kLongestNorm = 32768;  ///< columns: 64 KiB of shared memory

/// How y follows from x: RMSNorm with a plain weight leaves out what has no effect there.
enum class Form : uint8_t { plain_rms, general };

struct FusedNorm {
  const bf16 *x, *b;  ///< b: nullptr, or what is added to x
  bf16* sum;          ///< of x and b
  const bf16 *weight, *bias;
  bf16* y;
  float *rstd, *mean;
  int64_t x_stride, b_stride, sum_stride, y_stride, rstd_stride, mean_stride;
  int64_t count;      ///< rows of x
  int d, rows, team;  ///< rows of a block of threads, threads of a row
  float eps;
  NormKind kind;
  bool zero_centered;
  [[nodiscard]] Form form() const {
    return kind == NormKind::rmsnorm && !zero_centered ? Form::plain_rms : Form::general;
  }
};

/// Vectors between rows in shared memory. Two more than the row's: its chains meet other banks than those of
/// the row before.
__host__ __device__ inline int pitch(int d) { return d / 8 + 2; }
/// Place of vector v of a row. Lanes take neighbouring blocks of two vectors; exchanging the vectors of every
/// other four blocks lets eight lanes meet all banks.
__device__ inline int vector_at(int v) { return v ^ (v / 8 % 2); }

/// The same of half h of block b.
__device__ inline int half_at(int b, int h) { return 2 * b + (h ^ (b / 4 % 2)); }
/// Block b of a row.
__device__ inline Words8 block_of(const uint4* row, int b) {
  const uint4 x = row[vector_at(2 * b)], y = row[vector_at(2 * b + 1)];
  return {{x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}};
}

/// A chain of a row in shared memory: one element of each block.
struct Chain {
  uint32_t at, other;  ///< in blocks 0..3 and 4..7 of eight, less the block
  int steps;
  __device__ Chain(const uint4* row, int lane, int d)
      : at(shared_address(row) + 16 * static_cast<uint32_t>(lane / 8) + 2 * static_cast<uint32_t>(lane % 8)),
        other(at + (lane < 8 ? 16 : -16)),
        steps(d / 16) {}
  /// Element of block b; k is b mod 8.
  __device__ float read(int b, int k) const {
    uint16_t bits = 0;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"((k < 4 ? at : other) + 32 * b));
    return __uint_as_float(static_cast<uint32_t>(bits) << 16);
  }
  /// step folded over the chain. Eight values are read while the eight before are added.
  template <class Step>
  __device__ float walk(const Step& step) const {
    float acc = 0, now[8], next[8];
    const int whole = steps / 8 * 8;
#pragma unroll
    for (int k = 0; k < 8; ++k) next[k] = whole > 0 ? read(k, k) : 0.0f;
#pragma unroll 2
    for (int b = 0; b < whole; b += 8) {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        now[k] = next[k];
        if (b + 8 < whole) next[k] = read(b + 8 + k, k);
      }
#pragma unroll
      for (int k = 0; k < 8; ++k) acc = step(acc, now[k]);
    }
    for (int b = whole; b < steps; ++b) acc = step(acc, read(b, b % 8));
    return acc;
  }
};

/// Statistics of rows [first, first + job.rows), by one warp.
__device__ inline void walk_chains(const FusedNorm& job, int64_t first, const uint4* rows, NormStats* stats) {
  const int of = static_cast<int>(threadIdx.x) % 32 / 16, lane = static_cast<int>(threadIdx.x) % 16;
  const bool inside = of < job.rows && first + of < job.count;
  const Chain chain(rows + (of < job.rows ? of : 0) * pitch(job.d), lane, inside ? job.d : 0);
  const NormStats s =
      norm_stats([&](const auto& step) { return chain.walk(step); }, job.d, job.kind, job.eps);
  if (!inside || lane != 0) return;
  stats[of] = s;
  if (job.rstd != nullptr) job.rstd[(first + of) * job.rstd_stride] = s.rstd;
  if (job.mean != nullptr) job.mean[(first + of) * job.mean_stride] = s.mean;
}

/// Whether a warp is the one that walks the chains of its block of threads. Warps of one place in their
/// blocks share a scheduler, and the blocks of a multiprocessor have numbers that differ by its multiples: a
/// hash spreads them.
__device__ inline bool walks() {
  return threadIdx.x / 32 == (blockIdx.x * 0x9E3779B1u >> 16) % (blockDim.x / 32);
}

/// Sixteen elements of y.
template <Form kForm>
__device__ inline Words8 normed_words(const FusedNorm& job, const Words8& x, int64_t b,
                                      const NormStats& stats) {
  const Words8 w = load_words(job.weight + 16 * b);
  Words8 y;
  if (kForm == Form::plain_rms) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      y.w[i] = pack_bf16(low(x.w[i]) * stats.rstd * low(w.w[i]), high(x.w[i]) * stats.rstd * high(w.w[i]));
    return y;
  }
  if (job.bias == nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      y.w[i] = pack_bf16(normed(low(x.w[i]), stats, low(w.w[i]), job.zero_centered),
                         normed(high(x.w[i]), stats, high(w.w[i]), job.zero_centered));
    return y;
  }
  const Words8 bias = load_words(job.bias + 16 * b);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.w[i] = pack_bf16(normed(low(x.w[i]), stats, low(w.w[i]), job.zero_centered, low(bias.w[i])),
                       normed(high(x.w[i]), stats, high(w.w[i]), job.zero_centered, high(bias.w[i])));
  return y;
}

/// Launches `kernel` on blocks of job.rows rows, which lie in shared memory.
inline void launch_rows(void (*kernel)(FusedNorm, QuantizeJob), const FusedNorm& job, const QuantizeJob& q,
                        const Exec& exec) {
  const int bytes = job.rows * pitch(job.d) * 16;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of norm_quantize");
  kernel<<<blocks(static_cast<size_t>(job.count), static_cast<unsigned>(job.rows)),
           static_cast<unsigned>(job.rows * job.team), static_cast<size_t>(bytes), stream_of(exec)>>>(job, q);
  check(cudaGetLastError(), "norm_quantize");
}

/// The sum with job.b, its norm and codes: add_norm_fused.cu.
void fused_add_norm(const FusedNorm& job, const QuantizeJob& q, const Exec& exec);

}  // namespace minite::cuda
