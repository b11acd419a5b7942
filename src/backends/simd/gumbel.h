#pragma once
// Gumbel-max over a whole row: sixteen Philox blocks at a time, four vocabulary entries each (formula:
// backends/ref/choose.h; generator: core/philox.h).
#include "backends/simd/tasks.h"
#include "backends/simd/vec_int.h"

namespace minite::simd::MINITE_ISA {

/// Four words a lane.
struct PhiloxWords {
  vi w0, w1, w2, w3;
};

/// Philox4x32-10 with the counter {request, pos << 32 | group} of sixteen groups.
MINITE_INLINE PhiloxWords philox(uint64_t key, uint64_t request, uint32_t pos, vi group) {
  vi c0(static_cast<uint32_t>(request)), c1(static_cast<uint32_t>(request >> 32)), c2 = group, c3(pos);
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    vi high0(0u), low0(0u), high1(0u), low1(0u);
    multiply_wide(c0, vi(0xD2511F53u), high0, low0);
    multiply_wide(c2, vi(0xCD9E8D57u), high1, low1);
    c0 = high1 ^ c1 ^ vi(k0);
    c2 = high0 ^ c3 ^ vi(k1);
    c1 = low1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// -log(-log u) with u = ((word >> 9) + 1/2) * 2^-23
MINITE_INLINE vf gumbel(vf word) {
  const vf u = (to_float(shift_right<9>(bits(word))) + vf(0.5f)) * vf(0x1p-23f);
  const vf minus(-1.0f);
  return minus * math::log(minus * math::log(u));
}

/// The largest keys so far and where they were first seen.
struct BestKeys {
  vf key{-__builtin_inff()};
  vi index{0u};

  MINITE_INLINE void add(vf candidate, vi at, vmask live) {
    const vf known = select(live, candidate, vf(-__builtin_inff()));
    const vmask better = key < known;
    key = select(better, known, key);
    index = select(better, at, index);
  }
  /// The first of the largest; 0 when nothing is above -inf.
  [[nodiscard]] MINITE_INLINE int32_t first() const {
    alignas(64) float keys[kLanes];
    alignas(64) uint32_t indices[kLanes];
    store(keys, key);
    store_u32(indices, index);
    int best = 0;
    for (int j = 1; j < kLanes; ++j) {
      if (keys[j] > keys[best] || (keys[j] == keys[best] && indices[j] < indices[best])) best = j;
    }
    return static_cast<int32_t>(indices[best]);
  }
};

/// The token of row r when every entry of the vocabulary is kept.
MINITE_INLINE int32_t gumbel_argmax(const ChooseArgs& args, int64_t r) {
  const float* x = args.logits.row<const float>(r);
  const int64_t vocab = args.logits.cols;
  const auto row = static_cast<size_t>(r);
  // Lane 4 b + k works for group 4 k + b, so that turning quads leaves entries in order.
  alignas(64) static constexpr uint32_t kGroup[kLanes] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                          2, 6, 10, 14, 3, 7, 11, 15};
  alignas(64) static constexpr uint32_t kEntry[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                          8, 9, 10, 11, 12, 13, 14, 15};
  BestKeys best;
  for (int64_t begin = 0; begin < vocab; begin += 4 * kLanes) {
    const vi group = load_u32(kGroup) + vi(static_cast<uint32_t>(begin / 4));
    const PhiloxWords words =
        philox(args.seed, args.request[row], static_cast<uint32_t>(args.pos[row]), group);
    vf quads[4] = {from_bits(words.w0), from_bits(words.w1), from_bits(words.w2), from_bits(words.w3)};
    turn_quads(quads);
    for (int64_t k = 0; k < 4 && begin + k * kLanes < vocab; ++k) {
      const int64_t at = begin + k * kLanes, n = min64(kLanes, vocab - at);
      const vf key = load_n(x + at, n) / vf(args.temperature) + gumbel(quads[k]);
      best.add(key, load_u32(kEntry) + vi(static_cast<uint32_t>(at)), first_lanes(n));
    }
  }
  return best.first();
}

}  // namespace minite::simd::MINITE_ISA
