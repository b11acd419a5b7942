#pragma once
// Why two sides cannot agree: the field in which their numerics differ.
#include <string>
#include <vector>

#include "rl/engine.h"

namespace minite::rl {

/// A recipe and a format of keys and values: one side of a cell.
struct GapSide {
  std::string recipe;
  KvFormat kv = KvFormat::bf16;
  friend bool operator==(const GapSide&, const GapSide&) = default;
};

struct GapCause {
  std::string field;  ///< activations, weights, kv_format, scale_domain, execution
  std::string text;   ///< one sentence with both values
};

/// The causes of a gap between `learner` and `sampler`, from what `config` (its rules and policy) makes of
/// their recipes in forward products: each field that differs; a scale that spans tokens, which differs with
/// the batch; or, when nothing differs, `execution`: the two sides should have agreed.
[[nodiscard]] std::vector<GapCause> gap_causes(const ModelConfig& model, const RunConfig& config,
                                               const GapSide& learner, const GapSide& sampler);

}  // namespace minite::rl
