#include "rl/gap_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace minite::rl {
namespace {

using Modules = std::vector<ResolvedLinear>;

/// Where an operand of the forward product differs: each pair of specs with the number of weights that have
/// it.
std::string differences(const Modules& learner, const Modules& sampler, QuantSpec MatmulSpec::*operand) {
  struct Pair {
    QuantSpec learner, sampler;
    int64_t weights = 0;
  };
  std::vector<Pair> pairs;
  int64_t all = 0;
  for (size_t i = 0; i < learner.size(); ++i) {
    const QuantSpec &a = learner[i].params.fprop.*operand, &b = sampler[i].params.fprop.*operand;
    all += learner[i].module.count;
    if (a == b) continue;
    auto at = std::ranges::find_if(pairs, [&](const Pair& p) { return p.learner == a && p.sampler == b; });
    if (at == pairs.end()) at = pairs.insert(pairs.end(), {a, b, 0});
    at->weights += learner[i].module.count;
  }
  std::vector<std::string> texts;
  for (const Pair& p : pairs) {
    texts.push_back(fmt::format("{} at the learner, {} at the sampler in {} of {} linear layers",
                                to_string(p.learner), to_string(p.sampler), p.weights, all));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// The first module whose activation scale spans tokens; null when there is none.
const ResolvedLinear* not_row_local(const Modules& modules) {
  const auto at = std::ranges::find_if(modules, [](const auto& m) { return !m.params.row_local(); });
  return at == modules.end() ? nullptr : &*at;
}

}  // namespace

std::vector<GapCause> gap_causes(const ModelConfig& model, const RunConfig& config, const GapSide& learner,
                                 const GapSide& sampler) {
  const Modules l = resolve_side(model, config, learner.recipe);
  const Modules s = resolve_side(model, config, sampler.recipe);
  std::vector<GapCause> causes;
  const auto add = [&](std::string_view field, const std::string& text) {
    if (!text.empty()) causes.push_back({std::string(field), text});
  };
  add("activations", differences(l, s, &MatmulSpec::a));
  add("weights", differences(l, s, &MatmulSpec::b));
  if (learner.kv != sampler.kv) {
    add("kv_format", fmt::format("keys and values {} at the learner, {} at the sampler",
                                 kv_format(learner.kv).name, kv_format(sampler.kv).name));
  }
  for (const Modules* side : {&l, &s}) {
    const ResolvedLinear* module = not_row_local(*side);
    if (module == nullptr) continue;
    add("scale_domain",
        fmt::format("policy {} lets {} of the {} take {}: one activation scale over the whole batch, so a "
                    "token's codes depend on the tokens beside it",
                    config.sampler_policy, module->module.name, side == &l ? "learner" : "sampler",
                    module->recipe));
  }
  if (causes.empty()) {
    add("execution",
        "recipes, formats of keys and values and policy are the same on both sides, so that they must agree: "
        "this is a fault of the engine, please report it");
  }
  return causes;
}

}  // namespace minite::rl
