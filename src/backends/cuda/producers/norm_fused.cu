// (add +) norm + NVFP4 codes in one pass over BF16 rows. A team of threads owns a row and keeps it in
// registers; a copy in shared memory feeds the row's 16 chains, which one warp walks for the two rows of a
// block of threads.
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kRows = 2;                     ///< of a block of threads at most: one warp walks 2 x 16 chains
constexpr int64_t kSharedBytes = 47 * 1024;  ///< of them, beside statistics
constexpr int64_t kPad = 32;  ///< bytes between rows: the chains of the second row meet other banks
constexpr int kMostThreads = 512;

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

/// Block b of row r of the norm's input; the sum is stored on the way.
__device__ Words8 input_words(const FusedNorm& job, int64_t r, int64_t b) {
  Words8 x = load_words(job.x + r * job.x_stride + 16 * b);
  if (job.b == nullptr) return x;
  const Words8 y = load_words(job.b + r * job.b_stride + 16 * b);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.w[i] = pack_bf16(low(x.w[i]) + low(y.w[i]), high(x.w[i]) + high(y.w[i]));
  store_words(job.sum + r * job.sum_stride + 16 * b, x);
  return x;
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

/// The first warp: statistics of the block's rows from shared memory.
__device__ void walk_chains(const FusedNorm& job, int64_t first, const uint4* shared, int pitch,
                            NormStats* stats) {
  const int of = static_cast<int>(threadIdx.x) / 16, lane = static_cast<int>(threadIdx.x) % 16;
  const bool inside = of < job.rows && first + of < job.count;
  const auto* x = reinterpret_cast<const bf16*>(shared + of * pitch);
  const auto read = [&](int i) { return static_cast<float>(x[i]); };
  const NormStats s = norm_stats(read, inside ? job.d : 0, lane, job.kind, job.eps);
  if (!inside || lane != 0) return;
  stats[of] = s;
  if (job.rstd != nullptr) job.rstd[(first + of) * job.rstd_stride] = s.rstd;
  if (job.mean != nullptr) job.mean[(first + of) * job.mean_stride] = s.mean;
}

/// q.out.codes is nullptr for a norm alone.
template <int kBlocks, Form kForm>
__global__ void __launch_bounds__(kMostThreads) fused_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[kRows];
  __shared__ uint32_t part[32];
  const int pitch = static_cast<int>((job.d * 2 + kPad) / 16);  // vectors
  const int own = static_cast<int>(threadIdx.x) >= job.team ? 1 : 0;
  const Team team = {static_cast<int>(threadIdx.x) - own * job.team, job.team, job.d / 16};
  const int64_t first = int64_t{blockIdx.x} * job.rows, r = first + own;
  const bool inside = r < job.count;
  Words8 x[kBlocks];
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (inside && team.owns(i)) x[i] = input_words(job, r, team.lane + i * team.size);
  }
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (inside && team.owns(i))
      store_words(reinterpret_cast<bf16*>(shared + own * pitch) + 16 * (team.lane + i * team.size), x[i]);
  }
  __syncthreads();
  if (threadIdx.x < 32) walk_chains(job, first, shared, pitch, stats);
  __syncthreads();

  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (!inside || !team.owns(i)) continue;
    x[i] = normed_words<kForm>(job, x[i], team.lane + i * team.size, stats[own]);
    store_words(job.y + r * job.y_stride + 16 * (team.lane + i * team.size), x[i]);
    most = __vmaxu2(most, pair_max(x[i].w, 8));
  }
  if (q.out.codes == nullptr) return;
  if (q.domain == Domain::none) {
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      if (inside && team.owns(i)) finish_block(q, r, team.lane + i * team.size, x[i], kSixth, 1.0f);
    }
    return;
  }
  const unsigned warps = static_cast<unsigned>(job.team) / 32, lane = threadIdx.x % 32;
  most = __reduce_max_sync(0xFFFFFFFFu, widest(most));
  if (lane == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  most = __reduce_max_sync(0xFFFFFFFFu, lane < warps ? part[static_cast<unsigned>(own) * warps + lane] : 0);
  if (inside) finish_row<kBlocks>(q, team, r, x, __uint_as_float(most));
}

int64_t pitch_bytes(int64_t d) { return 2 * d + kPad; }

/// BF16 rows in whole blocks on 16-byte boundaries, and places for one row.
bool rows_fit(const NormArgs& args, const AddArgs* add) {
  const bool bias = args.bias.empty() || vectors_fit(args.bias, 16);
  const bool added = add == nullptr || (vectors_fit(add->a, 16) && vectors_fit(add->b, 16));
  return args.groups == 1 && args.x.dtype == DType::bf16 && args.x.size() > 0 && vectors_fit(args.x, 16) &&
         vectors_fit(args.y, 16) && vectors_fit(args.weight, 16) && bias && added &&
         pitch_bytes(args.x.cols) <= kSharedBytes;
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
                   .rows = kRows * pitch_bytes(args.x.cols) <= kSharedBytes ? kRows : 1,
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

template <int kBlocks>
void launch(FusedNorm job, const QuantizeJob& q, const Exec& exec) {
  job.team = 32 * static_cast<int>(blocks(static_cast<size_t>(job.d / 16), 32 * kBlocks));
  const bool plain = job.kind == NormKind::rmsnorm && !job.zero_centered;
  const auto kernel = plain ? fused_kernel<kBlocks, Form::plain_rms> : fused_kernel<kBlocks, Form::general>;
  const unsigned grid = blocks(static_cast<size_t>(job.count), static_cast<unsigned>(job.rows));
  const auto bytes = static_cast<size_t>(job.rows * pitch_bytes(job.d));
  kernel<<<grid, static_cast<unsigned>(job.rows * job.team), bytes, stream_of(exec)>>>(job, q);
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
  const int64_t per_row = job.d / 16;
  if (per_row <= 32 || (per_row <= kMostThreads / kRows && one_block_fits_better(per_row))) {
    launch<1>(job, q, exec);
  } else if (per_row <= kMostThreads) {
    launch<2>(job, q, exec);
  } else {
    launch<4>(job, q, exec);
  }
}

}  // namespace minite::cuda
