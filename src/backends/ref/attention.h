#pragma once
// Rotary embedding, key/value store, causal grouped-query attention and its gradient.
//
// k and v are what the store holds: T, or E4M3 codes of fl(x / k_scale) and fl(x / v_scale), whose scales act
// outside the chains (and are 1 without codes). scale = 1 / sqrt(D).
// Forward, for each row and head, key blocks of 64 ascending:
//   s_j  = fl(fl(scale * k_scale) * chain_d fma(q_d, k_jd)), d ascending    m' = max(m, max_j s_j)
//   p_j  = exp(s_j - m')      l = fma(l, exp(m - m'), lane_sum p)            acc_d = fl(acc_d * exp(m - m'))
//   acc_d = fma(T(p_j), v_jd, acc_d), j ascending       o = fl(acc * fl(v_scale / l)), lse = m + log l
// Backward recomputes p_j = exp(s_j - lse); D = lane_sum(do * o):
//   ds_j = fl(fl(p_j * fl(fl(v_scale * chain_d fma(do_d, v_jd)) - D)) * scale)
//   dq_d = fl(k_scale * chain_j fma(ds_j, k_jd)), j ascending
//   dk_jd = fma(ds_j, q_d), dv_jd = fma(T(p_j), do_d), rows then heads ascending
// Rounding p to T, and keys and values to the store, is straight through.
#include <limits>

#include "backends/ref/numeric.h"
#include "formats/codecs.h"
#include "ops/args.h"

namespace minite::ref {

template <class T>
void rope(const RopeArgs& args) {
  using A = Acc<T>;
  const int64_t d = args.x.cols / args.heads, half = d / 2;
  for (int64_t r = 0; r < args.x.rows; ++r) {
    const float* c = args.table.row<const float>(args.pos[r]);
    const float* s = c + half;
    const A sign = args.direction == Direction::forward ? A(1) : A(-1);
    for (int64_t h = 0; h < args.heads; ++h) {
      T* x = args.x.row<T>(r) + h * d;
      for (int64_t i = 0; i < half; ++i) {
        const A x0 = load(x[i]), x1 = load(x[i + half]), sine = sign * static_cast<A>(s[i]);
        x[i] = static_cast<T>(math::fma(x0, static_cast<A>(c[i]), -(x1 * sine)));
        x[i + half] = static_cast<T>(math::fma(x1, static_cast<A>(c[i]), x0 * sine));
      }
    }
  }
}

/// Calls body with a value of the storage type and one of the store's element type.
template <class Body>
void with_store(const KvStore& kv, const Body& body) {
  with_type(kv.dtype, [&](auto tag) {
    if (kv.format == KvFormat::fp8) return body(tag, e4m3{});
    body(tag, tag);
  });
}

/// A key or value as the store holds it.
template <class S, class T>
S stored(const T& x, float scale) {
  if constexpr (std::is_same_v<S, T>) return x;
  return S(static_cast<float>(load(x) / scale));
}

template <class T, class S>
void kv_write(const KvWriteArgs& args) {
  const KvStore& kv = args.kv;
  for (int64_t r = 0; r < args.k.rows; ++r) {
    const int64_t block = kv.first_block[args.seq[r]] + args.pos[r] / kKeyBlock;
    const int64_t at = args.pos[r] % kKeyBlock;
    for (int64_t h = 0; h < kv.kv_heads; ++h) {
      for (int64_t i = 0; i < kv.head_dim; ++i) {
        const int64_t from = h * kv.head_dim + i;
        kv.k<S>(block, h)[i * kKeyBlock + at] = stored<S>(args.k.row<const T>(r)[from], kv.scale.k);
        kv.v<S>(block, h)[at * kv.head_dim + i] = stored<S>(args.v.row<const T>(r)[from], kv.scale.v);
      }
    }
  }
}

/// One query row of one head against its sequence; shared by forward and backward.
template <class T, class S>
struct HeadRow {
  using A = Acc<T>;
  const KvStore& kv;
  int64_t first_block, kv_head;

  HeadRow(const KvStore& store, int32_t seq, int64_t head, int64_t heads)
      : kv(store), first_block(store.first_block[seq]), kv_head(head / (heads / store.kv_heads)) {}

  [[nodiscard]] A k(int64_t j, int64_t d) const {
    return static_cast<A>(kv.k<const S>(first_block + j / kKeyBlock, kv_head)[d * kKeyBlock + j % kKeyBlock]);
  }
  [[nodiscard]] A v(int64_t j, int64_t d) const {
    return static_cast<A>(
        kv.v<const S>(first_block + j / kKeyBlock, kv_head)[(j % kKeyBlock) * kv.head_dim + d]);
  }
  [[nodiscard]] A scale() const { return A(1) / std::sqrt(static_cast<A>(kv.head_dim)); }
  [[nodiscard]] A score_scale() const { return scale() * static_cast<A>(kv.scale.k); }
  [[nodiscard]] A score(const T* q, int64_t j) const {
    A acc = 0;
    for (int64_t d = 0; d < kv.head_dim; ++d) acc = math::fma(load(q[d]), k(j, d), acc);
    return score_scale() * acc;
  }
};

template <class T, class S>
void attention_row(const HeadRow<T, S>& head, const T* q, int64_t keys, T* o, Acc<T>* lse) {
  using A = Acc<T>;
  const int64_t dim = head.kv.head_dim;
  std::array<A, 256> acc{};
  A m = -std::numeric_limits<A>::infinity(), l = 0;
  for (int64_t begin = 0; begin < keys; begin += kKeyBlock) {
    const int64_t n = std::min(kKeyBlock, keys - begin);
    std::array<A, kKeyBlock> p;
    A block_max = m;
    for (int64_t j = 0; j < n; ++j) {
      p[j] = head.score(q, begin + j);
      block_max = block_max < p[j] ? p[j] : block_max;
    }
    const A correction = math::exp(m - block_max);
    for (int64_t j = 0; j < n; ++j) p[j] = math::exp(p[j] - block_max);
    l = math::fma(l, correction, lane_sum<A>(n, [&](A sum, int64_t j) { return sum + p[j]; }));
    for (int64_t d = 0; d < dim; ++d) {
      acc[d] = acc[d] * correction;
      for (int64_t j = 0; j < n; ++j)
        acc[d] = math::fma(load(static_cast<T>(p[j])), head.v(begin + j, d), acc[d]);
    }
    m = block_max;
  }
  const A inverse = static_cast<A>(head.kv.scale.v) / l;
  for (int64_t d = 0; d < dim; ++d) o[d] = static_cast<T>(acc[d] * inverse);
  if (lse != nullptr) *lse = m + math::log(l);
}

template <class T, class S>
void attention(const AttentionArgs& args) {
  const int64_t dim = args.kv.head_dim;
  for (int64_t r = 0; r < args.q.rows; ++r) {
    for (int64_t h = 0; h < args.heads; ++h) {
      const HeadRow<T, S> head(args.kv, args.seq[r], h, args.heads);
      Acc<T>* lse = args.lse.empty() ? nullptr : args.lse.row<Acc<T>>(r) + h;
      attention_row(head, args.q.row<const T>(r) + h * dim, args.pos[r] + 1, args.o.row<T>(r) + h * dim, lse);
    }
  }
}

/// p_j and ds_j of one (row, head, key).
template <class T>
struct ScoreGrad {
  Acc<T> p, ds;
};
template <class T, class S>
ScoreGrad<T> score_grad(const AttentionBackwardArgs& args, const HeadRow<T, S>& head, int64_t r, int64_t h,
                        int64_t j) {
  using A = Acc<T>;
  const int64_t dim = args.kv.head_dim;
  const T* dout = args.dout.row<const T>(r) + h * dim;
  const T* o = args.o.row<const T>(r) + h * dim;
  const A delta =
      lane_sum<A>(dim, [&](A sum, int64_t d) { return math::fma(load(dout[d]), load(o[d]), sum); });
  const A p = math::exp(head.score(args.q.row<const T>(r) + h * dim, j) - args.lse.row<const A>(r)[h]);
  A dp = 0;
  for (int64_t d = 0; d < dim; ++d) dp = math::fma(load(dout[d]), head.v(j, d), dp);
  return {p, p * (static_cast<A>(args.kv.scale.v) * dp - delta) * head.scale()};
}

template <class T, class S>
void attention_dq(const AttentionBackwardArgs& args, int64_t r, int64_t h) {
  using A = Acc<T>;
  const int64_t dim = args.kv.head_dim;
  const HeadRow<T, S> head(args.kv, args.seq[r], h, args.heads);
  std::array<A, 256> dq{};
  for (int64_t j = 0; j <= args.pos[r]; ++j) {
    const ScoreGrad<T> grad = score_grad(args, head, r, h, j);
    for (int64_t d = 0; d < dim; ++d) dq[d] = math::fma(grad.ds, head.k(j, d), dq[d]);
  }
  const A k_scale = static_cast<A>(args.kv.scale.k);
  for (int64_t d = 0; d < dim; ++d) args.dq.row<T>(r)[h * dim + d] = static_cast<T>(dq[d] * k_scale);
}

/// Gradients of the key and value of row `key`: rows that see it ascending, query heads ascending.
template <class T, class S>
void attention_dkv(const AttentionBackwardArgs& args, int64_t key, int64_t kv_head) {
  using A = Acc<T>;
  const int64_t dim = args.kv.head_dim, group = args.heads / args.kv.kv_heads;
  std::array<A, 256> dk{}, dv{};
  for (int64_t r = key; r < args.q.rows && args.seq[r] == args.seq[key]; ++r) {
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) {
      const HeadRow<T, S> head(args.kv, args.seq[r], h, args.heads);
      const ScoreGrad<T> grad = score_grad(args, head, r, h, args.pos[key]);
      const T* q = args.q.row<const T>(r) + h * dim;
      const T* dout = args.dout.row<const T>(r) + h * dim;
      for (int64_t d = 0; d < dim; ++d) {
        dk[d] = math::fma(grad.ds, load(q[d]), dk[d]);
        dv[d] = math::fma(load(static_cast<T>(grad.p)), load(dout[d]), dv[d]);
      }
    }
  }
  for (int64_t d = 0; d < dim; ++d) {
    args.dk.row<T>(key)[kv_head * dim + d] = static_cast<T>(dk[d]);
    args.dv.row<T>(key)[kv_head * dim + d] = static_cast<T>(dv[d]);
  }
}

template <class T, class S>
void attention_backward(const AttentionBackwardArgs& args) {
  for (int64_t r = 0; r < args.q.rows; ++r) {
    for (int64_t h = 0; h < args.heads; ++h) attention_dq<T, S>(args, r, h);
    for (int64_t h = 0; h < args.kv.kv_heads; ++h) attention_dkv<T, S>(args, r, h);
  }
}

}  // namespace minite::ref
