#pragma once
// Register tiles of attention, forward and backward. A "line" is one query row of one head; the lines of a
// block share the keys and values of one KV head. An element's chain of fma is the same whatever the tile.
#include "backends/simd/kv_store.h"

namespace minite::simd::MINITE_ISA {

// 16 chains or more hide the fma latency and share each load of K or V among the lines.
#ifdef __AVX512F__
inline constexpr int kTileLines = 4;
inline constexpr int kTileVectors = 4;
#else
inline constexpr int kTileLines = 2;
inline constexpr int kTileVectors = 2;
#endif

inline constexpr int64_t kLineBlock = 16;  ///< lines that walk a key block together

/// out[i][j] = fma chain over d ascending of x[i][d] * kt[d][j]; kL lines, kW * 16 keys.
template <int kL, int kW, class T>
MINITE_INLINE void score_tile(const float* x, int64_t ldx, const T* kt, int64_t dim, float* out) {
  vf acc[kL][kW];
  for (int64_t d = 0; d < dim; ++d) {
    vf k[kW];
    for (int w = 0; w < kW; ++w) k[w] = load(kt + d * kKeyBlock + w * kLanes);
    for (int i = 0; i < kL; ++i) {
      const vf a(x[i * ldx + d]);
      for (int w = 0; w < kW; ++w) acc[i][w] = fma(a, k[w], acc[i][w]);
    }
  }
  for (int i = 0; i < kL; ++i) {
    for (int w = 0; w < kW; ++w) store(out + i * kKeyBlock + w * kLanes, acc[i][w]);
  }
}

template <int kL, class T>
MINITE_INLINE void score_keys(const float* x, int64_t ldx, const T* kt, int64_t dim, float* out) {
  for (int64_t j = 0; j < kKeyBlock; j += kTileVectors * kLanes) {
    score_tile<kL, kTileVectors>(x, ldx, kt + j, dim, out + j);
  }
}

/// Products of `lines` rows of x with the 64 keys of one block: out is [lines, 64].
template <class T>
void scores(const float* x, int64_t ldx, int64_t lines, const T* kt, int64_t dim, float* out) {
  int64_t i = 0;
  for (; i + kTileLines <= lines; i += kTileLines) {
    score_keys<kTileLines>(x + i * ldx, ldx, kt, dim, out + i * kKeyBlock);
  }
  for (; i + 2 <= lines; i += 2) score_keys<2>(x + i * ldx, ldx, kt, dim, out + i * kKeyBlock);
  for (; i < lines; ++i) score_keys<1>(x + i * ldx, ldx, kt, dim, out + i * kKeyBlock);
}

/// Steps [begin, end) of a chain.
struct Steps {
  int64_t begin, end;
};

/// acc[i] += sum over steps s, ascending, of weight(i, s) * m[s]: fma chains on rows of `cols` floats.
/// weight(i, s) is w[i * line + s * step].
template <class T>
struct Chains {
  const float* w;
  int64_t line, step;
  const T* m;
  int64_t ldm;
  float* acc;
  int64_t lda;
  int64_t cols;  ///< a multiple of 16

  template <int kL, int kW>
  MINITE_INLINE void tile(int64_t i, int64_t c, Steps steps) const {
    vf a[kL][kW];
    for (int l = 0; l < kL; ++l) {
      for (int v = 0; v < kW; ++v) a[l][v] = load(acc + (i + l) * lda + c + v * kLanes);
    }
    for (int64_t s = steps.begin; s < steps.end; ++s) {
      vf x[kW];
      for (int v = 0; v < kW; ++v) x[v] = load(m + s * ldm + c + v * kLanes);
      for (int l = 0; l < kL; ++l) {
        const vf weight(w[(i + l) * line + s * step]);
        for (int v = 0; v < kW; ++v) a[l][v] = fma(weight, x[v], a[l][v]);
      }
    }
    for (int l = 0; l < kL; ++l) {
      for (int v = 0; v < kW; ++v) store(acc + (i + l) * lda + c + v * kLanes, a[l][v]);
    }
  }

  /// kL lines through the same steps.
  template <int kL>
  MINITE_INLINE void lines(int64_t i, Steps steps) const {
    if (steps.begin >= steps.end) return;
    int64_t c = 0;
    for (; c + kTileVectors * kLanes <= cols; c += kTileVectors * kLanes) tile<kL, kTileVectors>(i, c, steps);
    for (; c < cols; c += kLanes) tile<kL, 1>(i, c, steps);
  }

  /// kL lines, each through its own steps: alone where they differ, together in the middle.
  template <int kL>
  MINITE_INLINE void group(int64_t i, const Steps* steps) const {
    Steps shared = steps[i];
    for (int l = 1; l < kL; ++l) {
      shared.begin = max64(shared.begin, steps[i + l].begin);
      shared.end = min64(shared.end, steps[i + l].end);
    }
    shared.end = max64(shared.begin, shared.end);
    for (int l = 0; l < kL; ++l) {
      lines<1>(i + l, {steps[i + l].begin, min64(shared.begin, steps[i + l].end)});
    }
    lines<kL>(i, shared);
    for (int l = 0; l < kL; ++l) lines<1>(i + l, {max64(shared.end, steps[i + l].begin), steps[i + l].end});
  }

  /// Lines [0, count), line i through steps[i].
  void run(int64_t count, const Steps* steps) const {
    int64_t i = 0;
    for (; i + kTileLines <= count; i += kTileLines) group<kTileLines>(i, steps);
    for (; i < count; ++i) lines<1>(i, steps[i]);
  }
};

/// Rows of one sequence inside [begin, limit).
MINITE_INLINE int64_t run_end(std::span<const int32_t> seq, int64_t begin, int64_t limit) {
  int64_t end = begin + 1;
  while (end < limit && seq[static_cast<size_t>(end)] == seq[static_cast<size_t>(begin)]) ++end;
  return end;
}

/// Up to 16 lines of one KV head over rows of one sequence: row by row, heads ascending in each. The block
/// starts `skip` lines after the first head of `first_row`.
struct Lines {
  int64_t first_row, first_head, group, skip, count;
  [[nodiscard]] MINITE_INLINE int64_t row(int64_t i) const { return first_row + (skip + i) / group; }
  [[nodiscard]] MINITE_INLINE int64_t head(int64_t i) const { return first_head + (skip + i) % group; }
};

}  // namespace minite::simd::MINITE_ISA
