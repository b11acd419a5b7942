#pragma once
// Where diagnostics listen. Modules call the probe at fixed numeric boundaries; without one they do nothing.
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/format.h"
#include "minite/tensor.h"

namespace minite {

/// A numeric boundary of a module.
enum class Point : uint8_t {
  input,        ///< of a linear layer, or of a norm: the residual stream
  weight,       ///< of a linear layer, at each use
  output,       ///< before a residual is added
  grad_output,  ///< d loss / d output of a linear layer
  grad_input,   ///< d loss / d input of a linear layer
};
[[nodiscard]] std::string_view to_string(Point point);

/// Where a value was taken. Module names are those of linear_modules() plus embed, attn_norm, attn, mlp_norm,
/// act, final_norm and lm_head; with experts also experts.act (rows packed by expert, as those of
/// experts.gate_up and experts.down) and combine, their weighted sum.
struct Tap {
  int layer = -1;  ///< -1 outside the layers
  std::string_view module;
  Point point = Point::output;
  int64_t expert = -1;  ///< of a weight of experts
};

/// What the rows of a forward pass are, one entry a row.
struct BatchRows {
  std::span<const int32_t> token;  ///< what the row reads
  std::span<const int32_t> pos;    ///< its place in its sequence, from 0
  std::span<const int64_t>
      request;  ///< its sequence, as the caller of the learner or the sampler counts them
};

/// What the rows of expert modules are: row r holds slot_of[r] = row of the batch * k + choice, sorted by
/// expert[slot_of[r]].
struct ExpertRows {
  std::span<const int32_t> expert;   ///< [T*k]
  std::span<const int32_t> slot_of;  ///< [T*k]
  int64_t k = 0;
};

/// Receives values as they are produced. Views are valid during the call only. A probe may change a value in
/// place: the pass goes on with it.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void value(const Tap& at, const TensorView& value) = 0;
  /// Codes and scales of an input, a weight or (along its rows, for dgrad) a grad_output that the recipe
  /// quantizes. The value of the same tap came before and its view still stands.
  virtual void codes(const Tap& /*at*/, const QTensor& /*codes*/) {}
  /// Codes of an operand by columns, as a backward product reads it where the recipe quantizes it again: of
  /// an input or a grad_output for wgrad, of a weight for dgrad. `value` is [rows, cols], the codes are those
  /// of its transpose, rotated if their spec says so. With experts each has codes of its own.
  virtual void columns(const Tap& /*at*/, const TensorView& /*value*/, const QTensor& /*codes*/) {}
  /// A forward pass over these rows begins.
  virtual void batch(const BatchRows& /*rows*/) {}
  /// The rows of final_norm and lm_head, from here on, are these of the batch.
  virtual void scored(std::span<const int32_t> /*rows*/) {}
  /// The rows of the experts of `layer`, from here on.
  virtual void experts(int /*layer*/, const ExpertRows& /*rows*/) {}
};

}  // namespace minite
