// Causal attention, forward: blocks of 16 lines against key blocks of 64 (formula: backends/ref/attention.h).
#include "backends/simd/attention_tiles.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

/// Scores of one line against one block: running maximum and sum, then probabilities in place, rounded to the
/// storage type. Keys n and above take no part. Returns the factor of what was accumulated before.
template <class T>
MINITE_INLINE float softmax_block(float* s, int64_t n, float scale, float& m, float& l) {
  constexpr int kVectors = kKeyBlock / kLanes;
  vmask live[kVectors];
  vf x[kVectors];
  vf largest(m);
  for (int v = 0; v < kVectors; ++v) {
    live[v] = first_lanes(max64(0, min64(kLanes, n - v * kLanes)));
    x[v] = vf(scale) * load(s + v * kLanes);
    largest = select(live[v], max_or_second(x[v], largest), largest);
  }
  const float block_max = fold_max(largest);
  const float correction = math::exp(m - block_max);
  vf sum;
  for (int v = 0; v < kVectors; ++v) {
    const vf p = math::exp(x[v] - vf(block_max));
    sum = select(live[v], sum + p, sum);
    store(s + v * kLanes, rounded_to(T{}, p));
  }
  l = math::fma(l, correction, fold_add(sum));
  m = block_max;
  return correction;
}

/// State of up to 16 lines on their way through the keys.
template <class T, class S>
struct LineBlock {
  const AttentionArgs& args;
  const Lines lines;
  const int64_t kv_head, first_block;
  const int64_t count = lines.count;
  const int64_t dim = args.kv.head_dim, padded = round_up(dim, kLanes);
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(dim)) * args.kv.scale.k;
  float m[kLineBlock], l[kLineBlock];
  int64_t keys[kLineBlock];
  alignas(64) float s[kLineBlock * kKeyBlock];
  alignas(64) float q[kLineBlock * kMaxHeadDim];
  alignas(64) float acc[kLineBlock * kMaxHeadDim];

  MINITE_INLINE LineBlock(const AttentionArgs& a, const Lines& part, int64_t head, int64_t block)
      : args(a), lines(part), kv_head(head), first_block(block) {}

  MINITE_INLINE void begin() {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t r = lines.row(i);
      m[i] = -__builtin_inff();
      l[i] = 0;
      keys[i] = int64_t{args.pos[static_cast<size_t>(r)]} + 1;
      widen_row(args.q.template row<const T>(r) + lines.head(i) * dim, dim, q + i * padded);
      for (int64_t d = 0; d < padded; d += kLanes) store(acc + i * padded + d, vf());
    }
  }

  /// Keys [64 * block, ...) for the lines from `first` on; the lines before have no key left.
  MINITE_INLINE void block(int64_t block, int64_t first) {
    Steps steps[kLineBlock];
    alignas(64) float wide[kKeyBlock * kMaxHeadDim];
    const S* k = args.kv.template k<const S>(first_block + block, kv_head);
    scores(q + first * padded, padded, count - first, readable(k, kKeyBlock * dim, wide), dim,
           s + first * kKeyBlock);
    for (int64_t i = first; i < count; ++i) {
      steps[i] = {0, min64(kKeyBlock, keys[i] - block * kKeyBlock)};
      const vf correction(softmax_block<T>(s + i * kKeyBlock, steps[i].end, scale, m[i], l[i]));
      float* a = acc + i * padded;
      for (int64_t d = 0; d < padded; d += kLanes) store(a + d, load(a + d) * correction);
    }
    add_values(args.kv.template v<const S>(first_block + block, kv_head), first, steps, wide);
  }

  /// acc += p v. Codes, and rows of V that are no whole number of vectors, are widened first.
  MINITE_INLINE void add_values(const S* v, int64_t first, const Steps* steps, float* wide) {
    const float* p = s + first * kKeyBlock;
    float* a = acc + first * padded;
    if constexpr (std::is_same_v<S, T>) {
      if (dim == padded) {
        return Chains<T>{p, kKeyBlock, 1, v, dim, a, padded, padded}.run(count - first, steps + first);
      }
    }
    for (int64_t j = 0; j < steps[count - 1].end; ++j) widen_row(v + j * dim, dim, wide + j * padded);
    Chains<float>{p, kKeyBlock, 1, wide, padded, a, padded, padded}.run(count - first, steps + first);
  }

  MINITE_INLINE void end() const {
    for (int64_t i = 0; i < count; ++i) {
      T* o = args.o.template row<T>(lines.row(i)) + lines.head(i) * dim;
      const float* a = acc + i * padded;
      const vf inverse(args.kv.scale.v / l[i]);
      for_lanes(dim, [&](int64_t d, int64_t n) { store_n(o + d, load(a + d) * inverse, n); });
      if (!args.lse.empty()) {
        args.lse.template row<float>(lines.row(i))[lines.head(i)] = m[i] + math::log(l[i]);
      }
    }
  }

  void run() {
    begin();
    int64_t first = 0;
    for (int64_t b = 0; b * kKeyBlock < keys[count - 1]; ++b) {
      while (keys[first] <= b * kKeyBlock) ++first;
      block(b, first);
    }
    end();
  }
};

/// Rows [begin, end) of one sequence against one KV head.
template <class T, class S>
MINITE_INLINE void attention_rows(const AttentionArgs& args, int64_t begin, int64_t end, int64_t kv_head) {
  const int64_t group = args.heads / args.kv.kv_heads;
  const int64_t block = args.kv.first_block[static_cast<size_t>(args.seq[static_cast<size_t>(begin)])];
  const int64_t lines = (end - begin) * group;
  for (int64_t i = 0; i < lines; i += kLineBlock) {
    const Lines part{begin, kv_head * group, group, i, min64(kLineBlock, lines - i)};
    LineBlock<T, S>(args, part, kv_head, block).run();
  }
}

}  // namespace

void attention(const AttentionArgs& args, const Exec& exec) {
  const int64_t rows = args.q.rows, kv_heads = args.kv.kv_heads;
  if (rows == 0) return;
  const int64_t fair = ceil_div(rows * kv_heads, int64_t{4} * threads_of(exec));
  const int64_t window = max64(1, min64(fair, 64 / (args.heads / kv_heads)));
  with_store("attention", args.kv, [&](auto type, auto in_store) {
    for_tasks(exec, ceil_div(rows, window) * kv_heads, [&](int64_t task, int) {
      const int64_t limit = min64(rows, (task / kv_heads + 1) * window);
      for (int64_t begin = task / kv_heads * window; begin < limit;) {
        const int64_t end = run_end(args.seq, begin, limit);
        attention_rows<decltype(type), decltype(in_store)>(args, begin, end, task % kv_heads);
        begin = end;
      }
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
