#pragma once
// A seeded permutation of [0, size) that needs no memory: position i of the shuffled order is computed alone.
#include <bit>
#include <cstdint>

#include "core/philox.h"

namespace minite::tasks {

/// A Feistel network over the smallest 2h-bit range that holds `size`, with Philox as the round function.
/// Values outside [0, size) are sent round again (cycle walking: fewer than 4 times on average), which keeps
/// it a bijection. `size` from 1 to 2^62; `stream` selects another permutation of the same seed.
class Shuffle {
 public:
  constexpr Shuffle(uint64_t seed, uint32_t stream, uint64_t size)
      : seed_(seed), stream_(stream), size_(size), half_(half_bits(size)) {}

  /// The element at `position` < size.
  [[nodiscard]] constexpr uint64_t operator()(uint64_t position) const {
    do position = encrypt(position);
    while (position >= size_);
    return position;
  }

 private:
  static constexpr int kRounds = 8;

  static constexpr int half_bits(uint64_t size) {
    const int bits = static_cast<int>(std::bit_width(size - 1));
    return bits < 2 ? 1 : (bits + 1) / 2;
  }

  [[nodiscard]] constexpr uint64_t encrypt(uint64_t value) const {
    const uint64_t mask = (uint64_t{1} << half_) - 1;
    uint64_t left = value >> half_;
    uint64_t right = value & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint64_t tweak = (uint64_t{stream_} << 32) | round;
      const uint64_t mixed = left ^ (Philox::generate(seed_, right, tweak)[0] & mask);
      left = right;
      right = mixed;
    }
    return (left << half_) | right;
  }

  uint64_t seed_;
  uint32_t stream_;
  uint64_t size_;
  int half_;
};

}  // namespace minite::tasks
