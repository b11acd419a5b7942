#pragma once
// The rotation of wgrad operands: 16 points, with Transformer Engine's signs (docs/numerics.md, `rht`).
#include <array>
#include <cstdint>

#include "core/math.h"
#include "minite/tensor.h"

namespace minite {

/// Bit r: sign of element r before the Hadamard transform is minus.
inline constexpr uint32_t kHadamardSigns = 0xD7E8;

/// z of the `rht` formula.
MINITE_INLINE std::array<float, 16> hadamard(std::array<float, 16> v) {
  for (uint32_t i = 0; i < 16; ++i) {
    if ((kHadamardSigns >> i & 1u) != 0) v[i] = -v[i];
  }
  for (uint32_t stride = 1; stride < 16; stride *= 2) {
    for (uint32_t i = 0; i < 16; ++i) {
      if ((i & stride) != 0) continue;
      const float a = v[i], b = v[i + stride];
      v[i] = a + b;
      v[i + stride] = a - b;
    }
  }
  for (float& x : v) x = static_cast<float>(bf16(x * 0.25f));
  return v;
}

}  // namespace minite
