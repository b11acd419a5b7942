#include "diagnostics/align_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace minite::diagnostics {
namespace {

/// A difference of log-probs that the order of a sum can make; a slip of meaning makes more.
constexpr double kRounding = 1e-4;

constexpr std::array<CauseClass, 8> kClasses = {{
    {"semantic",
     "tokens, hidden states and logits are equal and the log-probs differ, or one side scores other tokens"},
    {"weights",
     "the weights in memory differ while the inputs are equal; stale when the version in use is not "
     "that of the contract"},
    {"routing", "the router's outputs are equal and rows went to other experts"},
    {"permutation", "both sides hold the same expert weights, or the same rows, in another order"},
    {"format", "one side has other element codes, or none: recipe, rules or the format of keys and values"},
    {"scale domain",
     "the element format is the same, but an outer scale spans another set: tensor, expert or row"},
    {"conversion", "weights or inputs are equal, and the codes or scales made of them differ"},
    {"execution", "inputs, codes, scales and weights are equal and the output differs"},
}};

class Explainer {
 public:
  Explainer(const Aligned& sides, Comparison& c)
      : sides_(sides), a_(sides.a), b_(sides.b), c_(c), p_(c.points[*c.first]) {}

  void finish() {
    c_.cause = Cause{"", p_.layer, p_.module, ""};
    if (p_.module == "logprob" || p_.module == "entropy" || p_.module == "scored") {
      semantic();
    } else if (p_.point == "weight.digest") {
      weights();
    } else if (p_.status == PointStatus::format) {
      format();
    } else if (p_.point == "experts") {
      routing();
    } else if (p_.point.starts_with("input.") || p_.point.starts_with("weight.")) {
      codes();
    } else {
      output();
    }
    std::vector<std::string> fields;
    for (const io::ContractDifference& d : c_.contract) fields.push_back(d.field);
    if (!fields.empty())
      c_.cause->evidence += fmt::format(" The contracts differ in {}.", fmt::join(fields, ", "));
    if (p_.replayed())
      c_.cause->evidence += " A value was replayed, not executed: this says nothing about the kernels.";
  }

 private:
  void set(std::string_view cause, std::string evidence) {
    c_.cause->cause = cause;
    c_.cause->evidence = std::move(evidence);
  }

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
    const std::string parameter =
        p_.name.substr(0, p_.name.size() - std::string_view(".weight.digest").size());
    const WeightsInUse &x = a_.manifest().weights, &y = b_.manifest().weights;
    std::vector<std::string> left = x.digests.at(parameter), right = y.digests.at(parameter), moved;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (left[i] != right[i]) moved.push_back(std::to_string(i));
    }
    std::ranges::sort(left);
    std::ranges::sort(right);
    if (left == right) {
      set("permutation",
          fmt::format("Both sides hold the same weights of {}, but experts {} stand in other places.",
                      parameter, fmt::join(moved, ", ")));
      return;
    }
    std::string text = fmt::format("{} of {} parts of {} differ in memory, and everything before is equal.",
                                   p_.diff.differing, p_.diff.rows, parameter);
    const int64_t promised = a_.manifest().contract.weight_version;
    if (x.version != promised || y.version != promised) {
      text += fmt::format(" Stale: the contract says version {}, in use were {} at A and {} at B.", promised,
                          x.version, y.version);
    }
    set("weights", text);
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
    set("format", fmt::format("{} is {} at A and {} at B, and everything before is equal.", p_.name,
                              c_.where.a, c_.where.b));
  }

  void routing() {
    const ExpertMatch& m = sides_.experts.at(p_.layer);
    set("routing",
        fmt::format("{} of {} rows went to other experts in layer {}{}. Replay: {}.", m.other, m.rows,
                    p_.layer, equal("output") ? " while the router's outputs are equal bit for bit" : "",
                    a_.manifest().contract.replay));
  }

  void codes() {
    const bool weight = p_.point.starts_with("weight.");
    if (weight && permuted_parts()) {
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
      set("weights", fmt::format("{} of {} codes of {} differ, and everything before is equal.",
                                 p_.diff.differing, p_.diff.elements, p_.name));
      return;
    }
    const std::string source = weight ? "weights" : "inputs";
    if (p_.point.ends_with(".codes")) {
      set("conversion", fmt::format("The {} are equal, but {} of {} codes of {} differ.", source,
                                    p_.diff.differing, p_.diff.elements, p_.name));
      return;
    }
    set("conversion", fmt::format("The codes are equal, but {} of {} scales of {} differ{}.",
                                  p_.diff.differing, p_.diff.elements, p_.name, scale_text()));
  }

  /// Whether both sides have the same parts (experts) of the point in another order.
  [[nodiscard]] bool permuted_parts() const {
    const io::TensorInfo &x = a_.tensor(p_.name), &y = b_.tensor(p_.name);
    if (x.shape.size() < 2 || x.shape != y.shape || p_.point.ends_with("outer_scale")) return false;
    const auto parts = [](const io::TensorInfo& t) {
      const auto count = static_cast<size_t>(t.shape.front()), bytes = t.bytes.size() / count;
      std::vector<std::string> all;
      for (size_t i = 0; i < count; ++i)
        all.emplace_back(reinterpret_cast<const char*>(t.bytes.data()) + i * bytes, bytes);
      std::ranges::sort(all);
      return all;
    };
    return parts(x) == parts(y);
  }

  /// How outer scales differ: those of another expert, or by a constant.
  [[nodiscard]] std::string scale_text() const {
    if (!p_.point.ends_with("outer_scale")) return "";
    const auto x = a_.values<float>(p_.name, io::StoredType::f32),
               y = b_.values<float>(p_.name, io::StoredType::f32);
    const std::vector<int64_t>& shape = a_.tensor(p_.name).shape;
    if (p_.point.starts_with("weight.") && shape.size() == 2) {
      const std::string text = other_expert(x, y, static_cast<size_t>(shape[1]));
      if (!text.empty()) return text;
    }
    if (x.size() != y.size()) return "";
    const float ratio = y[0] / x[0];
    const bool constant = std::ranges::equal(
        x, y, [&](float p, float q) { return std::abs(q / p - ratio) <= 1e-6f * std::abs(ratio); });
    return constant ? fmt::format(": those of B are {} times those of A", ratio) : "";
  }

  static std::string other_expert(const std::vector<float>& x, const std::vector<float>& y, size_t n) {
    const auto part = [&](const std::vector<float>& v, size_t e) { return std::span(v).subspan(e * n, n); };
    const auto named = [&](const std::vector<float>& right, const std::vector<float>& wrong, char side) {
      std::string text;
      for (size_t e = 0; e < right.size() / n; ++e) {
        if (std::ranges::equal(part(right, e), part(wrong, e))) continue;
        size_t other = 0;
        while (other < right.size() / n && !std::ranges::equal(part(right, other), part(wrong, e))) ++other;
        if (other == right.size() / n) return std::string();
        text += fmt::format(": expert {} of {} has the scales of expert {}", e, side, other);
      }
      return text;
    };
    const std::string text = named(x, y, 'B');
    return text.empty() ? named(y, x, 'A') : text;
  }

  void output() {
    if (p_.module == "attn" && a_.manifest().contract.kv_format != b_.manifest().contract.kv_format) {
      set("format", fmt::format("Queries, keys and values are equal before attention, which reads them as {} "
                                "at A and {} at B.",
                                a_.manifest().contract.kv_format, b_.manifest().contract.kv_format));
      return;
    }
    const auto it = sides_.experts.find(p_.layer);
    if (p_.module == "combine" && it != sides_.experts.end() && it->second.order > 0) {
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
    c_.slips = find_slips(scored_tokens(sides_));
    const auto fits = std::ranges::find_if(c_.slips, &SemanticFit::fits);
    const bool logits_known =
        std::ranges::any_of(c_.points, [](const auto& p) { return p.module == "lm_head"; });
    const std::string before = logits_known ? "Hidden states and logits are equal"
                                            : "Everything that was captured before is equal (no logits)";
    if (fits != c_.slips.end()) {
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
  Comparison& c_;
  const PointResult& p_;
};

}  // namespace

std::span<const CauseClass> cause_classes() { return kClasses; }

void explain(const Aligned& sides, Comparison& comparison) { Explainer(sides, comparison).finish(); }

}  // namespace minite::diagnostics
