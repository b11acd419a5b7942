#include "rl/capture_fault.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/fail.h"

namespace minite::rl {
namespace {

constexpr std::array<Fault, 9> kFaults = {{
    {FaultId::expert_scale, "expert-scale", "conversion",
     "one expert's gate_up is decoded with the outer scales of another expert", true},
    {FaultId::shift, "shift", "semantic", "every log-prob is that of the position before"},
    {FaultId::temperature_after_softmax, "temperature-after-softmax", "semantic",
     "log-probs are divided by the temperature, not the logits"},
    {FaultId::swap_experts, "swap-experts", "permutation", "two experts have changed places", true},
    {FaultId::bf16_layer, "bf16-layer", "format", "the linear layers of one layer run in bf16"},
    {FaultId::stale_weights, "stale-weights", "weights",
     "the weights are of another version: the checkpoint before, or one update away"},
    {FaultId::kv_fp8, "kv-fp8", "format", "keys and values are kept in FP8"},
    {FaultId::per_tensor_scale, "per-tensor-scale", "scale domain",
     "activations have one outer scale over all rows of a pass, under policy fastest"},
    {FaultId::shift_routes, "shift-routes", "routing",
     "replayed experts are those of the position before, in every layer", true},
}};

std::string_view name_of(FaultId id) { return std::ranges::find(kFaults, id, &Fault::id)->name; }

/// The parameter `name` of the site's layer.
std::string in_layer(const FaultSite& site, std::string_view name) {
  return fmt::format("layers.{}.{}", site.layer, name);
}

void swap_units(const TensorView& whole, int64_t units, int64_t a, int64_t b) {
  const int64_t rows = whole.rows / units;
  const auto bytes = rows * whole.cols * dtype_size(whole.dtype);
  auto* base = static_cast<std::byte*>(whole.data);
  std::swap_ranges(base + a * bytes, base + (a + 1) * bytes, base + b * bytes);
}

/// The two experts whose first outer scales are farthest apart.
std::pair<size_t, size_t> farthest(const std::vector<LinearWeights>& experts) {
  const auto scale = [](const LinearWeights& w) { return w.fprop.outer[0]; };
  const auto [low, high] = std::ranges::minmax_element(experts, {}, scale);
  return {static_cast<size_t>(low - experts.begin()), static_cast<size_t>(high - experts.begin())};
}

}  // namespace

std::span<const Fault> faults() { return kFaults; }

const Fault& fault_named(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Fault& fault : kFaults) {
    if (fault.name == name) return fault;
    names.push_back(fault.name);
  }
  fail(ErrorCode::invalid_argument, "unknown fault '{}'; --inject takes {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

void check_fault(const FaultSite& site, const ModelConfig& model) {
  const Fault& fault = *std::ranges::find(kFaults, site.id, &Fault::id);
  require(!fault.experts || model.num_experts > 1,
          "--inject {} needs a mixture of experts, but the model is dense (num_experts={})", fault.name,
          model.num_experts);
  require(site.layer >= 0 && site.layer < model.num_hidden_layers,
          "--inject-layer {} is no layer of the model, which has layers 0 to {}", site.layer,
          model.num_hidden_layers - 1);
  require(
      site.id != FaultId::temperature_after_softmax || (site.temperature != 1.0f && site.temperature > 0.0f),
      "--inject {} changes nothing at temperature {}; give --temperature 0.7", fault.name, site.temperature);
  require(site.id != FaultId::shift_routes || site.replays,
          "--inject {} spoils experts that are replayed, but this side routes by its own scores; make the "
          "sampler's capture with --router-replay R3 and run the learner",
          fault.name);
  require(site.id != FaultId::kv_fp8 || site.kv != KvFormat::fp8,
          "--inject {}: keys and values are fp8 already; leave --kv-cache away", fault.name);
}

void alter_modules(const FaultSite& site, std::vector<ResolvedLinear>& modules) {
  int64_t changed = 0;
  for (ResolvedLinear& m : modules) {
    QuantSpec& a = m.params.fprop.a;
    if (site.id == FaultId::bf16_layer && m.module.layer == site.layer && m.module.covered) {
      const RecipeSpec& bf16 = get_recipe("bf16");
      changed += m.params == bf16.params ? 0 : 1;
      m.recipe = bf16.name, m.params = bf16.params, m.reason = "fault bf16-layer";
    }
    if (site.id == FaultId::per_tensor_scale && a.outer == OuterScale::row) {
      a.outer = OuterScale::tensor;
      m.recipe += "+per-tensor-scale", m.reason = "fault per-tensor-scale";
      ++changed;
    }
  }
  const bool alters = site.id == FaultId::bf16_layer || site.id == FaultId::per_tensor_scale;
  require(!alters || changed > 0, "--inject {} changes nothing: {}", name_of(site.id),
          site.id == FaultId::bf16_layer ? "the layer runs in bf16 already; take a quantized --recipe"
                                         : "no activation has an outer scale a row; take --recipe "
                                           "nvfp4_per_token or another with one");
}

void alter_weights(const FaultSite& site, Weights& weights) {
  if (site.id != FaultId::swap_experts) return;
  for (const char* name : {"experts.gate_up", "experts.down"}) {
    const Parameter& p = weights.at(in_layer(site, name));
    for (const TensorView& t : {p.weight, p.master}) swap_units(t, p.spec.units, 0, p.spec.units - 1);
  }
  weights.bump_version();
}

void alter_codes(const FaultSite& site, const QLinearParams& params, WeightCache& cache) {
  if (site.id != FaultId::expert_scale) return;
  const std::vector<LinearWeights> experts = cache.add_units(in_layer(site, "experts.gate_up"), params);
  require(experts.front().fprop.outer != nullptr,
          "--inject {}: weights in {} have no outer scale to mistake; take an nvfp4 recipe", name_of(site.id),
          to_string(params.fprop.b));
  const auto [to, from] = farthest(experts);
  const QTensor &q = experts[to].fprop, &other = experts[from].fprop;
  const auto bytes = static_cast<size_t>(q.outer_count()) * sizeof(float);
  require(std::memcmp(q.outer, other.outer, bytes) != 0,
          "--inject {}: all experts of layer {} have the same outer scales", name_of(site.id), site.layer);
  std::memcpy(q.outer, other.outer, bytes);
  if (q.reciprocal != nullptr) std::memcpy(q.reciprocal, other.reciprocal, bytes);
  if (q.amax != nullptr) std::memcpy(q.amax, other.amax, bytes);
}

void alter_routes(const FaultSite& site, std::vector<Routes>& routes) {
  if (site.id != FaultId::shift_routes) return;
  bool changed = false;
  for (Routes& r : routes) {
    const auto width = static_cast<std::ptrdiff_t>(r.layers * r.top_k);
    const std::vector<int32_t> recorded = r.expert;
    // The last token is a target only: its row stays -1.
    const auto end = recorded.end() - 2 * width;
    if (r.tokens() > 2) std::copy(recorded.begin(), end, r.expert.begin() + width);
    changed = changed || r.expert != recorded;
  }
  require(changed, "--inject {} changes nothing: all tokens of a sequence have the same experts",
          name_of(site.id));
}

}  // namespace minite::rl
