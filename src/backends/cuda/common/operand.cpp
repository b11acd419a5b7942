#include "backends/cuda/common/operand.h"

#include <optional>

#include "backends/cuda/error.h"
#include "core/fail.h"

namespace minite::cuda {
namespace {

std::optional<Stored> stored(FormatId format, Convention convention) {
  const bool ggml = convention == Convention::ggml;
  switch (format) {
    case FormatId::bf16:
      return Stored::bf16;
    case FormatId::fp32:
      return Stored::fp32;
    case FormatId::nvfp4:
      return ggml ? Stored::nvfp4_unsigned_scale : Stored::nvfp4;
    case FormatId::mxfp4:
      if (ggml) return std::nullopt;
      return Stored::mxfp4;
    case FormatId::mxfp8:
      return Stored::mxfp8_e4m3;
    case FormatId::mxfp8_e5m2:
      return Stored::mxfp8_e5m2;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::string operand_problem(FormatId id, Convention convention) {
  if (stored(id, convention)) return {};
  return fmt::format("{} under convention {} has no device code; ref and simd have", format(id).name,
                     to_string(convention));
}

DeviceOperand device_operand(const Operand& x) {
  const Convention convention = x.quantized() ? x.q.spec.convention : Convention::te;
  const std::optional<Stored> how = stored(x.format(), convention);
  if (!how) refuse("qgemm", operand_problem(x.format(), convention));
  DeviceOperand d{};
  d.stored = *how;
  if (!x.quantized()) {
    if (x.dense.dtype == DType::f64) refuse("qgemm", "operands of f64 run on ref");
    const bool rows = x.along == Orientation::rows;
    d.codes = static_cast<const uint8_t*>(x.dense.data);
    d.row_stride = rows ? x.dense.stride : 1;
    d.k_stride = rows ? 1 : x.dense.stride;
    return d;
  }
  d.codes = x.q.codes;
  d.scales = x.q.block_scales;
  d.row_stride = x.q.code_stride();
  d.scale_stride = x.q.scale_stride();
  d.outer = x.q.outer_count() == 0 ? nullptr : x.q.outer;
  d.outer_step = x.q.spec.outer == OuterScale::row ? 1 : 0;
  return d;
}

}  // namespace minite::cuda
