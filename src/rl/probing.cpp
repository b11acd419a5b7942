#include "rl/probing.h"

#include <set>

#include "core/fail.h"
#include "minite/recipe.h"

namespace minite::rl {
namespace {

/// Every name that a rule can match: linear modules, parameters, and the other points where modules observe.
std::vector<std::string> observed_names(const Weights& weights) {
  const ModelConfig& model = weights.config();
  std::set<std::string> names = {"embed", "final_norm", "lm_head"};
  for (const LinearModule& m : linear_modules(model)) names.insert(m.name);
  for (const Parameter& p : weights.parameters()) names.insert(p.spec.name);
  const bool experts = model.num_experts > 0;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    for (const char* module : {"attn_norm", "attn", "mlp_norm", experts ? "experts.act" : "act"})
      names.insert(fmt::format("layers.{}.{}", layer, module));
    if (experts) names.insert(fmt::format("layers.{}.combine", layer));
  }
  return {names.begin(), names.end()};
}

}  // namespace

std::unique_ptr<diagnostics::StepProbe> make_step_probe(const RunConfig& config, const Weights& weights,
                                                        const OpTable& table, ThreadPool& pool) {
  const std::vector<std::string_view> modes = {"none", "stats"};
  const bool known = config.probe == modes[0] || config.probe == modes[1];
  require(known, "probe={}: expected none or stats{}", config.probe, did_you_mean(config.probe, modes));
  require(config.probe == modes[1] || config.probe_rules.empty(),
          "probe_rules are set, but probe={}; use --probe stats", config.probe);
  if (config.probe == modes[0]) return nullptr;
  auto rules = config.probe_rules.empty()
                   ? diagnostics::parse_probe_rules(std::string(diagnostics::default_probe_rules()),
                                                    "the default rules")
                   : diagnostics::parse_probe_rules(config.probe_rules, "probe_rules");
  diagnostics::check_probe_rules(rules, observed_names(weights));
  return std::make_unique<diagnostics::StepProbe>(std::move(rules), Context{&table, &pool, nullptr, {}});
}

void show_gradients(diagnostics::StepProbe& probe, const Weights& weights) {
  for (const Parameter& p : weights.parameters()) probe.gradient(p.spec.name, p.grad, p.spec.units);
}

}  // namespace minite::rl
