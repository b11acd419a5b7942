#pragma once
// Two folders of one model, decoded and compared tensor by tensor.
#include <string>
#include <vector>

#include "checkpoints/convert.h"
#include "diagnostics/error_stats.h"

namespace minite::checkpoints {

struct VerifiedTensor {
  std::string name;  ///< of the BF16 weight, "X.weight"
  diagnostics::ErrorStats error;
  bool quantized = false;   ///< in the second folder
  int64_t saturated = 0;    ///< elements whose code is the largest and decodes below |x|
  int64_t zero_scales = 0;  ///< block scales of 0
  int64_t nan_scales = 0;
};

struct Verification {
  std::vector<VerifiedTensor> tensors;  ///< in natural order of names
  diagnostics::ErrorStats all;          ///< of quantized tensors
  std::vector<Fault> faults;            ///< tensors that one side lacks, other shapes, values that became NaN
};

/// Decodes both sides, a few rows at a time. The sums do not depend on the number of threads.
[[nodiscard]] Verification verify(const Context& ctx, const std::filesystem::path& source,
                                  const std::filesystem::path& converted,
                                  const ConvertProgress& progress = {});

}  // namespace minite::checkpoints
