// (add +) norm + NVFP4 codes in one pass over BF16 rows. Blocks of threads stay and take two rows at a time.
// Three pairs of rows are in work: one is on its way into shared memory, one warp walks the 16 chains of
// both rows of the next, and a team a row computes y, the row's amax and the codes of the third. Chains are
// long and wait for themselves; beside the others' work they cost no time.
#include <algorithm>

#include "backends/cuda/common/copy_async.h"
#include "backends/cuda/device.h"
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kRows = 2;                ///< of a block of threads at most: one warp walks 2 x 16 chains
constexpr int kStages = 3;              ///< on the way, in the chains, at the teams
constexpr int64_t kPad = 32;            ///< bytes between rows: the chains of the second row meet other banks
constexpr int kMostThreads = 32 + 512;  ///< the warp of the chains, then the teams
constexpr int64_t kSharedBytes = 110 * 1024;  ///< of a block of threads at most: a multiprocessor holds two

struct FusedNorm {
  const bf16 *x, *b;  ///< b: nullptr, or what is added to x
  bf16* sum;          ///< of x and b
  const bf16 *weight, *bias;
  bf16* y;
  float *rstd, *mean;
  int64_t x_stride, b_stride, sum_stride, y_stride, rstd_stride, mean_stride;
  int64_t count;      ///< rows of x
  int d, rows, team;  ///< rows of a block of threads, threads of a row
  int pitch;          ///< vectors of 16 bytes between rows in shared memory
  float eps;
  NormKind kind;
  bool zero_centered;
};

/// How y follows from x: RMSNorm with a plain weight leaves out what has no effect there.
enum class Form : uint8_t { plain_rms, general };

/// Starts the copies of a row's vectors that a thread of its team owns.
__device__ void fetch_vectors(const Team& team, const bf16* row, uint4* to) {
  const auto* from = reinterpret_cast<const uint4*>(row) + team.lane;
  uint32_t shared = shared_address(to + team.lane);
  for (int v = team.lane; v < 2 * team.per_row; v += team.size) {
    copy_async(shared, from);
    shared += 16 * static_cast<uint32_t>(team.size);
    from += team.size;
  }
}
/// Starts the copies of a team's row; what is added to it lies `apart` vectors behind.
__device__ void fetch_row(const FusedNorm& job, int64_t r, uint4* row, const Team& team, int apart) {
  if (r >= job.count) return;
  fetch_vectors(team, job.x + r * job.x_stride, row);
  if (job.b != nullptr) fetch_vectors(team, job.b + r * job.b_stride, row + apart);
}

/// Block b of a row in shared memory with what is added, in its place and to memory.
__device__ void add_block(const FusedNorm& job, int64_t r, uint4* row, int b, int apart) {
  auto* at = reinterpret_cast<bf16*>(row) + 16 * b;
  Words8 x = load_words(at);
  const Words8 y = load_words(at + 8 * apart);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.w[i] = pack_bf16(low(x.w[i]) + low(y.w[i]), high(x.w[i]) + high(y.w[i]));
  store_words(at, x);
  store_words(job.sum + r * job.sum_stride + 16 * b, x);
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

/// Statistics of rows [first, first + job.rows), by the first warp.
__device__ void walk_chains(const FusedNorm& job, int64_t first, const uint4* rows, NormStats* stats) {
  const int of = static_cast<int>(threadIdx.x) / 16, lane = static_cast<int>(threadIdx.x) % 16;
  const bool inside = of < job.rows && first + of < job.count;
  const auto* x = reinterpret_cast<const bf16*>(rows + (of < job.rows ? of : 0) * job.pitch);
  const auto read = [&](int i) { return static_cast<float>(x[i]); };
  const NormStats s = norm_stats(read, inside ? job.d : 0, lane, job.kind, job.eps);
  if (!inside || lane != 0) return;
  stats[of] = s;
  if (job.rstd != nullptr) job.rstd[(first + of) * job.rstd_stride] = s.rstd;
  if (job.mean != nullptr) job.mean[(first + of) * job.mean_stride] = s.mean;
}

/// y of a team's row, in place of x and to memory; the largest magnitude of a thread's blocks. The loops over
/// blocks are not unrolled: the code of one is long, and other blocks of threads fill the gaps.
template <Form kForm>
__device__ uint32_t write_normed(const FusedNorm& job, const Team& team, int64_t r, bf16* row,
                                 const NormStats& stats) {
  uint32_t most = 0;
#pragma unroll 1
  for (int b = team.lane; b < team.per_row; b += team.size) {
    const Words8 y = normed_words<kForm>(job, load_words(row + 16 * b), b, stats);
    store_words(row + 16 * b, y);
    store_words(job.y + r * job.y_stride + 16 * b, y);
    most = larger(most, pair_max(y.w, 8));
  }
  return widest(most & 0x7FFF7FFFu);
}

/// The largest value of a team, for every thread of it; teams wait at barriers of their own.
__device__ uint32_t team_max(const Team& team, int own, uint32_t value, uint32_t* part) {
  const int warp = team.lane / 32, lane = team.lane % 32;
  value = __reduce_max_sync(0xFFFFFFFFu, value);
  if (lane == 0) part[warp] = value;
  asm volatile("bar.sync %0, %1;" ::"r"(1 + own), "r"(team.size) : "memory");
  return __reduce_max_sync(0xFFFFFFFFu, lane < team.size / 32 ? part[lane] : 0);
}

/// Codes of a team's row, which the same threads wrote; q.out.codes is nullptr for a norm alone.
__device__ void write_codes(const QuantizeJob& q, const Team& team, int64_t r, const bf16* row, float amax) {
  Outer outer = {1.0f, 1.0f, 0.0f};
  if (q.domain == Domain::row) {
    outer = outer_scale(amax, q.range);
    if (team.lane == 0) {
      q.out.amax[r] = amax;
      q.out.outer[r] = outer.s_dec;
    }
  }
  BlockPlace to = block_place(q, r, team.lane);
  to.decoded = nullptr;  // nobody can ask for it here
#pragma unroll 1
  for (int b = team.lane; b < team.per_row; b += team.size) {
    finish_block(to, load_words(row + 16 * b), outer.s_enc * kSixth, outer.s_dec);
    to.scale += team.size;
    to.codes += 8 * team.size;
  }
}

template <Form kForm>
__global__ void __launch_bounds__(kMostThreads, 2) fused_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[2][kRows];
  __shared__ uint32_t part[kRows][32];
  const bool chains = threadIdx.x < 32;
  const int member = static_cast<int>(threadIdx.x) - 32, own = member >= job.team ? 1 : 0;
  const Team team = {member - own * job.team, job.team, job.d / 16};
  const int apart = job.rows * job.pitch;                // from x to what is added
  const int stage = (job.b == nullptr ? 1 : 2) * apart;  // of the shared memory
  const int64_t step = int64_t{gridDim.x} * job.rows;
  const auto fetch = [&](int64_t first, uint4* to) {
    if (!chains) fetch_row(job, first + own, to + own * job.pitch, team, apart);
    commit_copies();
  };
  /// Waits for all copies but the newest, adds, and shows the rows to the whole block.
  const auto arrive = [&](int64_t first, uint4* at) {
    wait_for_groups<1>();
    if (job.b != nullptr) {
      __syncthreads();
      for (int b = team.lane; !chains && first + own < job.count && b < team.per_row; b += team.size)
        add_block(job, first + own, at + own * job.pitch, b, apart);
    }
    __syncthreads();
  };
  uint4 *now = shared, *next = shared + stage, *last = shared + 2 * stage;
  int64_t first = int64_t{blockIdx.x} * job.rows;
  fetch(first, now);
  fetch(first + step, next);
  arrive(first, now);
  if (chains) walk_chains(job, first, now, stats[0]);
  for (int turn = 0; first < job.count; first += step, turn ^= 1) {
    __syncthreads();  // the statistics are there, and nobody reads what the next copies overwrite
    fetch(first + 2 * step, last);
    arrive(first + step, next);
    const int64_t r = first + own;
    if (chains) {
      walk_chains(job, first + step, next, stats[turn ^ 1]);
    } else {
      auto* row = reinterpret_cast<bf16*>(now + own * job.pitch);
      uint32_t most = r < job.count ? write_normed<kForm>(job, team, r, row, stats[turn][own]) : 0;
      if (q.domain == Domain::row) most = team_max(team, own, most, part[own]);
      if (q.out.codes != nullptr && r < job.count) write_codes(q, team, r, row, __uint_as_float(most));
    }
    uint4* const free = now;
    now = next;
    next = last;
    last = free;
  }
}

int64_t pitch_bytes(int64_t d) { return 2 * d + kPad; }
/// Rows of all stages, each with what is added.
int64_t shared_bytes(int64_t d, int64_t rows, bool add) {
  return kStages * rows * pitch_bytes(d) * (add ? 2 : 1);
}

/// BF16 rows in whole blocks on 16-byte boundaries, and places for one row.
bool rows_fit(const NormArgs& args, const AddArgs* add) {
  const bool bias = args.bias.empty() || vectors_fit(args.bias, 16);
  const bool added = add == nullptr || (vectors_fit(add->a, 16) && vectors_fit(add->b, 16));
  return args.groups == 1 && args.x.dtype == DType::bf16 && args.x.size() > 0 && vectors_fit(args.x, 16) &&
         vectors_fit(args.y, 16) && vectors_fit(args.weight, 16) && bias && added &&
         shared_bytes(args.x.cols, 1, add != nullptr) <= kSharedBytes;
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
                   .rows = kRows,
                   .team = 0,
                   .pitch = static_cast<int>(pitch_bytes(args.x.cols) / 16),
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

template <Form kForm>
void launch(FusedNorm job, const QuantizeJob& q, const Exec& exec) {
  constexpr int64_t kBlocks = 4;  // of a thread, unless the row has more than its team can have threads
  job.team = static_cast<int>(
      std::min<int64_t>(kMostThreads / kRows, 32 * blocks(static_cast<size_t>(job.d / 16), 32 * kBlocks)));
  const bool add = job.b != nullptr;
  if (shared_bytes(job.d, kRows, add) > kSharedBytes) job.rows = 1;
  const int64_t bytes = shared_bytes(job.d, job.rows, add), threads = 32 + job.rows * job.team;
  const auto kernel = fused_kernel<kForm>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "shared memory of norm_quantize");
  const int64_t groups = (job.count + job.rows - 1) / job.rows;
  int together = 1;  // blocks of threads that a multiprocessor holds
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel, static_cast<int>(threads),
                                                      static_cast<size_t>(bytes)),
        "norm_quantize");
  const int64_t grid = std::min<int64_t>(groups, int64_t{device().multiprocessors} * std::max(together, 1));
  kernel<<<static_cast<unsigned>(grid), static_cast<unsigned>(threads), static_cast<size_t>(bytes),
           stream_of(exec)>>>(job, q);
  check(cudaGetLastError(), "norm_quantize");
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
  if (job.kind == NormKind::rmsnorm && !job.zero_centered) return launch<Form::plain_rms>(job, q, exec);
  launch<Form::general>(job, q, exec);
}

}  // namespace minite::cuda
