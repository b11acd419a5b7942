#pragma once
// Every format on the same data: the rows of `minite sweep`.
#include <string>
#include <string_view>
#include <vector>

#include "cli/tensor_quantizer.h"

namespace minite::cli {

/// One tensor of the data, as floats.
struct SweepTensor {
  std::string name;
  io::FloatValues values;
  TensorShape3 shape;
};

/// One format on all tensors: means and the worst over tensors. A tensor that decodes to NaN makes them NaN.
struct SweepRow {
  QuantSpec spec;
  std::string_view element, scale;
  double snr_db = 0, worst_snr_db = 0, mae = 0, relative_l2 = 0;
};

/// The specs that a sweep compares: first the simulated formats, whose pairs of element and scale the report
/// has, then every other format in each domain of outer scales that it knows, and bf16.
[[nodiscard]] std::vector<QuantSpec> sweep_specs();

/// Adds a tensor to sums; rows() gives the means.
class SweepSums {
 public:
  explicit SweepSums(OpRunner& runner) : quantizer_(runner, 0), specs_(sweep_specs()), sums_(specs_.size()) {}
  void add(const SweepTensor& tensor);
  [[nodiscard]] std::vector<SweepRow> rows() const;
  [[nodiscard]] int64_t tensors() const { return tensors_; }

 private:
  struct Sum {
    double snr_db = 0, worst = 0, mae = 0, relative_l2 = 0;
  };
  TensorQuantizer quantizer_;
  std::vector<QuantSpec> specs_;
  std::vector<Sum> sums_;
  int64_t tensors_ = 0;
};

}  // namespace minite::cli
