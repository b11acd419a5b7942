// norm + NVFP4 codes in one pass over BF16 rows. A block of threads owns two rows: a team keeps each in
// registers and shows it in shared memory to one warp, whose halves walk the 16 chains of a row each. A chain
// waits for itself, four cycles a step; other blocks of threads on the multiprocessor are in other phases and
// use that time.
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/producers/norm_rows.h"

namespace minite::cuda {
namespace {

/// The blocks of row r that a thread owns.
template <int kBlocks>
__device__ void load_row(const FusedNorm& job, const Team& team, int64_t r, Words8* x) {
  const bf16* from = job.x + r * job.x_stride + 16 * team.lane;
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    if (team.owns(i)) x[i] = load_words(from + 16 * i * team.size);
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

template <int kBlocks, Form kForm>
__global__ void __launch_bounds__(kNormThreads) fused_kernel(FusedNorm job, QuantizeJob q) {
  extern __shared__ uint4 shared[];
  __shared__ NormStats stats[2];
  __shared__ uint32_t part[2][kNormThreads / 32];
  const int thread = static_cast<int>(threadIdx.x), own = thread >= job.team ? 1 : 0;
  const Team team = {thread - own * job.team, job.team, job.d / 16};
  const int64_t first = int64_t{blockIdx.x} * job.rows, r = first + own;
  const bool inside = r < job.count;
  Words8 x[kBlocks];
  if (inside) {
    load_row<kBlocks>(job, team, r, x);
    show_row<kBlocks>(team, x, shared + own * pitch(job.d));
  }
  __syncthreads();
  if (walks()) walk_chains(job, first, shared, stats);
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

template <int kBlocks, Form kForm>
void launch(FusedNorm job, const QuantizeJob& q, const Exec& exec) {
  job.team = static_cast<int>(32 * blocks(static_cast<size_t>(job.d / 16), 32 * kBlocks));
  job.rows = 2 * job.team <= kNormThreads && job.count > 1 ? 2 : 1;
  launch_rows(fused_kernel<kBlocks, kForm>, job, q, exec);
}
template <Form kForm>
void launch_of(const FusedNorm& job, const QuantizeJob& q, const Exec& exec) {
  // Many blocks a thread share what a thread does once; five where they leave less of a team idle than four.
  const int per_row = job.d / 16;
  const auto idle = [&](int each) { return 32 * each - 1 - (per_row - 1) % (32 * each); };
  if (per_row <= 32) return launch<1, kForm>(job, q, exec);
  if (per_row <= 64) return launch<2, kForm>(job, q, exec);
  if (idle(5) < idle(4)) return launch<5, kForm>(job, q, exec);
  launch<4, kForm>(job, q, exec);
}

}  // namespace

bool fused_norm_fits(const NormArgs& args, const AddArgs* add, const QTensor* out) {
  if (!rows_fit(args, add)) return false;
  return out == nullptr ||
         (out->spec.format == FormatId::nvfp4 && out->spec.blocks == BlockShape::row &&
          out->spec.search == ScaleSearch::amax && out->spec.rounding == Rounding::nearest &&
          domain_of(out->spec) != Domain::tensor && vectors_fit(*out));
}

void fused_norm(const NormArgs& args, const AddArgs* add, const QTensor* out, const Exec& exec) {
  const FusedNorm job = fused_job(args, add);
  const QuantizeJob q = out == nullptr ? QuantizeJob{} : quantize_job({args.y, Orientation::rows, *out});
  if (add != nullptr) return fused_add_norm(job, q, exec);
  if (job.form() == Form::plain_rms) return launch_of<Form::plain_rms>(job, q, exec);
  launch_of<Form::general>(job, q, exec);
}

}  // namespace minite::cuda
