#include "diagnostics/align.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/fail.h"
#include "diagnostics/align_cause.h"
#include "diagnostics/align_order.h"
#include "diagnostics/align_points.h"

namespace minite::diagnostics {
namespace {

constexpr std::array<std::string_view, 3> kStatus = {"equal", "differs", "other format"};

bool holds_residual(const Capture& side) {
  return std::ranges::any_of(side.manifest().tensors,
                             [](const CapturedTensor& t) { return is_residual(t.module, t.point); });
}

std::string spec_of(const CapturedTensor& t) { return t.spec.empty() ? t.format : t.spec; }

class Aligner {
 public:
  Aligner(const Capture& a, const Capture& b) : a_(a), b_(b) {}

  Comparison finish() {
    check_models();
    check_contracts();
    c_.a = a_.name(), c_.b = b_.name();
    c_.role_a = a_.manifest().role, c_.role_b = b_.manifest().role;
    c_.injected_a = a_.manifest().injected, c_.injected_b = b_.manifest().injected;
    match();
    add_tensors();
    add_digests(a_, b_, c_);
    add_scored_rows(a_, b_, c_);
    std::ranges::stable_sort(c_.points, {},
                             [](const PointResult& p) { return point_order(p.layer, p.module, p.point); });
    const auto first =
        std::ranges::find_if(c_.points, [](const auto& p) { return p.status != PointStatus::equal; });
    for (const PointResult& p : c_.points) c_.bits += p.diff.bits;
    if (first == c_.points.end()) return std::move(c_);
    c_.first = static_cast<size_t>(first - c_.points.begin());
    c_.where = locate({a_, b_, c_});
    explain({a_, b_, c_}, c_);
    return std::move(c_);
  }

 private:
  void check_models() const {
    const nlohmann::json &x = a_.manifest().model, &y = b_.manifest().model;
    std::set<std::string> fields;
    for (const auto* model : {&x, &y}) {
      for (const auto& [field, value] : model->items()) fields.insert(field);
    }
    for (const std::string& field : fields) {
      const auto text = [&](const nlohmann::json& m) {
        return m.contains(field) ? m[field].dump() : "absent";
      };
      if (text(x) == text(y)) continue;
      fail(ErrorCode::invalid_argument,
           "{0}/manifest.json and {1}/manifest.json are of different models: {2} is {3} and {4}", a_.name(),
           b_.name(), field, text(x), text(y));
    }
  }

  void check_contracts() {
    for (io::ContractDifference& d :
         io::contract_differences(a_.manifest().contract, b_.manifest().contract)) {
      if (!d.comparable) {
        fail(ErrorCode::invalid_argument,
             "{}/manifest.json and {}/manifest.json cannot be compared: contract.{} is {} and {}, so that "
             "equal bits would mean other things; capture both sides with the same",
             a_.name(), b_.name(), d.field, d.a, d.b);
      }
      c_.contract.push_back(std::move(d));
    }
    if (a_.manifest().plans != b_.manifest().plans)
      c_.contract.push_back({"plans", first_other_plan(a_, b_), first_other_plan(b_, a_), true});
  }

  /// The first plan of `x` that `y` has not.
  static std::string first_other_plan(const Capture& x, const Capture& y) {
    for (const std::string& plan : x.manifest().plans) {
      if (std::ranges::count(y.manifest().plans, plan) == 0) return plan;
    }
    return "the same plans";
  }

  void match() {
    c_.rows = match_rows(a_.rows(), b_.rows(), a_.name(), b_.name());
    c_.scored = match_rows(a_.scored(), b_.scored(), a_.name(), b_.name());
    require(
        !c_.rows.pairs.empty(),
        "{} and {} have no row in common: their requests or tokens differ. Give the tokens of one side to "
        "the other with --tokens",
        a_.name(), b_.name());
    c_.ranks_a = a_.ranks(), c_.ranks_b = b_.ranks();
    add_experts(a_, b_, c_);
  }

  void add_tensors() {
    std::set<std::string> names;
    for (const Capture* side : {&a_, &b_}) {
      for (const CapturedTensor& t : side->manifest().tensors) {
        if (!t.module.empty()) names.insert(t.name);
      }
    }
    for (const std::string& name : names) {
      const CapturedTensor *x = a_.find(name), *y = b_.find(name);
      if (x != nullptr && y != nullptr) {
        add_both(*x, *y);
      } else {
        add_one(x != nullptr ? *x : *y, x != nullptr);
      }
    }
  }

  void add_both(const CapturedTensor& x, const CapturedTensor& y) {
    PointResult p = result_of(x);
    p.provenance_b = y.provenance;
    p.spec_a = spec_of(x), p.spec_b = spec_of(y);
    p.domain_a = x.scale_domain, p.domain_b = y.scale_domain;
    if (p.spec_a != p.spec_b || p.domain_a != p.domain_b) {
      p.status = PointStatus::format;
      c_.points.push_back(std::move(p));
      return;
    }
    const io::TensorInfo left = flat(x, a_.tensor(x.name)), right = flat(y, b_.tensor(y.name));
    const bool weight = row_table(x.module, x.point) == RowTable::none;
    const bool by_expert = weight && other_experts({a_, b_, c_}, x.name);
    if (left.type != right.type || row_elements(left) != row_elements(right) ||
        (weight && !by_expert && left.shape != right.shape)) {
      fail(ErrorCode::invalid_argument,
           "tensor {} is {} [{}] in {}/{} and {} [{}] in {}/{}; they cannot meet", x.name,
           io::stored_type(left.type).name, fmt::join(left.shape, ", "), a_.name(), x.file,
           io::stored_type(right.type).name, fmt::join(right.shape, ", "), b_.name(), y.file);
    }
    const RowPairs pairs = weight ? weight_pairs({a_, b_, c_}, x.name) : pairs_of({a_, b_, c_}, x);
    if (pairs.empty() &&
        left.shape.front() + right.shape.front() > 0) {  // experts that the other side does not hold
      c_.not_compared.push_back(x.name);
      return;
    }
    const Format* format = x.point.ends_with("codes") ? known_format(x.format) : nullptr;
    p.diff = compare_values(left, right, pairs, format != nullptr && format->bits == 4);
    if (p.diff.differing > 0) p.status = PointStatus::differs;
    c_.points.push_back(std::move(p));
  }

  static PointResult result_of(const CapturedTensor& t) {
    PointResult p = point_named(t.name, t.layer, t.module, t.point);
    p.provenance_a = p.provenance_b = t.provenance;
    return p;
  }

  /// A tensor that one side lacks: it runs without codes there, was not asked for, or is missing.
  void add_one(const CapturedTensor& t, bool in_a) {
    const Capture &has = in_a ? a_ : b_, &lacks = in_a ? b_ : a_;
    // A side without any residual stream was captured before it was a point.
    const bool before = is_residual(t.module, t.point) && !holds_residual(lacks);
    if (has.manifest().selection != lacks.manifest().selection || before) {
      c_.not_compared.push_back(t.name);
      return;
    }
    const bool codes = !t.spec.empty();
    if (!codes) {
      fail(ErrorCode::invalid_argument,
           "{}/manifest.json: tensor {} is missing; {} has it, and both were asked for the same",
           lacks.name(), t.name, has.name());
    }
    PointResult p = result_of(t);
    p.status = PointStatus::format;
    (in_a ? p.spec_a : p.spec_b) = t.spec;
    (in_a ? p.domain_a : p.domain_b) = t.scale_domain;
    c_.points.push_back(std::move(p));
  }

  const Capture &a_, &b_;
  Comparison c_;
};

}  // namespace

std::string_view to_string(PointStatus status) { return kStatus[static_cast<size_t>(status)]; }

bool is_residual(std::string_view module, std::string_view point) {
  return point == "input" && module.ends_with("_norm");
}

Comparison compare_captures(const Capture& a, const Capture& b) { return Aligner(a, b).finish(); }

std::vector<WaterfallStep> waterfall(const Comparison& comparison) {
  std::vector<WaterfallStep> steps;
  for (const PointResult& p : comparison.points) {
    const bool step = p.point == "output" || is_residual(p.module, p.point);
    if (!step || p.status == PointStatus::format || p.module == "entropy") continue;
    steps.push_back({p.name, p.layer, p.diff.relative_l2, p.replayed()});
  }
  return steps;
}

}  // namespace minite::diagnostics
