#pragma once
// What the parts of one layer are built from: names inside the layer to modules, parameters and weight forms.
#include <algorithm>
#include <string>
#include <vector>

#include "core/fail.h"
#include "model/weights.h"

namespace minite {

struct LayerBuild {
  std::string prefix;  ///< "layers.3."
  const Weights& weights;
  WeightCache& cache;
  const std::vector<ResolvedLinear>& resolved;
  const OpTable& table;
  const Policy& policy;

  [[nodiscard]] DType compute() const { return weights.compute(); }
  [[nodiscard]] const ResolvedLinear& module(const char* name) const {
    const std::string full = prefix + name;
    const auto it =
        std::find_if(resolved.begin(), resolved.end(), [&](const auto& r) { return r.module.name == full; });
    if (it == resolved.end()) fail(ErrorCode::internal, "no recipe was resolved for module '{}'", full);
    return *it;
  }
  [[nodiscard]] int64_t parameter(const char* name) const { return weights.index(prefix + name); }
  [[nodiscard]] LinearWeights forms(const char* name) const {
    return cache.add(prefix + name, module(name).params);
  }
  [[nodiscard]] std::vector<LinearWeights> unit_forms(const char* name) const {
    return cache.add_units(prefix + name, module(name).params);
  }
  [[nodiscard]] LayerNormLinear norm_linear(const char* name, const char* norm) const {
    return {module(name), compute(), table, policy, {}, norm};
  }
  [[nodiscard]] Linear linear(const char* name) const { return {module(name), compute(), table, policy}; }
};

}  // namespace minite
