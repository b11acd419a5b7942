#pragma once
// Faults that one side of a capture can be given, for tests and for teaching. Each changes what that side
// computes, none what is stored of it.
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "minite/recipe.h"
#include "minite/routes.h"
#include "model/weights.h"

namespace minite::rl {

enum class FaultId : uint8_t {
  expert_scale,
  shift,
  temperature_after_softmax,
  swap_experts,
  bf16_layer,
  stale_weights,
  kv_fp8,
  per_tensor_scale,
  shift_routes,
};

/// One row of the table.
struct Fault {
  FaultId id;
  std::string_view name;   ///< as on the command line
  std::string_view cause;  ///< the class that `minite compare` names
  std::string_view does;
  bool experts = false;  ///< needs a model with experts
};
[[nodiscard]] std::span<const Fault> faults();
/// Throws invalid_argument with all names for an unknown one.
[[nodiscard]] const Fault& fault_named(std::string_view name);

/// Where a fault sits, and what a side has that it could spoil.
struct FaultSite {
  FaultId id;
  int64_t layer = 0;
  float temperature = 1.0f;
  KvFormat kv = KvFormat::bf16;
  bool replays = false;  ///< recorded experts are taken
};
/// Throws invalid_argument, with the reason, when `site` would change nothing: no experts, no such layer, a
/// temperature of 1, keys and values that are FP8 already, no experts that
/// are replayed.
void check_fault(const FaultSite& site, const ModelConfig& model);

/// bf16-layer and per-tensor-scale: changes the numerics of the modules. Throws invalid_argument when no
/// module has what the fault takes away.
void alter_modules(const FaultSite& site, std::vector<ResolvedLinear>& modules);
/// swap-experts: the weights of two experts of the layer, gate_up and down.
void alter_weights(const FaultSite& site, Weights& weights);
/// expert-scale: one expert of the layer gets the outer scales of another, of experts.gate_up. `cache` is
/// fresh, and must not be refreshed afterwards. Throws invalid_argument when `params` have no outer scale of
/// weights, or all experts have the same.
void alter_codes(const FaultSite& site, const QLinearParams& params, WeightCache& cache);

/// shift-routes: each token takes the recorded experts of the token before; the first keeps its own. Throws
/// invalid_argument when all tokens of every sequence have the same experts.
void alter_routes(const FaultSite& site, std::vector<Routes>& routes);

}  // namespace minite::rl
