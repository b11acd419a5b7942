#include "diagnostics/align_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "diagnostics/align_also.h"
#include "diagnostics/align_routing.h"
#include "diagnostics/align_weights.h"

namespace minite::diagnostics {
namespace {

constexpr std::array<CauseClass, 8> kClasses = {{
    {"semantic",
     "tokens, hidden states and logits are equal and the log-probs differ, or one side scores other tokens"},
    {"weights",
     "the weights in memory differ while the inputs are equal; stale when the version in use is not "
     "that of the contract"},
    {"routing",
     "the router's outputs are equal and rows went to other experts, or to fewer: they were dropped"},
    {"permutation", "both sides hold the same expert weights, or the same rows, in another order"},
    {"format", "one side has other element codes, or none: recipe, rules or the format of keys and values"},
    {"scale domain",
     "the element format is the same, but an outer scale spans another set: tensor, expert or row"},
    {"conversion", "weights or inputs are equal, and the codes or scales made of them differ"},
    {"execution", "inputs, codes, scales and weights are equal and the output differs"},
}};

class Explainer {
 public:
  Explainer(const Aligned& sides, const PointResult& point, bool first)
      : sides_(sides), a_(sides.a), b_(sides.b), c_(sides.comparison), p_(point), first_(first) {}

  Cause finish() {
    cause_ = Cause{"", p_.layer, p_.module, ""};
    if (p_.module == "logprob" || p_.module == "entropy" || p_.module == "scored") {
      semantic();
    } else if (p_.point == "weight.digest") {
      weights();
    } else if (p_.status == PointStatus::format) {
      format();
    } else if (p_.point == "experts") {
      set("routing", routing_evidence(sides_, p_.layer, equal("output")));
    } else if (p_.point.starts_with("input.") || p_.point.starts_with("weight.")) {
      codes();
    } else {
      output();
    }
    if (p_.replayed())
      cause_.evidence += " A value was replayed, not executed: this says nothing about the kernels.";
    return std::move(cause_);
  }

  [[nodiscard]] std::vector<SemanticFit> slips() { return std::move(slips_); }

 private:
  void set(std::string_view cause, std::string evidence) {
    cause_.cause = cause;
    cause_.evidence = std::move(evidence);
  }
  /// What the first divergence may say of everything before it.
  [[nodiscard]] std::string_view before() const { return first_ ? ", and everything before is equal" : ""; }

  [[nodiscard]] const PointResult* find(std::string_view point) const {
    const auto at = std::ranges::find_if(c_.points, [&](const PointResult& p) {
      return p.layer == p_.layer && p.module == p_.module && p.point == point;
    });
    return at == c_.points.end() ? nullptr : &*at;
  }
  [[nodiscard]] bool equal(std::string_view point) const {
    const PointResult* p = find(point);
    return p != nullptr && p->status == PointStatus::equal;
  }

  void weights() {
    const WeightSlip slip = weight_slip(sides_, p_);
    if (slip.permuted) {
      set("permutation",
          fmt::format("Both sides hold the same weights of {}, but experts {} stand in other places.",
                      slip.parameter, fmt::join(slip.moved, ", ")));
      return;
    }
    const std::string text = fmt::format("{} of {} parts of {} differ in memory{}.", p_.diff.differing,
                                         p_.diff.rows, slip.parameter, before());
    set("weights", stale(sides_) ? text + " " + stale_text(sides_) : text);
  }

  void format() {
    const CapturedTensor *x = a_.find(p_.name), *y = b_.find(p_.name);
    const bool same_element = x != nullptr && y != nullptr && x->format == y->format;
    if (same_element && p_.domain_a != p_.domain_b) {
      set("scale domain",
          fmt::format("Both sides have {} at {}, but an outer scale spans a {} at A and a {} at B.",
                      x->format, p_.name, p_.domain_a, p_.domain_b));
      return;
    }
    const auto spec = [](const std::string& name) { return name.empty() ? "no codes" : name; };
    set("format",
        fmt::format("{} is {} at A and {} at B{}.", p_.name, spec(p_.spec_a), spec(p_.spec_b), before()));
  }

  void codes() {
    const bool weight = p_.point.starts_with("weight.");
    if (weight && permuted_parts(sides_, p_)) {
      set("permutation", fmt::format("Both sides hold the same parts of {}, in other places.", p_.name));
      return;
    }
    if (!weight && p_.domain_a == "tensor") {
      set("scale domain",
          fmt::format("An outer scale of {} spans all rows of a pass, which were not the same rows on both "
                      "sides.",
                      p_.name));
      return;
    }
    if (weight && p_.point == "weight.codes" && !equal("weight.digest")) {
      set("weights", fmt::format("{} of {} codes of {} differ{}.", p_.diff.differing, p_.diff.elements,
                                 p_.name, before()));
      return;
    }
    const std::string source = weight ? "weights" : "inputs";
    if (p_.point.ends_with(".codes")) {
      set("conversion", fmt::format("The {} are equal, but {} of {} codes of {} differ.", source,
                                    p_.diff.differing, p_.diff.elements, p_.name));
      return;
    }
    set("conversion", fmt::format("The codes are equal, but {} of {} scales of {} differ{}.",
                                  p_.diff.differing, p_.diff.elements, p_.name, scale_text(sides_, p_)));
  }

  void output() {
    if (p_.module == "attn" && a_.manifest().contract.kv_format != b_.manifest().contract.kv_format) {
      set("format", fmt::format("Queries, keys and values are equal before attention, which reads them as {} "
                                "at A and {} at B.",
                                a_.manifest().contract.kv_format, b_.manifest().contract.kv_format));
      return;
    }
    const auto it = c_.experts.find(p_.layer);
    if (p_.module == "combine" && it != c_.experts.end() && it->second.order > 0) {
      set("permutation", fmt::format("The experts' outputs are equal, but {} rows have their experts in "
                                     "another order, in which combine adds them.",
                                     it->second.order));
      return;
    }
    if (permuted_rows()) {
      set("permutation", fmt::format("Both sides have the same rows of {}, at other tokens.", p_.name));
      return;
    }
    std::vector<std::string> known;
    for (const char* point : {"input", "input.codes", "input.block_scales", "input.outer_scale",
                              "weight.digest", "weight.codes", "weight.block_scales", "weight.outer_scale"}) {
      if (equal(point)) known.emplace_back(point);
    }
    if (is_residual(p_.module, p_.point)) {
      set("execution",
          fmt::format("{} of {} values of {} differ though everything that was captured before is "
                      "equal: the residual stream went wrong where it is added, stored or gathered.",
                      p_.diff.differing, p_.diff.elements, p_.name));
      return;
    }
    set("execution", fmt::format("{} of {} values of {} differ though everything that was captured before is "
                                 "equal{}{}.",
                                 p_.diff.differing, p_.diff.elements, p_.name, known.empty() ? "" : ": ",
                                 fmt::join(known, ", ")));
  }

  /// Whether the rows that differ are the same on both sides, in another order.
  [[nodiscard]] bool permuted_rows() const {
    const CapturedTensor* about = a_.find(p_.name);
    if (about == nullptr || row_table(about->module, about->point) == RowTable::none) return false;
    const RowPairs& pairs = pairs_of(sides_, *about);
    const io::TensorInfo &x = a_.tensor(p_.name), &y = b_.tensor(p_.name);
    const auto bytes = static_cast<size_t>(row_elements(x) * io::stored_type(x.type).bytes);
    const auto row = [&](const io::TensorInfo& t, int64_t i) {
      return std::string(reinterpret_cast<const char*>(t.bytes.data()) + static_cast<size_t>(i) * bytes,
                         bytes);
    };
    std::vector<std::string> left, right;
    for (const auto& [i, j] : pairs) {
      left.push_back(row(x, i));
      right.push_back(row(y, j));
    }
    std::ranges::sort(left);
    std::ranges::sort(right);
    return left == right;
  }

  void semantic() {
    if (!first_) {
      set("semantic",
          fmt::format("A scores {} tokens and B {} that the other side does not, of sequences that "
                      "both score.",
                      c_.scored_only_a, c_.scored_only_b));
      return;
    }
    slips_ = find_slips(scored_tokens(sides_));
    const auto fits = std::ranges::find_if(slips_, &SemanticFit::fits);
    const bool logits_known =
        std::ranges::any_of(c_.points, [](const auto& p) { return p.module == "lm_head"; });
    const std::string before = logits_known ? "Hidden states and logits are equal"
                                            : "Everything that was captured before is equal (no logits)";
    if (fits != slips_.end()) {
      set("semantic", fmt::format("{}; {} ({} tokens, largest error {:.2g}).", before, fits->text,
                                  fits->tokens, fits->error));
      return;
    }
    if (p_.diff.max_abs <= kRounding && p_.module != "scored") {
      set("execution", fmt::format("{}, and {} differs by at most {:.2g}, as another order of sums would.",
                                   before, p_.module, p_.diff.max_abs));
      return;
    }
    set("semantic", fmt::format("{}, but {} differs by up to {:.2g}, and no slip that is tested for fits.",
                                before, p_.module, p_.diff.max_abs));
  }

  const Aligned& sides_;
  const Capture &a_, &b_;
  const Comparison& c_;
  const PointResult& p_;
  bool first_;
  Cause cause_;
  std::vector<SemanticFit> slips_;
};

}  // namespace

std::span<const CauseClass> cause_classes() { return kClasses; }

Cause cause_of(const Aligned& sides, const PointResult& point) {
  return Explainer(sides, point, false).finish();
}

void explain(const Aligned& sides, Comparison& c) {
  const PointResult& first = c.points[*c.first];
  Explainer explainer(sides, first, true);
  Cause cause = explainer.finish();
  c.slips = explainer.slips();
  c.also = other_causes(sides, first, cause);
  std::vector<std::string> fields;
  for (const io::ContractDifference& d : c.contract) fields.push_back(d.field);
  if (!fields.empty()) cause.evidence += fmt::format(" The contracts differ in {}.", fmt::join(fields, ", "));
  c.cause = std::move(cause);
}

}  // namespace minite::diagnostics
