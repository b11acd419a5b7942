// (add +) norm + NVFP4 codes in one pass over BF16 rows. A block of threads owns two rows: a team keeps each
// in registers and shows it in shared memory to one warp, whose halves walk the 16 chains of a row each. A
// chain waits for itself, four cycles a step; other blocks of threads on the multiprocessor are in other
// phases and use that time.
#include "backends/cuda/common/copy_async.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kMostThreads = 512;  ///< of a block of threads
constexpr int64_t kLongestNorm = int64_t{16} * kMostThreads * 4;

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
};

/// How y follows from x: RMSNorm with a plain weight leaves out what has no effect there.
enum class Form : uint8_t { plain_rms, general };

/// Vectors between rows in shared memory. Two more than the row's: its chains meet other banks than those of
/// the row before.
__host__ __device__ inline int pitch(int d) { return d / 8 + 2; }
/// Place of half h of block b of a row. Lanes take neighbouring blocks; exchanging the halves of every other
/// four of them lets eight lanes meet all banks.
__device__ inline int half_at(int b, int h) { return 2 * b + (h ^ (b / 4 % 2)); }

/// The blocks of row r that a thread owns, with what is added; the sum goes to memory.
template <int kBlocks, bool kAdd>
__device__ void load_row(const FusedNorm& job, const Team& team, int64_t r, Words8* x) {
  const bf16* from = job.x + r * job.x_stride + 16 * team.lane;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) x[i] = load_words(from + 16 * i * team.size);
  }
  if (!kAdd) return;
  const bf16* added = job.b + r * job.b_stride + 16 * team.lane;
  Words8 y[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) y[i] = load_words(added + 16 * i * team.size);
  }
  bf16* sum = job.sum + r * job.sum_stride + 16 * team.lane;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (!team.owns(i)) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      x[i].w[k] = pack_bf16(low(x[i].w[k]) + low(y[i].w[k]), high(x[i].w[k]) + high(y[i].w[k]));
    store_words(sum + 16 * i * team.size, x[i]);
  }
}
template <int kBlocks>
__device__ void show_row(const Team& team, const Words8* x, uint4* row) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (!team.owns(i)) continue;
    const int b = team.lane + i * team.size;
    row[half_at(b, 0)] = {x[i].w[0], x[i].w[1], x[i].w[2], x[i].w[3]};
    row[half_at(b, 1)] = {x[i].w[4], x[i].w[5], x[i].w[6], x[i].w[7]};
  }
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
__device__ void walk_chains(const FusedNorm& job, int64_t first, const uint4* rows, NormStats* stats) {
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

/// Sixteen elements of y.
template <Form kForm>
__device__ Words8 normed_words(const FusedNorm& job, const Words8& x, int64_t b, const NormStats& stats) {
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

/// y of the blocks that a thread owns, in place of x and to memory; the largest magnitude among them.
template <int kBlocks, Form kForm>
__device__ uint32_t write_normed(const FusedNorm& job, const Team& team, int64_t r, Words8* x,
                                 const NormStats& stats) {
  bf16* y = job.y + r * job.y_stride + 16 * team.lane;
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (!team.owns(i)) continue;
    x[i] = normed_words<kForm>(job, x[i], team.lane + i * team.size, stats);
    store_words(y + 16 * i * team.size, x[i]);
    most = larger(most, pair_max(x[i].w, 8));
  }
  return widest(most & 0x7FFF7FFFu);
}

template <int kBlocks>
__device__ void write_codes(const QuantizeJob& q, const Team& team, int64_t r, const Words8* x, float amax) {
  if (q.domain == Domain::row) return finish_row<kBlocks, false>(q, team, r, x, amax);
  BlockPlace to = block_place(q, r, team.lane);
  to.decoded = nullptr;  // nobody can ask for it here
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) finish_block(to.at(i * team.size), x[i], kSixth, 1.0f);
  }
}

template <int kBlocks, Form kForm, bool kAdd>
__global__ void __launch_bounds__(kMostThreads) fused_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[2];
  __shared__ uint32_t part[2][kMostThreads / 32];
  const int thread = static_cast<int>(threadIdx.x), own = thread >= job.team ? 1 : 0;
  const Team team = {thread - own * job.team, job.team, job.d / 16};
  const int64_t first = int64_t{blockIdx.x} * job.rows, r = first + own;
  const bool inside = r < job.count;
  Words8 x[kBlocks];
  if (inside) {
    load_row<kBlocks, kAdd>(job, team, r, x);
    show_row<kBlocks>(team, x, shared + own * pitch(job.d));
  }
  __syncthreads();
  // The warps of a place in a block share a scheduler: blocks take turns.
  if (threadIdx.x / 32 == blockIdx.x % (blockDim.x / 32)) walk_chains(job, first, shared, stats);
  __syncthreads();
  uint32_t most = inside ? write_normed<kBlocks, kForm>(job, team, r, x, stats[own]) : 0;
  if (q.out.codes == nullptr) return;
  if (q.domain == Domain::row) {
    most = __reduce_max_sync(0xFFFFFFFFu, most);
    const int lane = thread % 32, warps = job.team / 32;
    if (lane == 0) part[own][team.lane / 32] = most;
    __syncthreads();
    most = __reduce_max_sync(0xFFFFFFFFu, lane < warps ? part[own][lane] : 0);
  }
  if (inside) write_codes<kBlocks>(q, team, r, x, __uint_as_float(most));
}

/// BF16 rows in whole blocks on 16-byte boundaries, of a length that a team holds.
bool rows_fit(const NormArgs& args, const AddArgs* add) {
  const bool bias = args.bias.empty() || vectors_fit(args.bias, 16);
  const bool added = add == nullptr || (vectors_fit(add->a, 16) && vectors_fit(add->b, 16));
  return args.groups == 1 && args.x.dtype == DType::bf16 && args.x.size() > 0 && vectors_fit(args.x, 16) &&
         vectors_fit(args.y, 16) && vectors_fit(args.weight, 16) && bias && added &&
         args.x.cols <= kLongestNorm;
}

FusedNorm fused_job(const NormArgs& args, const AddArgs* add) {
  FusedNorm job = {.x = args.x.as<const bf16>(),
                   .b = nullptr,
                   .sum = nullptr,
                   .weight = args.weight.as<const bf16>(),
                   .bias = args.bias.as<const bf16>(),
                   .y = args.y.as<bf16>(),
                   .rstd = args.rstd.as<float>(),
                   .mean = args.mean.as<float>(),
                   .x_stride = args.x.stride,
                   .b_stride = 0,
                   .sum_stride = 0,
                   .y_stride = args.y.stride,
                   .rstd_stride = args.rstd.stride,
                   .mean_stride = args.mean.stride,
                   .count = args.x.rows,
                   .d = static_cast<int>(args.x.cols),
                   .rows = 2,
                   .team = 0,
                   .eps = args.eps,
                   .kind = args.spec.kind,
                   .zero_centered = args.spec.gamma == Gamma::zero_centered};
  if (add == nullptr) return job;
  job.x = add->a.as<const bf16>();
  job.x_stride = add->a.stride;
  job.b = add->b.as<const bf16>();
  job.b_stride = add->b.stride;
  job.sum = add->y.as<bf16>();
  job.sum_stride = add->y.stride;
  return job;
}

template <int kBlocks, Form kForm, bool kAdd>
void launch(FusedNorm job, const QuantizeJob& q, const Exec& exec) {
  job.team = static_cast<int>(32 * blocks(static_cast<size_t>(job.d / 16), 32 * kBlocks));
  job.rows = 2 * job.team <= kMostThreads && job.count > 1 ? 2 : 1;
  const auto kernel = fused_kernel<kBlocks, kForm, kAdd>;
  const int bytes = job.rows * pitch(job.d) * 16;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of norm_quantize");
  kernel<<<blocks(static_cast<size_t>(job.count), static_cast<unsigned>(job.rows)),
           static_cast<unsigned>(job.rows * job.team), static_cast<size_t>(bytes), stream_of(exec)>>>(job, q);
  check(cudaGetLastError(), "norm_quantize");
}
template <Form kForm, bool kAdd>
void launch_of(const FusedNorm& job, const QuantizeJob& q, const Exec& exec) {
  // Many blocks a thread share what a thread does once; five where they leave less of a team idle than four.
  const int per_row = job.d / 16;
  const auto idle = [&](int each) { return 32 * each - 1 - (per_row - 1) % (32 * each); };
  if (per_row <= 32) return launch<1, kForm, kAdd>(job, q, exec);
  if (per_row <= 64) return launch<2, kForm, kAdd>(job, q, exec);
  if (idle(5) < idle(4)) return launch<5, kForm, kAdd>(job, q, exec);
  launch<4, kForm, kAdd>(job, q, exec);
}

}  // namespace

bool fused_norm_fits(const NormArgs& args, const AddArgs* add, const QTensor* out) {
  if (!rows_fit(args, add)) return false;
  return out == nullptr || (out->spec.format == FormatId::nvfp4 && out->spec.blocks == BlockShape::row &&
                            out->spec.search == ScaleSearch::amax && domain_of(out->spec) != Domain::tensor &&
                            vectors_fit(*out));
}

void fused_norm(const NormArgs& args, const AddArgs* add, const QTensor* out, const Exec& exec) {
  const FusedNorm job = fused_job(args, add);
  const QuantizeJob q = out == nullptr ? QuantizeJob{} : quantize_job({args.y, Orientation::rows, *out});
  const bool plain = job.kind == NormKind::rmsnorm && !job.zero_centered;
  const auto run =
      plain ? (job.b == nullptr ? launch_of<Form::plain_rms, false> : launch_of<Form::plain_rms, true>)
            : (job.b == nullptr ? launch_of<Form::general, false> : launch_of<Form::general, true>);
  run(job, q, exec);
}

}  // namespace minite::cuda
