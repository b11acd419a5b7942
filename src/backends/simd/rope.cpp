// Rotary embedding and the write into the key/value store (formulas: backends/ref/attention.h).
#include "backends/simd/kernels.h"
#include "backends/simd/kv_store.h"

namespace minite::simd::MINITE_ISA {
namespace {

template <class T>
MINITE_INLINE void rotate(T* x, const float* table, int64_t half, float sign) {
  for_lanes(half, [&](int64_t i, int64_t n) {
    const vf x0 = load_n(x + i, n), x1 = load_n(x + half + i, n);
    const vf cosine = load_n(table + i, n), sine = vf(sign) * load_n(table + half + i, n);
    store_n(x + i, fma(x0, cosine, vf(-1.0f) * (x1 * sine)), n);
    store_n(x + half + i, fma(x1, cosine, x0 * sine), n);
  });
}

/// Rows [begin, end) of the batch.
template <class T, class S>
MINITE_INLINE void write_rows(const KvWriteArgs& args, int64_t begin, int64_t end) {
  const KvStore& kv = args.kv;
  for (int64_t r = begin; r < end; ++r) {
    const int64_t pos = args.pos[static_cast<size_t>(r)];
    const int64_t first = kv.first_block[static_cast<size_t>(args.seq[static_cast<size_t>(r)])];
    const int64_t block = first + pos / kKeyBlock, at = pos % kKeyBlock;
    for (int64_t h = 0; h < kv.kv_heads; ++h) {
      const T* k = args.k.row<const T>(r) + h * kv.head_dim;
      const T* v = args.v.row<const T>(r) + h * kv.head_dim;
      alignas(64) S key[kMaxHeadDim];
      to_store(k, kv.head_dim, kv.scale.k, key);
      S* k_lanes = kv.k<S>(block, h) + at;
      for (int64_t i = 0; i < kv.head_dim; ++i) k_lanes[i * kKeyBlock] = key[i];
      to_store(v, kv.head_dim, kv.scale.v, kv.v<S>(block, h) + at * kv.head_dim);
    }
  }
}

}  // namespace

void rope(const RopeArgs& args, const Exec& exec) {
  const int64_t d = args.x.cols / args.heads;
  const float sign = args.direction == Direction::forward ? 1.0f : -1.0f;
  with_type("rope", args.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_rows(exec, args.x.rows, args.x.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* table = args.table.row<const float>(args.pos[static_cast<size_t>(r)]);
        for (int64_t h = 0; h < args.heads; ++h) rotate(args.x.row<T>(r) + h * d, table, d / 2, sign);
      }
    });
  });
}

void kv_write(const KvWriteArgs& args, const Exec& exec) {
  with_store("kv_write", args.kv, [&](auto type, auto in_store) {
    for_rows(exec, args.k.rows, 2 * args.k.cols, [&](int64_t begin, int64_t end) {
      write_rows<decltype(type), decltype(in_store)>(args, begin, end);
    });
  });
}

}  // namespace minite::simd::MINITE_ISA
