#include "backends/cuda/common/epilogue.h"

namespace minite::cuda {
namespace {

/// Scales of an operand: multipliers, or amaxes for Epilogue::te.
const float* scales(const Operand& x, Epilogue epilogue) {
  if (!x.quantized() || x.q.outer_count() == 0) return nullptr;
  return epilogue == Epilogue::te ? x.q.amax : x.q.outer;
}
int64_t step(const Operand& x) { return x.quantized() && x.q.spec.outer == OuterScale::row ? 1 : 0; }
float range(const Operand& x) { return 6.0f * static_cast<float>(x.q.spec.scale_max); }

}  // namespace

DeviceEpilogue device_epilogue(const GemmArgs& args) {
  const bool te = args.epilogue == Epilogue::te;
  return {.a = scales(args.a, args.epilogue),
          .b = scales(args.b, args.epilogue),
          .a_step = step(args.a),
          .b_step = step(args.b),
          .bias = args.bias.empty() ? nullptr : args.bias.as<const float>(),
          .y = args.y.data,
          .stride = args.y.stride,
          .te_range = te ? range(args.a) * range(args.b) : 0.0f,
          .accumulate = args.output == Output::accumulate,
          .to_bf16 = args.y.dtype == DType::bf16,
          .vectors = reinterpret_cast<uintptr_t>(args.y.data) % 16 == 0 &&
                     args.y.stride * dtype_size(args.y.dtype) % 16 == 0};
}

}  // namespace minite::cuda
