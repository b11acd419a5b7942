#pragma once
// Philox4x32-10, the counter-based generator of every random choice in the project: a value depends on
// (key, counter) alone, never on how many values were drawn before or on which thread asks.
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#include <array>
#include <cstdint>

#include "core/hd.h"

namespace minite {

struct Philox {
  /// Four independent uniform 32-bit words. The 64-bit halves of the counter and the key are split low word
  /// first, as in Random123: counter words {lo(counter_lo), hi(counter_lo), lo(counter_hi), hi(counter_hi)}.
  MINITE_HD static constexpr std::array<uint32_t, 4> generate(uint64_t key, uint64_t counter_lo,
                                                              uint64_t counter_hi) {
    uint32_t k0 = static_cast<uint32_t>(key);
    uint32_t k1 = static_cast<uint32_t>(key >> 32);
    uint32_t c0 = static_cast<uint32_t>(counter_lo);
    uint32_t c1 = static_cast<uint32_t>(counter_lo >> 32);
    uint32_t c2 = static_cast<uint32_t>(counter_hi);
    uint32_t c3 = static_cast<uint32_t>(counter_hi >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0;
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
      c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<uint32_t>(p1);
      c3 = static_cast<uint32_t>(p0);
      k0 += 0x9E3779B9u;  // golden ratio
      k1 += 0xBB67AE85u;  // sqrt(3) - 1
    }
    return {c0, c1, c2, c3};
  }

  /// Uniform in [0, 1): the top 24 bits of `word`, so every value is exact in FP32 and 1 is never returned.
  MINITE_HD static constexpr float unit(uint32_t word) {
    return static_cast<float>(word >> 8) * 5.9604644775390625e-8f;  // 2^-24
  }
};

}  // namespace minite
