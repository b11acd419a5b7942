#pragma once
// The mean absolute gaps that the miniTE technical report gives (section 2), to stand beside one's own. They
// are of other models, engines and prompts: an order of size to compare with, not a target.
#include <string>
#include <string_view>
#include <vector>

namespace minite::diagnostics {

/// What the forward products of one side multiply: names of formats of weights and activations.
struct GapOperands {
  std::string_view weights, activations;
};

/// A cell as the report's tables tell them apart.
struct GapSetting {
  GapOperands learner, sampler;
  std::string_view learner_kv, sampler_kv;
  bool experts = false;  ///< a mixture of experts
};

struct PublishedGap {
  double value;  ///< nats; NaN where the report gives NaN
  std::string_view source;
};

/// Every figure that the report gives for the cell; empty for most cells. Table 2 and the simulated formats
/// do not name the learner: they are taken to be of a learner with the same weights and BF16 activations. The
/// report has figures of simulated formats and of formats of keys and values for one model each.
[[nodiscard]] std::vector<PublishedGap> published_gaps(const GapSetting& setting);

}  // namespace minite::diagnostics
