#include "diagnostics/align.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "core/fail.h"
#include "diagnostics/align_cause.h"
#include "diagnostics/align_order.h"

namespace minite::diagnostics {
namespace {

constexpr std::string_view kLayers = "layers.";
constexpr std::array<std::string_view, 3> kStatus = {"equal", "differs", "other format"};

/// A weight [E, N, C] as [E N, C], a list of scales as one a row; anything else as it is.
io::TensorInfo flat(const CapturedTensor& about, io::TensorInfo tensor) {
  if (!about.point.starts_with("weight")) return tensor;
  const int64_t cols = about.point.ends_with("outer_scale") || tensor.shape.empty() ? 1 : tensor.shape.back();
  tensor.shape = {tensor.count() / std::max<int64_t>(cols, 1), cols};
  return tensor;
}

PointResult point_named(const std::string& name, int layer, std::string_view module, std::string_view point) {
  PointResult p;
  p.name = name, p.layer = layer, p.module = module, p.point = point;
  return p;
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
    add_digests();
    add_scored_rows();
    std::ranges::stable_sort(c_.points, {},
                             [](const PointResult& p) { return point_order(p.layer, p.module, p.point); });
    const auto first =
        std::ranges::find_if(c_.points, [](const auto& p) { return p.status != PointStatus::equal; });
    for (const PointResult& p : c_.points) c_.bits += p.diff.bits;
    if (first == c_.points.end()) return std::move(c_);
    c_.first = static_cast<size_t>(first - c_.points.begin());
    c_.where = locate({a_, b_, c_, experts_});
    explain({a_, b_, c_, experts_}, c_);
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
    const int64_t k = std::max<int64_t>(a_.manifest().model_number("num_experts_per_tok", 1), 1);
    for (int layer = 0; layer < a_.manifest().model_number("num_hidden_layers", 0); ++layer) {
      const PackedRows x{a_.experts(layer), a_.slots(layer), k}, y{b_.experts(layer), b_.slots(layer), k};
      if (x.slot.empty() && y.slot.empty()) continue;
      const ExpertMatch& m = experts_[layer] = match_experts(x, y, c_.rows.pairs);
      c_.expert_padding += m.padding;
      PointResult p = point_named(fmt::format("layers.{}.router.experts", layer), layer, "router", "experts");
      p.diff.elements = p.diff.rows = m.rows;
      p.diff.differing = p.diff.differing_rows = m.other;
      if (m.other > 0) {
        p.status = PointStatus::differs;
        p.diff.row = m.first;
      }
      c_.points.push_back(p);
    }
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
    if (left.type != right.type || row_elements(left) != row_elements(right) ||
        (weight && left.shape != right.shape)) {
      fail(ErrorCode::invalid_argument,
           "tensor {} is {} [{}] in {}/{} and {} [{}] in {}/{}; they cannot meet", x.name,
           io::stored_type(left.type).name, fmt::join(left.shape, ", "), a_.name(), x.file,
           io::stored_type(right.type).name, fmt::join(right.shape, ", "), b_.name(), y.file);
    }
    const Format* format = x.point.ends_with("codes") ? known_format(x.format) : nullptr;
    p.diff = compare_values(left, right,
                            weight ? same_rows(left.shape.front()) : pairs_of({a_, b_, c_, experts_}, x),
                            format != nullptr && format->bits == 4);
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
    if (has.manifest().selection != lacks.manifest().selection) {
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

  void add_digests() {
    const auto &x = a_.manifest().weights.digests, &y = b_.manifest().weights.digests;
    for (const auto& [name, units] : x) {
      const auto it = y.find(name);
      if (it == y.end()) continue;
      PointResult p = point_named(name + ".weight.digest", -1, name, "weight.digest");
      const size_t dot = name.find('.', kLayers.size());
      if (name.starts_with(kLayers) && dot != std::string::npos) {
        std::from_chars(name.data() + kLayers.size(), name.data() + dot, p.layer);
        p.module = name.substr(dot + 1);
      }
      p.diff.rows = p.diff.elements = static_cast<int64_t>(units.size());
      for (size_t i = 0; i < std::max(units.size(), it->second.size()); ++i) {
        const auto at = [&](const std::vector<std::string>& list) {
          return i < list.size() ? list[i] : "absent";
        };
        if (at(units) == at(it->second)) continue;
        if (p.diff.differing++ == 0)
          p.diff.row = static_cast<int64_t>(i), p.diff.a = at(units), p.diff.b = at(it->second);
      }
      p.diff.differing_rows = p.diff.differing;
      if (p.diff.differing > 0) p.status = PointStatus::differs;
      c_.points.push_back(std::move(p));
    }
  }

  /// Tokens that one side scores and the other does not, of sequences that both score.
  void add_scored_rows() {
    std::set<std::pair<int64_t, int32_t>> common;
    for (const auto& [i, j] : c_.scored.pairs) {
      const RowId& r = a_.scored()[static_cast<size_t>(i)];
      common.emplace(r.request, r.sample);
    }
    PointResult p = point_named("scored.rows", -1, "scored", "rows");
    p.diff.rows = static_cast<int64_t>(c_.scored.pairs.size());
    const bool same_selection = a_.manifest().selection == b_.manifest().selection;
    const auto extra = [&](const Capture& side, const std::vector<int64_t>& only) {
      return same_selection ? std::ranges::count_if(only,
                                                    [&](int64_t i) {
                                                      const RowId& r = side.scored()[static_cast<size_t>(i)];
                                                      return common.contains({r.request, r.sample});
                                                    })
                            : 0;
    };
    const auto in_a = c_.scored_only_a = extra(a_, c_.scored.only_a);
    const auto in_b = c_.scored_only_b = extra(b_, c_.scored.only_b);
    p.diff.differing = p.diff.differing_rows = in_a + in_b;
    p.diff.a = fmt::format("{} more tokens", in_a), p.diff.b = fmt::format("{} more tokens", in_b);
    if (in_a + in_b > 0) p.status = PointStatus::differs;
    c_.points.push_back(std::move(p));
  }

  const Capture &a_, &b_;
  Comparison c_;
  std::map<int, ExpertMatch> experts_;
};

}  // namespace

std::string_view to_string(PointStatus status) { return kStatus[static_cast<size_t>(status)]; }

Comparison compare_captures(const Capture& a, const Capture& b) { return Aligner(a, b).finish(); }

std::vector<WaterfallStep> waterfall(const Comparison& comparison) {
  std::vector<WaterfallStep> steps;
  for (const PointResult& p : comparison.points) {
    if (p.point != "output" || p.status == PointStatus::format || p.module == "entropy") continue;
    steps.push_back({p.name, p.layer, p.diff.relative_l2, p.replayed()});
  }
  return steps;
}

}  // namespace minite::diagnostics
