#pragma once
// What the parts of a comparison share: row pairs of a tensor, and where a difference lies.
#include <map>

#include "diagnostics/align.h"
#include "minite/format.h"

namespace minite::diagnostics {

/// Two captures and what is known of them so far.
struct Aligned {
  const Capture &a, &b;
  const Comparison& comparison;
  const std::map<int, ExpertMatch>& experts;  ///< by layer
};

/// The pairs that the rows of `tensor`, which is no weight, are compared over.
[[nodiscard]] const RowPairs& pairs_of(const Aligned& sides, const CapturedTensor& tensor);
/// The row of the format table with this name; null for a format of another program.
[[nodiscard]] const Format* known_format(const std::string& name);
/// Where the first point that is not equal differs first; comparison.first is set.
[[nodiscard]] Divergence locate(const Aligned& sides);

/// The log-probs of the tokens that both sides scored, with what is known of their logits.
[[nodiscard]] ScoredTokens scored_tokens(const Aligned& sides);

}  // namespace minite::diagnostics
