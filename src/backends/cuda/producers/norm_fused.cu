// (add +) norm + NVFP4 codes in one pass over BF16 rows. A block of threads holds `rows` rows in shared
// memory: it loads them by vectors, 16 threads a row walk the row's 16 chains, then a team a row computes y,
// the row's amax and the codes.
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_lanes.h"
#include "backends/cuda/quantize/row_team.h"

namespace minite::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kMostRows = kWarps;            ///< of a block of threads: a team is a warp or more
constexpr int64_t kSharedBytes = 40 * 1024;  ///< of rows: several blocks of threads share a multiprocessor
constexpr int64_t kPad = 32;  ///< bytes between rows: the chains of two rows in a warp meet other banks

struct FusedNorm {
  const bf16 *x, *b;  ///< b: nullptr, or what is added to x
  bf16* sum;          ///< of x and b
  const bf16 *weight, *bias;
  bf16* y;
  float *rstd, *mean;
  int64_t x_stride, b_stride, sum_stride, y_stride, rstd_stride, mean_stride;
  int64_t count;  ///< rows of x
  int d, rows;    ///< rows of a block of threads, a power of two
  float eps;
  NormKind kind;
  bool zero_centered;
};

__device__ uint4 sum_of(uint4 a, uint4 b) {
  const auto add = [](uint32_t x, uint32_t y) { return pack_bf16(low(x) + low(y), high(x) + high(y)); };
  return {add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)};
}

/// Row r into shared memory, by a team.
__device__ void load_row(const FusedNorm& job, int64_t r, uint4* row, int lane, int team) {
  const auto* x = reinterpret_cast<const uint4*>(job.x + r * job.x_stride);
  const int vectors = job.d / 8;
  if (job.b == nullptr) {
#pragma unroll 4
    for (int v = lane; v < vectors; v += team) row[v] = x[v];
    return;
  }
  const auto* b = reinterpret_cast<const uint4*>(job.b + r * job.b_stride);
  auto* sum = reinterpret_cast<uint4*>(job.sum + r * job.sum_stride);
#pragma unroll 2
  for (int v = lane; v < vectors; v += team) sum[v] = row[v] = sum_of(x[v], b[v]);
}

/// Sixteen elements of y.
__device__ Words8 normed_words(const FusedNorm& job, const Words8& x, int64_t block, const NormStats& stats) {
  const Words8 w = load_words(job.weight + 16 * block);
  Words8 y;
  if (job.bias == nullptr) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      y.w[i] = pack_bf16(normed(low(x.w[i]), stats, low(w.w[i]), job.zero_centered),
                         normed(high(x.w[i]), stats, high(w.w[i]), job.zero_centered));
    return y;
  }
  const Words8 bias = load_words(job.bias + 16 * block);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.w[i] = pack_bf16(normed(low(x.w[i]), stats, low(w.w[i]), job.zero_centered, low(bias.w[i])),
                       normed(high(x.w[i]), stats, high(w.w[i]), job.zero_centered, high(bias.w[i])));
  return y;
}

__global__ void __launch_bounds__(kThreads) fused_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[kMostRows];
  __shared__ uint32_t part[kWarps];
  const int pitch = static_cast<int>((job.d * 2 + kPad) / 16);  // vectors
  const int team = kThreads / job.rows, lane = static_cast<int>(threadIdx.x) % team;
  const int own = static_cast<int>(threadIdx.x) / team;
  const int64_t first = int64_t{blockIdx.x} * job.rows, r = first + own;
  const bool inside = r < job.count;
  auto* row = reinterpret_cast<bf16*>(shared + own * pitch);
  if (inside) load_row(job, r, shared + own * pitch, lane, team);
  __syncthreads();

  const int chains = 16 * job.rows;
  if (static_cast<int>(threadIdx.x) < (chains < 32 ? 32 : chains)) {  // whole warps
    const int of = static_cast<int>(threadIdx.x) / 16 % job.rows;
    const auto* x = reinterpret_cast<const bf16*>(shared + of * pitch);
    const auto read = [&](int i) { return static_cast<float>(x[i]); };
    const int d = first + of < job.count ? job.d : 0;
    const NormStats s = norm_stats(read, d, static_cast<int>(threadIdx.x) % 16, job.kind, job.eps);
    if (threadIdx.x % 16 == 0 && static_cast<int>(threadIdx.x) < chains && d > 0) {
      stats[of] = s;
      if (job.rstd != nullptr) job.rstd[(first + of) * job.rstd_stride] = s.rstd;
      if (job.mean != nullptr) job.mean[(first + of) * job.mean_stride] = s.mean;
    }
  }
  __syncthreads();

  const bool own_scale = q.domain == Domain::row;
  const int per_row = job.d / 16;
  uint32_t most = 0;
  for (int b = lane; inside && b < per_row; b += team) {
    const Words8 y = normed_words(job, load_words(row + 16 * b), b, stats[own]);
    store_words(job.y + r * job.y_stride + 16 * b, y);
    if (own_scale) {
      most = __vmaxu2(most, pair_max(y.w, 8));
      store_words(row + 16 * b, y);
    } else {
      finish_block(q, r, b, y, kSixth, 1.0f);
    }
  }
  if (!own_scale) return;
  most = __reduce_max_sync(0xFFFFFFFFu, widest(most));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < team / 32; ++i) most = max(most, part[own * (team / 32) + i]);
  if (!inside) return;
  const float amax = __uint_as_float(most);
  const Outer outer = outer_scale(amax, q.range);
  if (lane == 0) {
    q.out.amax[r] = amax;
    q.out.outer[r] = outer.s_dec;
  }
  for (int b = lane; b < per_row; b += team)
    finish_block(q, r, b, load_words(row + 16 * b), outer.s_enc * kSixth, outer.s_dec);
}

int64_t pitch_bytes(int64_t d) { return 2 * d + kPad; }

}  // namespace

bool fused_norm_fits(const NormArgs& args, const AddArgs* add, const QTensor& out) {
  const QuantSpec& spec = out.spec;
  const bool bias = args.bias.empty() || vectors_fit(args.bias, 16);
  const bool added = add == nullptr || (vectors_fit(add->a, 16) && vectors_fit(add->b, 16));
  return spec.format == FormatId::nvfp4 && spec.blocks == BlockShape::row &&
         spec.search == ScaleSearch::amax && domain_of(spec) != Domain::tensor && args.groups == 1 &&
         args.x.dtype == DType::bf16 && vectors_fit(args.x, 16) && vectors_fit(args.y, 16) &&
         vectors_fit(args.weight, 16) && bias && added && vectors_fit(out) &&
         pitch_bytes(args.x.cols) <= kSharedBytes;
}

void fused_norm(const NormArgs& args, const AddArgs* add, const QTensor& out, const Exec& exec) {
  if (args.x.size() == 0) return;
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
                   .rows = kMostRows,
                   .eps = args.eps,
                   .kind = args.spec.kind,
                   .zero_centered = args.spec.gamma == Gamma::zero_centered};
  if (add != nullptr) {
    job.x = add->a.as<const bf16>();
    job.x_stride = add->a.stride;
    job.b = add->b.as<const bf16>();
    job.b_stride = add->b.stride;
    job.sum = add->y.as<bf16>();
    job.sum_stride = add->y.stride;
  }
  while (job.rows > 1 && job.rows * pitch_bytes(job.d) > kSharedBytes) job.rows /= 2;
  const QuantizeJob q = quantize_job({args.y, Orientation::rows, out});
  const unsigned grid = blocks(static_cast<size_t>(job.count), static_cast<unsigned>(job.rows));
  const auto bytes = static_cast<size_t>(job.rows * pitch_bytes(job.d));
  fused_kernel<<<grid, kThreads, bytes, stream_of(exec)>>>(job, q);
  check(cudaGetLastError(), "norm_quantize");
}

}  // namespace minite::cuda
