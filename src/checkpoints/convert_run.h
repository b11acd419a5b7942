#pragma once
// Makes the tensors of units.
#include "checkpoints/convert_plan.h"
#include "core/memory.h"

namespace minite::checkpoints {

/// Where a unit's tensors go: the name, then its bytes in one call or several.
using TensorSink = std::function<void(const std::string& name, std::span<const std::byte> bytes)>;

class UnitMaker {
 public:
  /// Both must outlive the object.
  UnitMaker(const Context& ctx, const ConvertPlan& plan) : ctx_(&ctx), plan_(&plan) {}

  /// Gives every tensor of a unit to `sink`. Memory: the codes of the unit and a copy of its weights.
  void make(const ConvertUnit& unit, const TensorSink& sink);
  /// What setting block scales of a unit to shared outer scales loses; nothing for other units.
  [[nodiscard]] static std::vector<RescaleLoss> losses(const ConvertUnit& unit);

 private:
  void quantize(const ConvertUnit& unit, const TensorSink& sink);
  void transfer(const Member& member, const TensorSink& sink) const;
  void decode(const Member& member, const TensorSink& sink) const;

  const Context* ctx_;
  const ConvertPlan* plan_;
};

/// The weights of members, one below the other, in BF16 or (where one is wider) FP32.
struct StackedRows {
  Buffer memory;
  TensorView view;
  DType stored = DType::f32;  ///< as in QuantizeArgs
};
[[nodiscard]] StackedRows stack_rows(const std::vector<Member>& members);

/// A block scale under an outer scale `ratio` times as large: e4m3(fl(scale * fl(ratio))); NaN stays NaN.
[[nodiscard]] uint8_t rescaled_byte(uint8_t scale, double ratio);

}  // namespace minite::checkpoints
