// Gradient of attention: one task walks the rows of a sequence against one KV head, with the gradients of the
// sequence's keys and values in scratch (formula: backends/ref/attention.h).
#include "backends/simd/attention_tiles.h"
#include "backends/simd/kernels.h"
#include "backends/simd/transpose.h"

namespace minite::simd::MINITE_ISA {
namespace {

constexpr int64_t kSlabs = 4;  // keys by rows, values transposed, dk, dv

int64_t slab_floats(int64_t keys, int64_t dim) { return round_up(keys, kKeyBlock) * round_up(dim, kLanes); }

/// One sequence and one KV head. The slabs hold `padded` floats a key, zeros beyond the head dimension.
template <class T, class S>
struct Sequence {
  const AttentionBackwardArgs& args;
  const int64_t begin, end, kv_head;
  float* const k_rows;   ///< [keys, padded]
  float* const v_lanes;  ///< block by block [padded, 64]
  float* const dk;       ///< [keys, padded]
  float* const dv;
  const int64_t dim = args.kv.head_dim, padded = round_up(dim, kLanes), keys = end - begin;
  const int64_t group = args.heads / args.kv.kv_heads;
  const int64_t first_block = args.kv.first_block[static_cast<size_t>(args.seq[static_cast<size_t>(begin)])];

  [[nodiscard]] const S* k_lanes(int64_t block) const {
    return args.kv.template k<const S>(first_block + block, kv_head);
  }

  /// Both orientations of K and V: the store has K by lanes and V by rows.
  void prepare() {
    for (int64_t b = 0; b * kKeyBlock < keys; ++b) {
      const int64_t at = b * kKeyBlock * padded;
      const int64_t n = min64(kKeyBlock, keys - b * kKeyBlock);
      const S* v = args.kv.template v<const S>(first_block + b, kv_head);
      alignas(64) float wide[kKeyBlock * kMaxHeadDim];
      for (int64_t j = 0; j < kKeyBlock; ++j) {
        float* row = wide + j * padded;
        for (int64_t d = 0; d < padded; d += kLanes) store(row + d, vf());
        if (j < n) widen_row(v + j * dim, dim, row);
      }
      transpose(wide, padded, kKeyBlock, padded, v_lanes + at, kKeyBlock);
      for (int64_t d = 0; d < padded * kKeyBlock; d += kLanes) store(wide + d, vf());
      for (int64_t d = 0; d < dim; ++d)
        widen_row(k_lanes(b) + d * kKeyBlock, kKeyBlock, wide + d * kKeyBlock);
      transpose(wide, kKeyBlock, padded, kKeyBlock, k_rows + at, padded);
      for (int64_t i = at; i < at + kKeyBlock * padded; i += kLanes) {
        store(dk + i, vf());
        store(dv + i, vf());
      }
    }
  }
  static void transpose(const float* src, int64_t lds, int64_t rows, int64_t cols, float* dst, int64_t ldd) {
    for (int64_t i = 0; i < rows; i += kLanes) {
      for (int64_t j = 0; j < cols; j += kLanes) transpose16(src + i * lds + j, lds, dst + j * ldd + i, ldd);
    }
  }

  /// dk and dv rounded to storage.
  void finish() const {
    for (int64_t j = 0; j < keys; ++j) {
      T* dk_row = args.dk.template row<T>(begin + j) + kv_head * dim;
      T* dv_row = args.dv.template row<T>(begin + j) + kv_head * dim;
      for_lanes(dim, [&](int64_t d, int64_t n) {
        store_n(dk_row + d, load(dk + j * padded + d), n);
        store_n(dv_row + d, load(dv + j * padded + d), n);
      });
    }
  }
};

/// Up to 16 lines: their dq, and their part of dk and dv.
template <class T, class S>
struct GradLines {
  const Sequence<T, S>& sequence;
  const Lines lines;
  const AttentionBackwardArgs& args = sequence.args;
  const int64_t dim = sequence.dim, padded = sequence.padded, count = lines.count;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  const KvScale stored = args.kv.scale;
  int64_t keys[kLineBlock];
  float delta[kLineBlock], lse[kLineBlock];
  alignas(64) float p[kLineBlock * kKeyBlock];   ///< scores, then probabilities
  alignas(64) float ds[kLineBlock * kKeyBlock];  ///< do . v, then score gradients
  alignas(64) float q[kLineBlock * kMaxHeadDim];
  alignas(64) float dout[kLineBlock * kMaxHeadDim];
  alignas(64) float dq[kLineBlock * kMaxHeadDim];

  MINITE_INLINE GradLines(const Sequence<T, S>& s, const Lines& part) : sequence(s), lines(part) {}

  MINITE_INLINE void begin() {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = lines.row(i), at = lines.head(i) * dim;
      const T* o = args.o.template row<const T>(r) + at;
      const T* g = args.dout.template row<const T>(r) + at;
      keys[i] = int64_t{args.pos[static_cast<size_t>(r)]} + 1;
      lse[i] = args.lse.template row<const float>(r)[lines.head(i)];
      delta[i] = lane_sum(
          dim, [&](vf acc, int64_t d, int64_t n) { return fma(load_n(g + d, n), load_n(o + d, n), acc); });
      widen_row(args.q.template row<const T>(r) + at, dim, q + i * padded);
      widen_row(g, dim, dout + i * padded);
      for (int64_t d = 0; d < padded; d += kLanes) store(dq + i * padded + d, vf());
    }
  }

  /// p and ds of one line against one block; entries beyond the line's keys are never used.
  MINITE_INLINE void score_grad(int64_t i) {
    for (int64_t j = i * kKeyBlock; j < (i + 1) * kKeyBlock; j += kLanes) {
      const vf prob = math::exp(vf(scale * stored.k) * load(p + j) - vf(lse[i]));
      store(p + j, rounded_to(T{}, prob));
      store(ds + j, prob * (vf(stored.v) * load(ds + j) - vf(delta[i])) * vf(scale));
    }
  }

  MINITE_INLINE void block(int64_t b, int64_t first) {
    const int64_t at = b * kKeyBlock * padded, n = count - first;
    alignas(64) float wide[kKeyBlock * kMaxHeadDim];
    const auto* k = readable(sequence.k_lanes(b), kKeyBlock * dim, wide);
    scores(q + first * padded, padded, n, k, dim, p + first * kKeyBlock);
    scores(dout + first * padded, padded, n, sequence.v_lanes + at, dim, ds + first * kKeyBlock);
    Steps by_line[kLineBlock], by_key[kKeyBlock];
    int64_t seen = 0;  // keys seen by the lines so far
    for (int64_t i = first; i < count; ++i) {
      score_grad(i);
      by_line[i] = {0, min64(kKeyBlock, keys[i] - b * kKeyBlock)};
      for (; seen < by_line[i].end; ++seen) by_key[seen] = {i, count};
    }
    Chains<float>{ds + first * kKeyBlock, kKeyBlock, 1,     sequence.k_rows + at, padded,
                  dq + first * padded,    padded,    padded}
        .run(n, by_line + first);
    Chains<float>{ds, 1, kKeyBlock, q, padded, sequence.dk + at, padded, padded}.run(seen, by_key);
    Chains<float>{p, 1, kKeyBlock, dout, padded, sequence.dv + at, padded, padded}.run(seen, by_key);
  }

  void run() {
    begin();
    int64_t first = 0;
    for (int64_t b = 0; b * kKeyBlock < keys[count - 1]; ++b) {
      while (keys[first] <= b * kKeyBlock) ++first;
      block(b, first);
    }
    for (int64_t i = 0; i < count; ++i) {
      T* out = args.dq.template row<T>(lines.row(i)) + lines.head(i) * dim;
      for_lanes(dim,
                [&](int64_t d, int64_t n) { store_n(out + d, load(dq + i * padded + d) * vf(stored.k), n); });
    }
  }
};

template <class T, class S>
void backward_sequence(const AttentionBackwardArgs& args, int64_t begin, int64_t end, int64_t kv_head,
                       std::span<std::byte> scratch) {
  const int64_t slab = slab_floats(end - begin, args.kv.head_dim);
  const int64_t want = kSlabs * slab * int64_t{sizeof(float)}, have = static_cast<int64_t>(scratch.size());
  if (have < want) short_scratch("attention_backward", have, want);
  float* memory = reinterpret_cast<float*>(scratch.data());
  Sequence<T, S> sequence{
      args, begin, end, kv_head, memory, memory + slab, memory + 2 * slab, memory + 3 * slab};
  sequence.prepare();
  const int64_t lines = (end - begin) * sequence.group;
  for (int64_t i = 0; i < lines; i += kLineBlock) {
    const Lines part{begin, kv_head * sequence.group, sequence.group, i, min64(kLineBlock, lines - i)};
    GradLines<T, S>(sequence, part).run();
  }
  sequence.finish();
}

}  // namespace

int64_t attention_scratch(int64_t max_keys, int64_t head_dim, int threads) {
  return kSlabs * slab_floats(max_keys, head_dim) * int64_t{sizeof(float)} * threads;
}

void attention_backward(const AttentionBackwardArgs& args, const Exec& exec) {
  const int64_t rows = args.q.rows, kv_heads = args.kv.kv_heads;
  // A task takes the sequences that begin in its window of rows.
  constexpr int64_t kWindow = 64;
  const size_t share = exec.scratch.size() / static_cast<size_t>(threads_of(exec)) / 64 * 64;
  with_store("attention_backward", args.kv, [&](auto type, auto in_store) {
    for_tasks(exec, ceil_div(rows, kWindow) * kv_heads, [&](int64_t task, int thread) {
      const int64_t limit = min64(rows, (task / kv_heads + 1) * kWindow);
      int64_t begin = task / kv_heads * kWindow;
      // Rows of a sequence that began in an earlier window.
      if (begin > 0 && args.seq[static_cast<size_t>(begin)] == args.seq[static_cast<size_t>(begin - 1)]) {
        begin = run_end(args.seq, begin, rows);
      }
      while (begin < limit) {
        const int64_t end = run_end(args.seq, begin, rows);
        backward_sequence<decltype(type), decltype(in_store)>(
            args, begin, end, task % kv_heads,
            exec.scratch.subspan(static_cast<size_t>(thread) * share, share));
        begin = end;
      }
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
