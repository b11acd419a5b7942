#pragma once
// The conventions of NVFP4 apart from `te`, step by step: outer scale, block scale, what an element meets,
// its code, the block's decode multiplier. A convention is a row that names its steps; conventions() says the
// formulas in words.
#include <cstdint>

#include "minite/format.h"

namespace minite {

/// The outer scale of one domain.
struct PeerOuter {
  float amax = 0;
  float stored = 1;      ///< what the peer stores: multiplier, reciprocal or amax
  float encode = 1;      ///< large: multiplies block amaxes
  float multiplier = 1;  ///< small: multiplies block scales
};

/// What steps may depend on beside their operands.
struct PeerContext {
  float range = 2688;        ///< what the outer amax maps to
  float target = 6;          ///< what a block's amax maps to
  DType dtype = DType::f32;  ///< of the weight: bf16, f16 or f32
};

/// A convention's steps.
struct Nvfp4Rule {
  Convention id;
  PeerOuter (*outer)(float amax, const PeerContext& context);
  /// Scale byte of a block; `gain` is 1, or 1.5 for the 4 of 4over6.
  uint8_t (*scale)(float amax, const PeerOuter& outer, const PeerContext& context, float gain);
  /// What each element of the block meets: a factor or a divisor, as `code` takes it.
  float (*factor)(uint8_t scale, const PeerOuter& outer);
  uint8_t (*code)(float x, float factor);
  /// Multiplier of the block's decoded codes.
  float (*decode)(uint8_t scale, float stored, const PeerContext& context);
  /// What an element counts as while candidates of 4over6 are compared; nullptr without a search.
  float (*candidate)(float x, float factor);
  bool nan_counts;  ///< whether a NaN makes its block's amax NaN
  /// Where `code` is E2M1 of the quotient x / factor, which has vector bodies: the code of NaN. Else -1.
  int quotient_nan = -1;
};

/// The rule of `id`, which must be a convention of NVFP4 other than te.
[[nodiscard]] const Nvfp4Rule& nvfp4_rule(Convention id);
/// The context of a spec; `dtype` is that of the weight.
[[nodiscard]] PeerContext peer_context(const QuantSpec& spec, DType dtype);

}  // namespace minite
