// Which kernel quantizes, and its arguments.
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"

namespace minite::cuda {

namespace {
constexpr std::string_view kNone = "no kernel yet; use ref or simd for it";
}

Support supports_quantize(const QuantSpec&) { return {false, {}, {}, false, std::string(kNone)}; }
void quantize(const QuantizeArgs&, const Exec&) { refuse("quantize", kNone); }
void decode_blocks(const QTensor& q, const TensorView& y, const Exec& exec);
void dequantize(const DequantizeArgs& args, const Exec& exec) {
  if (args.multiplier == Multiplier::all || args.y.dtype != DType::bf16) refuse("dequantize", kNone);
  decode_blocks(args.q, args.y, exec);
}
void transpose_codes(const TransposeCodesArgs&, const Exec&) { refuse("transpose_codes", kNone); }
void norm_quantize(const NormQuantizeArgs&, const Exec&) { refuse("norm_quantize", kNone); }
void swiglu_quantize(const SwigluQuantizeArgs&, const Exec&) { refuse("swiglu_quantize", kNone); }
void add_norm_quantize(const AddNormQuantizeArgs&, const Exec&) { refuse("add_norm_quantize", kNone); }
void permute_quantize(const PermuteQuantizeArgs&, const Exec&) { refuse("permute_quantize", kNone); }

}  // namespace minite::cuda
