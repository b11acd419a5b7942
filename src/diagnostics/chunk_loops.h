#pragma once
// The loops of chunk_stats.h. chunk_loops.cpp is compiled once for every instruction set below, in namespaces
// of their own; the bits are the same, because lanes are fixed and nothing is contracted.
#include <cstddef>
#include <cstdint>

#include "minite/tensor.h"

namespace minite::diagnostics {

/// Sums of the lanes of one chunk, element i in lane i mod 8. Sums run over x - x[0], so that a large mean
/// takes no digits; lanes past the end hold x[0]. An element that is not finite leaves its mark in `shifted`,
/// which no finite FP32 numbers do.
struct ValueSums {
  double shifted, squares, absolute;  ///< of x - x[0], of its square, of |x|
  int64_t zero;
  float min, max, amin;
};

/// Codes of a chunk, one after the other without a gap.
struct ChunkCodes {
  const uint8_t* codes = nullptr;
  bool nibbles = false;                      ///< two codes a byte, the first in the low half
  uint32_t magnitude_mask = 0, largest = 0;  ///< of ElementCodes
  float ratio = 0;                           ///< at least max / bound of ElementCodes
};
struct LossSums {
  double signal, noise;  ///< not finite when a value or a decoded one is not
  int64_t nonzero, underflow, saturated;
  bool beyond;  ///< an element is saturated with |x| ratio >= |decoded| > 0, in FP32
};

#define MINITE_CHUNK_LOOPS(isa)                                                                        \
  namespace isa {                                                                                      \
  void sum_values(const float* x, size_t n, ValueSums& sums);                                          \
  void sum_values(const bf16* x, size_t n, ValueSums& sums);                                           \
  void sum_losses(const ChunkCodes& codes, const float* x, const float* decoded, size_t n, LossSums&); \
  void sum_losses(const ChunkCodes& codes, const bf16* x, const float* decoded, size_t n, LossSums&);  \
  }
MINITE_CHUNK_LOOPS(baseline)
MINITE_CHUNK_LOOPS(avx2)
#undef MINITE_CHUNK_LOOPS

}  // namespace minite::diagnostics
