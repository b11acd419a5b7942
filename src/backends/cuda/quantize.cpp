// Which kernel quantizes, and its arguments. A call is refused before anything is launched.
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/quantize/both.h"
#include "backends/cuda/quantize/kernels.h"
#include "core/fail.h"

namespace minite::cuda {
namespace {

void require_kernel(std::string_view op, const QuantSpec& spec) {
  if (const std::string problem = quantize_problem(spec); !problem.empty()) refuse(op, problem);
}

}  // namespace

uint32_t item_count(const char* op, int64_t count) {
  constexpr int64_t kMost = (int64_t{1} << 32) - (1 << 16);
  if (count > kMost) refuse(op, fmt::format("{} threads are needed, a launch has at most {}", count, kMost));
  return static_cast<uint32_t>(count);
}

Support supports_quantize(const QuantSpec& spec) {
  std::string problem = quantize_problem(spec);
  if (!problem.empty()) return {false, {}, {}, false, std::move(problem)};
  const bool nvfp4 = spec.format == FormatId::nvfp4;
  return {true, nvfp4 ? "cuda_nvfp4_te" : "cuda_mx_block32", {}, true, {}};
}

void quantize(const QuantizeArgs& args, const Exec& exec) {
  const QuantSpec& spec = args.out.spec;
  require_kernel("quantize", spec);
  if (args.out.rows * args.out.cols == 0) return;
  const QuantizeJob job = quantize_job(args);
  if (mx_rows_fit(args)) return mx_quantize_rows(args, exec);
  if (spec.format != FormatId::nvfp4) return mx_quantize(job, spec, exec);
  if (rows_fit(args)) return quantize_rows(args, exec);
  const QuantizeBothArgs tiles =
      args.along == Orientation::rows ? QuantizeBothArgs{args, {}} : QuantizeBothArgs{{}, args};
  if (both_fit(tiles)) return quantize_tiles(tiles, exec);
  nvfp4_amax(job, exec);
  nvfp4_quantize(job, exec);
}

void quantize_both(const QuantizeBothArgs& args, const Exec& exec) {
  require_kernel("quantize_both", args.rows.out.spec);
  require_kernel("quantize_both", args.columns.out.spec);
  if (args.rows.x.size() > 0 && both_fit(args)) return quantize_tiles(args, exec);
  quantize(args.rows, exec);
  quantize(args.columns, exec);
}

void grouped_quantize(const GroupedQuantizeArgs& args, const Exec& exec) {
  const QuantSpec& spec = args.out.spec;
  require_kernel("grouped_quantize", spec);
  if (args.x.size() == 0) return;
  if (!groups_fit(args.groups, args.x.rows))
    refuse("grouped_quantize", fmt::format("{} rows in {} groups are more than coordinates of 32 bits reach",
                                           args.x.rows, args.groups.count));
  const DeviceGroups groups = device_groups(args.groups, args.x.rows);
  QuantizeArgs all{args.x, args.along, args.out, args.noise};
  all.decoded = args.decoded;
  // Noise is counted group by group, which the kernel for any job does.
  const bool plain = spec.rounding == Rounding::nearest && spec.search == ScaleSearch::amax;
  if (spec.format == FormatId::nvfp4 && plain && rows_fit(all)) return quantize_rows(all, groups, exec);
  QuantizeJob job = quantize_job(all);
  job.groups = groups;
  if (spec.outer == OuterScale::expert) job.domain = Domain::group;
  if (args.along == Orientation::columns) {  // decoded values lie as x does
    job.decoded_stride = 1;
    job.decoded_step = args.decoded.stride;
  }
  if (spec.format != FormatId::nvfp4) return mx_groups(job, spec, exec);
  group_columns_fit(job) ? quantize_group_columns(job, exec) : nvfp4_groups(job, exec);
}

void dequantize(const DequantizeArgs& args, const Exec& exec) {
  // Block scales alone mean the same under every convention that stores them alike: all but ggml.
  QuantSpec spec = args.q.spec;
  if (args.multiplier == Multiplier::block && spec.convention != Convention::ggml)
    spec.convention = Convention::te;
  require_kernel("dequantize", spec);
  if (args.q.rows * args.q.cols > 0) decode(args, exec);
}

void transpose_codes(const TransposeCodesArgs& args, const Exec& exec) {
  require_kernel("transpose_codes", args.q.spec);
  if (args.q.rows * args.q.cols > 0) transpose(args, exec);
}

}  // namespace minite::cuda
