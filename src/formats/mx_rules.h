#pragma once
// The conventions of MX formats (E8M0 block scales): how a block's amax becomes the scale byte, and an
// element its code. conventions() says the formulas in words.
#include <cstdint>

#include "minite/format.h"

namespace minite {

/// What scale rules know of an element encoding.
struct MxElement {
  float max;         ///< largest finite value
  int max_exponent;  ///< of that value
  int mantissa;      ///< bits
};
/// Of e2m1, e4m3 or e5m2.
[[nodiscard]] MxElement mx_element(Element element);

/// One block: the stored byte, and the factor that its elements meet.
struct MxBlock {
  uint8_t scale;
  float factor;
};

/// A convention's steps.
struct MxRule {
  Convention id;
  MxBlock (*block)(float amax, const MxElement& element);
  uint8_t (*code)(Element element, float x, float factor);
  /// Value of a code under a scale byte.
  float (*decode)(Element element, uint8_t code, uint8_t scale);
  bool nan_counts;  ///< whether a NaN makes its block's amax NaN
};

/// The rule of `id`, which must be a convention of MX formats.
[[nodiscard]] const MxRule& mx_rule(Convention id);

}  // namespace minite
