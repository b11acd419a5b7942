#include "diagnostics/step_probe.h"

#include "core/fail.h"
#include "diagnostics/dump_writer.h"
#include "io/json_line.h"

namespace minite::diagnostics {
namespace {

nlohmann::json or_null(int64_t value) { return value < 0 ? nlohmann::json() : nlohmann::json(value); }

nlohmann::json about(const StatKey& key) {
  return {{"layer", or_null(key.layer)},
          {"module", key.module},
          {"tensor", tensor_name(key.tensor)},
          {"expert", or_null(key.expert)}};
}

std::string dump_name(const StatKey& key) {
  std::string name = fmt::format("{}.{}", key.name(), tensor_name(key.tensor));
  if (key.expert >= 0) name += fmt::format(".{}", key.expert);
  return name;
}

std::string histogram(const CodeStats& codes) {
  std::string text;
  for (size_t byte = 0; byte < codes.histogram.size(); ++byte) {
    if (codes.histogram[byte] > 0)
      text += fmt::format("{}[{},{}]", text.empty() ? "" : ",", byte, codes.histogram[byte]);
  }
  return fmt::format("\"{}\":[{}]", kScaleHistogram, text);
}

/// One line of stats.jsonl without its braces and its place in the run; "" when nothing was measured.
std::string line(const StatKey& key, const TensorStats& stats, const std::set<std::string_view>& names) {
  const int64_t count = std::max(stats.values.count, stats.codes.loss.error.count);
  std::string members;
  for (const Statistic& s : statistics()) {
    const bool measured = s.of_codes ? stats.has_codes() : stats.values.count > 0;
    if (!measured || !names.contains(s.name)) continue;
    members += "," + (s.get == nullptr ? histogram(stats.codes)
                                       : io::json_member(std::string(s.name), s.get(stats)));
  }
  if (members.empty()) return {};
  const auto number = [](int64_t value) {
    return value < 0 ? std::string("null") : fmt::format("{}", value);
  };
  return fmt::format(R"("side":"{}","rank":0,"layer":{},"module":{},"tensor":"{}","expert":{},"count":{}{})",
                     side_name(key.side), number(key.layer), io::json_text(key.module),
                     tensor_name(key.tensor), number(key.expert), count, members);
}

}  // namespace

std::string StatKey::name() const { return layer < 0 ? module : fmt::format("layers.{}.{}", layer, module); }

/// Listens to one side.
class StepProbe::Listener : public Probe {
 public:
  Listener(StepProbe& owner, Side side) : owner_(owner), side_(side) {}

  void value(const Tap& at, const TensorView& x) override {
    last_ = key_of(at);
    fresh_ = false;
    const Wanted& wanted = owner_.wanted(last_);
    if (wanted.stats.empty() && !wanted.dump_values && !wanted.dump_codes) return;
    if (!counts(x)) return;
    fresh_ = true;
    x_ = x;
    for_experts(x.rows, [&](const StatKey& key, int64_t begin, int64_t rows) {
      owner_.add_values(key, x.slice_rows(begin, rows));
    });
    if (wanted.dump_values) dumps().values(name(), dump_name(last_), x, about(last_));
  }

  void codes(const Tap& at, const QTensor& q) override {
    if (!fresh_ || key_of(at) != last_) return;
    const Wanted& wanted = owner_.wanted(last_);
    for_experts(q.rows, [&](const StatKey& key, int64_t begin, int64_t rows) {
      owner_.add_codes(key, q.slice_rows(begin, rows), x_.slice_rows(begin, rows));
    });
    if (wanted.dump_codes) dumps().codes(name(), dump_name(last_), q, about(last_));
  }

  void columns(const Tap& at, const TensorView& x, const QTensor& q) override {
    const StatKey key{side_, at.layer, std::string(at.module), operand_kind(at.point), at.expert};
    if (owner_.wanted(key).stats.empty()) return;
    if (key.tensor == TensorKind::weight_dgrad && !weights_.insert(key).second) return;
    owner_.add_columns(key, x, q);
  }

  void batch(const BatchRows& rows) override {
    if (owner_.dumps_) dumps().begin_pass(name(), rows);
    logits_left_ = 0;
  }
  void scored(std::span<const int32_t> rows) override { logits_left_ = static_cast<int64_t>(rows.size()); }
  void experts(int layer, const ExpertRows& rows) override {
    std::vector<int64_t>& of_expert = expert_rows_[layer];
    of_expert.clear();
    for (const int32_t e : rows.expert) {
      if (static_cast<size_t>(e) >= of_expert.size()) of_expert.resize(static_cast<size_t>(e) + 1);
      ++of_expert[static_cast<size_t>(e)];
    }
  }

  void clear() {
    weights_.clear();
    expert_rows_.clear();
    fresh_ = false;
  }

 private:
  [[nodiscard]] StatKey key_of(const Tap& at) const {
    return {side_, at.layer, std::string(at.module), tensor_kind(at.point), at.expert};
  }
  [[nodiscard]] DumpWriter& dumps() const { return *owner_.dumps_; }
  [[nodiscard]] std::string name() const { return std::string(side_name(side_)); }

  /// Whether the value is new: a weight at its first use in a step, logits before the backward pass makes
  /// them again.
  bool counts(const TensorView& x) {
    if (last_.tensor == TensorKind::weight) return weights_.insert(last_).second;
    if (last_.layer >= 0 || last_.module != "lm_head") return true;
    logits_left_ -= x.rows;
    return logits_left_ >= 0;
  }

  /// Calls body(key, first row, rows) for all rows, or for those of each expert when they are packed so.
  template <class Body>
  void for_experts(int64_t rows, const Body& body) const {
    const bool packed = last_.tensor != TensorKind::weight && last_.module.starts_with("experts.");
    const auto found = expert_rows_.find(last_.layer);
    if (!packed || found == expert_rows_.end()) {
      body(last_, int64_t{0}, rows);
      return;
    }
    StatKey key = last_;
    int64_t begin = 0;
    for (size_t e = 0; e < found->second.size(); ++e) {
      key.expert = static_cast<int64_t>(e);
      if (found->second[e] > 0) body(key, begin, found->second[e]);
      begin += found->second[e];
    }
  }

  StepProbe& owner_;
  Side side_;
  StatKey last_;        ///< of the last value
  TensorView x_;        ///< that value
  bool fresh_ = false;  ///< whether its codes are wanted too
  int64_t logits_left_ = 0;
  std::set<StatKey> weights_;
  std::map<int, std::vector<int64_t>> expert_rows_;  ///< by layer, of the pass
};

StepProbe::StepProbe(std::vector<ProbeRule> rules, const Context& context)
    : rules_(std::move(rules)), context_(context) {
  context_.probe = nullptr;
  for (const Side side : {Side::learner, Side::sampler})
    sides_[static_cast<size_t>(side)] = std::make_unique<Listener>(*this, side);
}

StepProbe::~StepProbe() = default;

void StepProbe::clear() {
  active_.clear();
  wanted_.clear();
  gathered_.clear();
  dumps_.reset();
  for (const auto& listener : sides_) listener->clear();
}

void StepProbe::begin(int64_t step, const std::filesystem::path& dumps) {
  clear();
  step_ = step;
  for (const ProbeRule& rule : rules_) {
    if (!rule.acts_at(step)) continue;
    active_.push_back(&rule);
    if (!dumps_ && (rule.dump_values || rule.dump_codes))
      dumps_ = std::make_unique<DumpWriter>(dumps / fmt::format("step_{:06}", step));
  }
}

Probe* StepProbe::side(Side side) {
  for (const ProbeRule* rule : active_) {
    const bool passes = rule->tensors.size() > (rule->tensors.contains(TensorKind::wgrad) ? 1 : 0);
    if (passes && rule->sides.contains(side)) return sides_[static_cast<size_t>(side)].get();
  }
  return nullptr;
}

const StepProbe::Wanted& StepProbe::wanted(const StatKey& key) {
  StatKey all = key;
  all.expert = -1;
  const auto [at, added] = wanted_.try_emplace(all);
  Wanted& w = at->second;
  if (!added) return w;
  const std::string name = all.name();
  for (const ProbeRule* rule : active_) {
    if (!rule->tensors.contains(all.tensor) || !rule->sides.contains(all.side) || !rule->matches(name))
      continue;
    w.stats.insert(rule->stats.begin(), rule->stats.end());
    w.dump_values |= rule->dump_values;
    w.dump_codes |= rule->dump_codes;
  }
  for (const std::string_view stat : w.stats) w.codes |= find_statistic(stat)->of_codes;
  return w;
}

void StepProbe::add_values(const StatKey& key, const TensorView& x) {
  const Wanted& w = wanted(key);
  if (w.stats.empty() || x.size() == 0) return;
  Gathered& g = gathered_[key];
  g.wanted = &w;
  g.stats.values.merge(measure(context_, x));
}

void StepProbe::add_codes(const StatKey& key, const QTensor& q, const TensorView& x) {
  const Wanted& w = wanted(key);
  if (!w.codes || x.size() == 0) return;
  Gathered& g = gathered_[key];
  g.wanted = &w;
  g.stats.codes.merge(measure_codes(context_, q, x, decoded_));
}

void StepProbe::add_columns(const StatKey& key, const TensorView& x, const QTensor& q) {
  if (x.size() == 0) return;
  const OperandStats operand = measure_columns(context_, x, q, columns_);
  Gathered& g = gathered_[key];
  g.wanted = &wanted(key);
  g.stats.values.merge(operand.values);
  g.stats.codes.merge(operand.codes);
}

void StepProbe::gradient(const std::string& name, const TensorView& grad, int64_t units) {
  StatKey key{Side::learner, -1, name, TensorKind::wgrad, -1};
  if (name.starts_with("layers.")) {
    const size_t dot = name.find('.', 7);
    key.layer = std::stoi(name.substr(7, dot - 7));
    key.module = name.substr(dot + 1);
  }
  const Wanted& w = wanted(key);
  if (w.dump_values) dumps_->values("learner_gradients", dump_name(key), grad, about(key));
  const int64_t rows = grad.rows / units;
  for (int64_t unit = 0; unit < units; ++unit) {
    if (units > 1) key.expert = unit;
    add_values(key, grad.slice_rows(unit * rows, rows));
  }
}

std::vector<std::string> StepProbe::finish() {
  std::vector<std::string> lines;
  for (const auto& [key, gathered] : gathered_) {
    std::string text = line(key, gathered.stats, gathered.wanted->stats);
    if (!text.empty()) lines.push_back(std::move(text));
  }
  if (dumps_) dumps_->finish(step_);
  clear();
  return lines;
}

}  // namespace minite::diagnostics
