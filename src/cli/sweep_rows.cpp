#include "cli/sweep_rows.h"

#include <algorithm>
#include <cmath>

namespace minite::cli {
namespace {

/// Rounded to BF16 and back.
diagnostics::ErrorStats rounded_to_bf16(const io::FloatValues& x, const TensorShape3& shape) {
  diagnostics::ErrorStats stats;
  for (int64_t i = 0; i < shape.count(); ++i) {
    const float value = x.dtype == DType::bf16
                            ? static_cast<float>(reinterpret_cast<const bf16*>(x.memory.data())[i])
                            : reinterpret_cast<const float*>(x.memory.data())[i];
    const float decoded = static_cast<float>(bf16(value));
    stats.add({&value, 1}, {&decoded, 1});
  }
  return stats;
}

}  // namespace

std::vector<QuantSpec> sweep_specs() {
  std::vector<QuantSpec> specs;
  for (const bool simulated : {true, false}) {
    for (const Format& row : formats()) {
      if (row.simulated != simulated || row.block == 0) continue;
      specs.push_back({.format = row.id});
      if (!row.outer_scale) continue;
      specs.push_back({.format = row.id, .outer = OuterScale::tensor});
      specs.push_back({.format = row.id, .outer = OuterScale::row});
    }
  }
  specs.push_back({.format = FormatId::bf16});
  return specs;
}

void SweepSums::add(const SweepTensor& tensor) {
  // Experts are rows here: their means count alike.
  const TensorShape3 shape{1, tensor.shape.experts * tensor.shape.rows, tensor.shape.cols};
  for (size_t i = 0; i < specs_.size(); ++i) {
    const diagnostics::ErrorStats error =
        specs_[i].quantized()
            ? quantizer_
                  .stats(quantizer_.quantize(tensor.name, tensor.values, shape, specs_[i], Orientation::rows),
                         tensor.values, shape)
                  .error
            : rounded_to_bf16(tensor.values, shape);
    const double snr = error.snr_db();
    Sum& sum = sums_[i];
    // min that keeps NaN
    sum.worst = tensors_ == 0 || std::isnan(snr) || snr < sum.worst ? snr : sum.worst;
    sum.snr_db += snr;
    sum.mae += error.mae();
    sum.relative_l2 += error.relative_l2();
  }
  ++tensors_;
}

std::vector<SweepRow> SweepSums::rows() const {
  std::vector<SweepRow> rows;
  const auto count = static_cast<double>(tensors_);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const Format& row = format(specs_[i].format);
    const Sum& sum = sums_[i];
    rows.push_back({specs_[i], to_string(row.element), to_string(row.block_scale), sum.snr_db / count,
                    sum.worst, sum.mae / count, sum.relative_l2 / count});
  }
  return rows;
}

}  // namespace minite::cli
