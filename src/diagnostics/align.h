#pragma once
// Two captures side by side: what is equal bit for bit, where they part first, and why. Permutation, padding
// and dispatch order do not matter.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "diagnostics/align_semantics.h"
#include "diagnostics/align_values.h"

namespace minite::diagnostics {

enum class PointStatus : uint8_t {
  equal,
  differs,
  format,  ///< other formats or scale domains, or codes on one side only: the values do not meet
};
[[nodiscard]] std::string_view to_string(PointStatus status);

/// A tensor of both sides, or something that is told of both: digests of weights, experts of rows.
struct PointResult {
  std::string name;  ///< "layers.0.qkv.input.codes"
  int layer = -1;
  std::string module, point;
  PointStatus status = PointStatus::equal;
  Provenance provenance_a = Provenance::kernel, provenance_b = Provenance::kernel;
  std::string spec_a, spec_b;      ///< quantization or dtype; empty where the side has no such tensor
  std::string domain_a, domain_b;  ///< of the scale
  ValueDifference diff;
  bool replayed() const { return provenance_a == Provenance::replay || provenance_b == Provenance::replay; }
};

/// Why the sides part. `cause` is a row of cause_classes().
struct Cause {
  std::string cause;
  int layer = -1;
  std::string module;
  std::string evidence;  ///< sentences
};
struct CauseClass {
  std::string_view name;
  std::string_view evidence;  ///< the rule, for the documentation
};
[[nodiscard]] std::span<const CauseClass> cause_classes();

/// Where the first differing point differs first.
struct Divergence {
  std::string row;  ///< identity of the row, or the row of a weight
  int64_t column = -1;
  std::string a, b;              ///< values
  std::string scale_a, scale_b;  ///< block and outer scales that act on them; empty without
};

struct Comparison {
  std::string a, b;  ///< folders
  std::string role_a, role_b, injected_a, injected_b;
  std::vector<io::ContractDifference> contract;  ///< differences that explain other bits
  RowMatch rows, scored;
  int64_t scored_only_a = 0, scored_only_b = 0;  ///< scored on one side, of sequences that both score
  std::map<int, ExpertMatch> experts;            ///< where rows went, by layer
  int64_t expert_padding = 0;                    ///< packed rows without a slot, of both sides, all layers
  int64_t ranks_a = 1, ranks_b = 1;              ///< that hold experts
  std::vector<PointResult> points;               ///< in computational order
  std::vector<std::string> not_compared;         ///< on one side only, because the sides stored other things
  int64_t bits = 0;                              ///< that differ, in all points
  std::optional<size_t> first;                   ///< the first point that is not equal
  Divergence where;
  std::optional<Cause> cause;      ///< of the first divergence
  std::vector<Cause> also;         ///< causes of differences that cannot be a consequence of it
  std::vector<SemanticFit> slips;  ///< when the log-probs are the first that differ

  [[nodiscard]] bool same() const { return !first; }
};

/// Compares. Errors, which name both captures, the file, and the tensor or the field: invalid_argument
/// (different models, contracts that differ in a field that changes the meaning, no row in common, a tensor
/// that one side lacks though both were asked for it, shapes that differ).
[[nodiscard]] Comparison compare_captures(const Capture& a, const Capture& b);

/// Whether the point is the residual stream: the input of a norm.
[[nodiscard]] bool is_residual(std::string_view module, std::string_view point);

/// Relative L2 of the residual stream and after each module, from the embedding to the log-prob.
struct WaterfallStep {
  std::string name;
  int layer = -1;
  double relative_l2 = 0;
  bool replayed = false;
};
[[nodiscard]] std::vector<WaterfallStep> waterfall(const Comparison& comparison);

}  // namespace minite::diagnostics
