#pragma once
// Where diagnostics listen. Modules call the probe at fixed numeric boundaries; without one they do nothing.
#include <string_view>

#include "minite/tensor.h"

namespace minite {

/// Receives values as they are produced. Module names are those of linear_modules() plus embed, attn_norm,
/// attn, mlp_norm, act, final_norm and logits; with experts also experts.act (rows packed by expert, as those
/// of experts.gate_up and experts.down) and experts, their sum.
class Probe {
 public:
  virtual ~Probe() = default;
  /// `layer` is -1 outside the layers. The view is valid during the call only.
  virtual void output(int layer, std::string_view module, const TensorView& value) = 0;
};

}  // namespace minite
