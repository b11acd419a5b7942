#pragma once
// What the parts of a comparison share: row pairs of a tensor, and where a difference lies.
#include "diagnostics/align.h"
#include "minite/format.h"

namespace minite::diagnostics {

/// Two captures and what is known of them so far.
struct Aligned {
  const Capture &a, &b;
  const Comparison& comparison;
};

/// The pairs that the rows of `tensor`, which is no weight, are compared over.
[[nodiscard]] const RowPairs& pairs_of(const Aligned& sides, const CapturedTensor& tensor);
/// Whether the sides say of the weight `name` that they hold other experts of it.
[[nodiscard]] bool other_experts(const Aligned& sides, const std::string& name);
/// The pairs that the rows of the weight `name` are compared over, experts in front: those that both hold.
[[nodiscard]] RowPairs weight_pairs(const Aligned& sides, const std::string& name);
/// A weight [E, N, C] as [E N, C], a list of scales as one a row; anything else as it is.
[[nodiscard]] io::TensorInfo flat(const CapturedTensor& about, io::TensorInfo tensor);
/// The row of the format table with this name; null for a format of another program.
[[nodiscard]] const Format* known_format(const std::string& name);
/// Where the first point that is not equal differs first; comparison.first is set.
[[nodiscard]] Divergence locate(const Aligned& sides);

/// The log-probs of the tokens that both sides scored, with what is known of their logits.
[[nodiscard]] ScoredTokens scored_tokens(const Aligned& sides);

}  // namespace minite::diagnostics
