// Norms, SwiGLU, sums and permutations, and the same with codes of their output: one pass where the fused
// kernels fit, else the ops one after the other on the same stream. The bits are the same.
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/producers/kernels.h"
#include "backends/cuda/quantize/kernels.h"

namespace minite::cuda {
namespace {

void require_type(std::string_view op, DType dtype) {
  if (dtype == DType::f64) refuse(op, "tensors of f64 run on ref");
}
void require_codes(std::string_view op, const QTensor& out, DType dtype) {
  require_type(op, dtype);
  if (const std::string problem = quantize_problem(out.spec); !problem.empty()) refuse(op, problem);
}

}  // namespace

void norm(const NormArgs& args, const Exec& exec) {
  require_type("norm", args.x.dtype);
  if (fused_norm_fits(args, nullptr, nullptr)) return fused_norm(args, nullptr, nullptr, exec);
  norm_rows(args, exec);
}
void swiglu(const SwigluArgs& args, const Exec& exec) {
  require_type("swiglu", args.y.dtype);
  if (fused_swiglu_fits(args, nullptr)) return fused_swiglu(args, nullptr, exec);
  swiglu_elements(args, exec);
}
void add(const AddArgs& args, const Exec& exec) {
  require_type("add", args.y.dtype);
  add_elements(args, exec);
}
void permute(const PermuteArgs& args, const Exec& exec) {
  require_type("permute", args.y.dtype);
  if (fused_permute_fits(args, nullptr)) return fused_permute(args, nullptr, exec);
  permute_rows(args, exec);
}

void norm_quantize(const NormQuantizeArgs& args, const Exec& exec) {
  require_codes("norm_quantize", args.out, args.norm.x.dtype);
  if (fused_norm_fits(args.norm, nullptr, &args.out)) return fused_norm(args.norm, nullptr, &args.out, exec);
  norm(args.norm, exec);
  quantize({args.norm.y, Orientation::rows, args.out}, exec);
}
void add_norm_quantize(const AddNormQuantizeArgs& args, const Exec& exec) {
  require_codes("add_norm_quantize", args.out, args.norm.x.dtype);
  if (fused_norm_fits(args.norm, &args.add, &args.out))
    return fused_norm(args.norm, &args.add, &args.out, exec);
  add(args.add, exec);
  norm_quantize({args.norm, args.out}, exec);
}
void swiglu_quantize(const SwigluQuantizeArgs& args, const Exec& exec) {
  require_codes("swiglu_quantize", args.out, args.act.y.dtype);
  if (fused_swiglu_fits(args.act, &args.out)) return fused_swiglu(args.act, &args.out, exec);
  swiglu(args.act, exec);
  quantize({args.act.y, Orientation::rows, args.out}, exec);
}
void permute_quantize(const PermuteQuantizeArgs& args, const Exec& exec) {
  require_codes("permute_quantize", args.out, args.permute.y.dtype);
  if (fused_permute_fits(args.permute, &args.out)) return fused_permute(args.permute, &args.out, exec);
  permute(args.permute, exec);
  quantize({args.permute.y, Orientation::rows, args.out}, exec);
}

}  // namespace minite::cuda
