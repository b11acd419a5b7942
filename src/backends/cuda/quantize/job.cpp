#include "backends/cuda/quantize/job.h"

#include "core/fail.h"

namespace minite::cuda {

namespace {
bool aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }
}  // namespace

Domain domain_of(const QuantSpec& spec) {
  switch (spec.outer) {
    case OuterScale::none:
      return Domain::none;
    case OuterScale::row:
      return Domain::row;
    case OuterScale::tensor:
    case OuterScale::expert:
      break;
  }
  return Domain::tensor;
}

DeviceCodes device_codes(const QTensor& q) {
  return {q.codes, q.block_scales, q.outer, q.amax, q.rows, q.cols, q.code_stride(), q.scale_stride()};
}

QuantizeJob quantize_job(const QuantizeArgs& args) {
  const QuantSpec& spec = args.out.spec;
  const bool columns = args.along == Orientation::columns;
  return {.x = {.x = args.x.data,
                .stride = args.x.stride,
                .rows = columns ? args.x.cols : args.x.rows,
                .cols = columns ? args.x.rows : args.x.cols,
                .columns = columns,
                .f32 = args.x.dtype == DType::f32,
                .rotated = spec.rotation == Rotation::hadamard},
          .out = device_codes(args.out),
          .decoded = static_cast<bf16*>(args.decoded.data),
          .decoded_stride = args.decoded.stride,
          .domain = domain_of(spec),
          .tile = spec.blocks == BlockShape::tile,
          .stochastic = spec.rounding == Rounding::stochastic,
          .search = spec.search,
          .range = 6.0f * static_cast<float>(spec.scale_max),
          .seed = args.noise.seed,
          .stream = args.noise.stream,
          .decoded_cols = args.out.cols};
}

std::string quantize_problem(const QuantSpec& spec) {
  const Format& row = format(spec.format);
  const bool nvfp4 = spec.format == FormatId::nvfp4 && spec.convention == Convention::te;
  const bool mx = row.block_scale == Element::e8m0 && !row.simulated &&
                  (spec.convention == Convention::te || spec.convention == Convention::rceil);
  if (nvfp4 || mx) return {};
  if (row.simulated) return fmt::format("{} exists in software only; use ref or simd", row.name);
  if (!spec.quantized()) return fmt::format("{} has no codes", row.name);
  return fmt::format("convention {} of {} has no device code; te has, and rceil for MX formats",
                     to_string(spec.convention), row.name);
}

bool vectors_fit(const TensorView& x, int64_t block) {
  const int64_t per_vector = 16 / dtype_size(x.dtype);
  return aligned(x.data, 16) && x.stride % per_vector == 0 && x.cols % block == 0;
}
bool vectors_fit(const QTensor& q) {
  return aligned(q.codes, 8) && q.cols % q.spec.block_size() == 0 && q.code_stride() % 8 == 0;
}

}  // namespace minite::cuda
