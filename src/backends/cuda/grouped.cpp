// Products by group with bounds on the device: which kernel, and its operands in the form that it reads.
#include "backends/cuda/sm90/grouped.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "backends/cuda/common/operand.h"
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/prepare.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/grouped_few.h"
#include "backends/cuda/sm90/tensor_map.h"

namespace minite::cuda {
namespace {

void require_groups(std::string_view op, const GroupBounds& groups, int64_t rows) {
  if (!groups_fit(groups, rows))
    refuse(op, fmt::format("{} rows in {} groups are more than coordinates of 32 bits reach", rows,
                           groups.count));
}

/// Outer scales in the epilogue's terms: scales from a group's to the next one's, and from a line's to the
/// next one's.
struct ScaleSteps {
  int64_t group, line;
};
ScaleSteps steps(OuterScale per, int64_t lines) {
  return {per == OuterScale::row ? lines : per == OuterScale::expert ? 1 : 0, per == OuterScale::row ? 1 : 0};
}
OuterScale outer_of(const Operand& x) { return x.quantized() ? x.q.spec.outer : OuterScale::none; }

sm90::GroupedEpilogue epilogue_of(const TensorView& y, const GroupScales& a, const ScaleSteps& a_steps,
                                  const GroupScales& b, const ScaleSteps& b_steps) {
  GemmArgs plain;
  plain.y = y;
  DeviceEpilogue each = device_epilogue(plain);
  each.a = a.empty() ? nullptr : a.scale;
  each.b = b.empty() ? nullptr : b.scale;
  each.a_step = a_steps.line;
  each.b_step = b_steps.line;
  return {each, a_steps.group, b_steps.group};
}

sm90::GroupedEpilogue epilogue_of(const GroupedGemmArgs& args) {
  const OuterScale outer_a = outer_of(args.a), outer_b = outer_of(args.b);
  // a's scales of rows are those of all packed rows, one group after another already.
  const ScaleSteps a_steps = {outer_a == OuterScale::expert ? 1 : 0, outer_a == OuterScale::row ? 1 : 0};
  return epilogue_of(args.y, {args.a.q.outer, outer_a}, a_steps, {args.b.q.outer, outer_b},
                     steps(outer_b, args.y.cols));
}

/// Whether packed weights are read as they are. The bits are the same either way.
bool few_rows(const GroupedGemmArgs& args) {
  const int64_t rows = args.a.rows(), groups = args.groups.count;
  if (args.b.format() != FormatId::nvfp4 || (args.b.prepacked == nullptr && !args.b.decoded.empty()))
    return false;
  return rows <= sm90::kGroupedFewRows * groups &&
         sm90::grouped_few_fits(rows, groups, args.y.cols, args.a.depth());
}

void run_few(const GroupedGemmArgs& args, Scratch& scratch, const Exec& exec) {
  const Prepared a = prepare("grouped_gemm", args.a, "a", scratch, exec);
  sm90::GroupedEpilogue epilogue = epilogue_of(args);
  epilogue.each.gain = sm90::kFragmentGain;
  const sm90::Fragments w = prepacked("grouped_gemm", args.b, scratch, exec);
  sm90::grouped_few({w, a.view.as<const uint16_t>(), a.view.stride, device_groups(args.groups, args.y.rows),
                     args.y.cols, args.a.depth()},
                    epilogue, exec.stream);
}

constexpr int64_t kCounterBytes = 256;

/// A counter in scratch, set to 0 on the stream.
int* counter(Scratch& scratch, const Exec& exec) {
  auto* at = reinterpret_cast<int*>(scratch.take(kCounterBytes));
  if (at == nullptr)
    refuse("grouped_gemm", "the scratch is too small for the counter of tiles: see grouped_scratch");
  const cudaError_t error = cudaMemsetAsync(at, 0, sizeof(int), static_cast<cudaStream_t>(exec.stream));
  if (error != cudaSuccess)
    fail_cuda(false, "counter of tiles", cudaGetErrorName(error), cudaGetErrorString(error));
  return at;
}

void require_addressable(const TensorView& x, std::string_view name) {
  if (const std::string problem = sm90::tensor_map_problem(x); !problem.empty())
    refuse("grouped_wgrad", fmt::format("{}: {}", name, problem));
}

}  // namespace

int64_t grouped_scratch(const GemmProblem& p, int64_t rows, int64_t groups, int) {
  // Weights by columns are a stack of K rows of N.
  const int64_t turned =
      format(p.b).block == 0 && p.n % 8 != 0 ? round_up(2 * groups * p.k * round_up(p.n, 8), 256) : 0;
  return kCounterBytes + copy_bytes(p.a, rows, p.k) + std::max(copy_bytes(p.b, groups * p.n, p.k), turned);
}

void grouped_gemm(const GroupedGemmArgs& args, const Exec& exec) {
  if (args.y.size() == 0) return;
  require_groups("grouped_gemm", args.groups, args.y.rows);
  if (args.order == SumOrder::canonical)
    refuse("grouped_gemm", "the canonical order runs on ref and simd; gemm has it for one group");
  for (const Operand* x : {&args.a, &args.b}) {
    if (!on_tensor_cores(x->format()) || (!x->quantized() && x->dense.dtype != DType::bf16))
      refuse("grouped_gemm",
             "operands of f32 and f64 run on ref and simd; the tensor cores take bf16 and codes");
    (void)device_operand(*x);  // refuses what has no device code
  }
  Scratch scratch(exec.scratch);
  if (few_rows(args)) return run_few(args, scratch, exec);
  int* claimed = counter(scratch, exec);
  const Prepared a = prepare("grouped_gemm", args.a, "a", scratch, exec),
                 b = prepare("grouped_gemm", args.b, "b", scratch, exec);
  const int64_t n = args.y.cols, k = args.a.depth();
  const sm90::GroupedEpilogue epilogue = epilogue_of(args);
  const sm90::GroupedProduct product{.a = a.view,
                                     .b = b.view,
                                     .y = args.y,
                                     .b_major = b.major,
                                     .groups = device_groups(args.groups, args.y.rows),
                                     .n = n,
                                     .k = k,
                                     .chunk = sm90::chunk_length(n, k),
                                     .claimed = claimed};
  const auto kernel = sm90::chunks(n, k) == 1 ? sm90::grouped_wide : sm90::grouped_chunked;
  kernel(product, epilogue, exec.stream);
}

void grouped_wgrad(const GroupedWgradArgs& args, const Exec& exec) {
  if (args.y.size() == 0) return;
  require_groups("grouped_wgrad", args.groups, std::max(args.a.rows, args.y.rows));
  require_addressable(args.a, "a");
  require_addressable(args.b, "b");
  const int64_t k = args.b.cols;
  // y's rows are those of all groups, so a's scales of lines need no step from group to group.
  const ScaleSteps a_steps = {args.as.per == OuterScale::expert ? 1 : 0,
                              args.as.per == OuterScale::row ? 1 : 0};
  sm90::GroupedEpilogue epilogue = epilogue_of(args.y, args.as, a_steps, args.bs, steps(args.bs.per, k));
  epilogue.each.accumulate = args.output == Output::accumulate;
  // The chunk rule for N = k columns: one chain however many rows, or chunks of 1024 rows.
  const bool wide = k >= sm90::kWide;
  const sm90::GroupedWgrad product{.a = args.a,
                                   .b = args.b,
                                   .y = args.y,
                                   .groups = device_groups(args.groups, args.a.rows),
                                   .chunk = wide ? 0 : sm90::kChunk};
  wide ? sm90::grouped_wgrad_wide(product, epilogue, exec.stream)
       : sm90::grouped_wgrad_chunked(product, epilogue, exec.stream);
}

}  // namespace minite::cuda
