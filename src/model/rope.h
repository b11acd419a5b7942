#pragma once
// Frequencies of rotary embeddings.
#include <vector>

#include "minite/model.h"
#include "minite/tensor.h"

namespace minite {

/// By what each of the `half` frequencies theta^(-i/half) is divided, [half] (Transformers'
/// _compute_llama3_parameters): 1 everywhere without scaling.
[[nodiscard]] std::vector<double> rope_factors(double theta, int64_t half, const RopeScaling& scaling);

/// Cosines and sines of pos * theta^(-2i/D) / factor_i, [positions, D], angles in FP64, rounded once to FP32.
void fill_rope_table(const TensorView& table, double theta, const RopeScaling& scaling = {});

}  // namespace minite
