#pragma once
// NVFP4 weights [N, K] in the order of the matrix instruction ("prepacked"), so that a kernel needs no
// shuffles between a load and a product, and 17 instructions for 8 codes.
//
// A fragment is 16 rows by 64 k: four k16 steps, one 32-bit word of 8 codes a lane and step. Lane 4 g + t
// holds for rows g and g + 8 the k 2t, 2t+1, 2t+8, 2t+9 of a step (mma.h: registers a[0..3]). In a word, each
// half holds four codes, the lower one those of even k:
//
//   bit   15 | 14 | 13 | 12 | 11 10 9 | 8 7 6 | 5 4 3 | 2 1 0
//   code   0 |  2 |  3 |  1 |    3    |   0   |   1   |   2       (sign | magnitude of register a[i])
//
// so that registers 0 and 1 take one mask each. A code becomes BF16 as sign (bit 15) and magnitude
// (bits 8..6), which is code * 2^-126 (E2M1's only subnormal, 0.5, is a subnormal there too).
//
// Block scales lie apart, a byte each, re-encoded with five bits of exponent: scale * 2^119 in BF16 is
// byte * 16 + 0x7000. Their sign went to the codes; a block of scale zero has zero codes; NaN stays NaN. The
// product of both is exact and 2^-7 of the value: the epilogue multiplies sums by kFragmentGain. So sums have
// the bits of a product of decoded values, unless a product of a weight and an activation is below 2^-119.
//
// Rows are filled up to 16 and k to 128 with zeros. A row tile is a line of pairs of fragments, 1152 bytes
// each:
//   codes   [fragment of the pair][lane]   16 bytes: word s is step s
//   scales  [g]                            16 bytes: steps 0..7 of the pair, row g, then row g + 8
#include <cstdint>

#ifdef __CUDACC__
#include "backends/cuda/common/packed.h"
#endif

namespace minite::cuda::sm90 {

inline constexpr int kFragmentRows = 16, kFragmentDepth = 64;
inline constexpr float kFragmentGain = 128.0f;

inline constexpr int kPairDepth = 2 * kFragmentDepth, kPairCodeBytes = 1024, kPairBytes = 1152;

/// Prepacked weights by value in a kernel's arguments.
struct Fragments {
  const std::byte* data;
  int row_tiles;
  int pairs;  ///< of a row tile
};

constexpr int64_t fragment_row_tiles(int64_t n) { return (n + kFragmentRows - 1) / kFragmentRows; }
constexpr int64_t fragment_pairs(int64_t k) { return (k + kPairDepth - 1) / kPairDepth; }
/// Bytes of weights [n, k].
constexpr int64_t fragment_bytes(int64_t n, int64_t k) {
  return fragment_row_tiles(n) * fragment_pairs(k) * kPairBytes;
}

inline Fragments fragments_at(const std::byte* memory, int64_t n, int64_t k) {
  return {memory, static_cast<int>(fragment_row_tiles(n)), static_cast<int>(fragment_pairs(k))};
}

#ifdef __CUDACC__

/// 16 bytes of shared memory.
__device__ inline uint4 load_shared(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address)
               : "memory");
  return x;
}

/// Block scales of two steps as factors in BF16: rows g in `upper`, rows g + 8 in `lower`, the first step in
/// the lower half.
struct StepScales {
  uint32_t upper, lower;
};
__device__ inline StepScales step_scales(uint32_t bytes) {
  return {__byte_perm(bytes, 0, 0x4240) * 16u + 0x70007000u,
          __byte_perm(bytes, 0, 0x4341) * 16u + 0x70007000u};
}

/// Both halves of x times one half of `factors`.
template <int kHalf>
__device__ inline uint32_t times_half(uint32_t x, uint32_t factors) {
  uint32_t y = 0;
  if constexpr (kHalf == 0) {
    asm("{ .reg .b16 l, h; .reg .b32 f; mov.b32 {l, h}, %2; mov.b32 f, {l, l}; mul.rn.bf16x2 %0, %1, f; }"
        : "=r"(y)
        : "r"(x), "r"(factors));
  } else {
    asm("{ .reg .b16 l, h; .reg .b32 f; mov.b32 {l, h}, %2; mov.b32 f, {h, h}; mul.rn.bf16x2 %0, %1, f; }"
        : "=r"(y)
        : "r"(x), "r"(factors));
  }
  return y;
}

/// Rows of a fragment that a warp decodes: all, or g or g + 8 alone. The registers of the others are zero.
enum class Part : uint8_t { whole, upper, lower };

/// Registers a[0..3] of step `kHalf` of the two that `scales` holds, from its word of codes.
template <int kHalf, Part kPart = Part::whole>
__device__ inline void decode_step(uint32_t (&a)[4], uint32_t w, const StepScales& scales) {
  constexpr uint32_t kSigns = 0x80008000u, kMagnitudes = 0x01C001C0u, kBoth = kSigns | kMagnitudes;
  if constexpr (kPart == Part::lower) {
    a[0] = a[2] = 0;
  } else {
    a[0] = times_half<kHalf>(w & kBoth, scales.upper);
    a[2] = times_half<kHalf>((w * 64u & kMagnitudes) | (w * 2u & kSigns), scales.upper);
  }
  if constexpr (kPart == Part::upper) {
    a[1] = a[3] = 0;
  } else {
    a[1] = times_half<kHalf>(w * 8u & kBoth, scales.lower);
    a[3] = times_half<kHalf>((w >> 3 & kMagnitudes) | (w * 4u & kSigns), scales.lower);
  }
}

#endif

}  // namespace minite::cuda::sm90
