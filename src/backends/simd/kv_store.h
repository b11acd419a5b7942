#pragma once
// Elements of the key/value store, in and out: as ops exchange them, or E4M3 codes.
#include "backends/simd/encode.h"
#include "backends/simd/tasks.h"
#include "ops/args.h"

namespace minite::simd::MINITE_ISA {

inline constexpr int64_t kMaxHeadDim = 256;

/// body(tag, element) with a value of the storage type and one of the store's element type.
template <class Body>
MINITE_INLINE void with_store(const char* op, const KvStore& kv, const Body& body) {
  with_type(op, kv.dtype, [&](auto tag) {
    if (kv.format == KvFormat::fp8) return body(tag, e4m3{});
    body(tag, tag);
  });
}

/// n elements as the store holds them.
template <class T>
MINITE_INLINE void to_store(const T* x, int64_t n, float, T* out) {
  std::memcpy(static_cast<void*>(out), x, static_cast<size_t>(n) * sizeof(T));
}
template <class T>
MINITE_INLINE void to_store(const T* x, int64_t n, float scale, e4m3* out) {
  for_lanes(n, [&](int64_t i, int64_t lanes) {
    store_u8(&out[i].bits, encode_e4m3(load_n(x + i, lanes) / vf(scale)), lanes);
  });
}

/// n elements as FP32, zeros up to the next multiple of 16.
template <class T>
MINITE_INLINE void widen_row(const T* x, int64_t n, float* out) {
  for_lanes(n, [&](int64_t i, int64_t lanes) { store(out + i, load_n(x + i, lanes)); });
}
MINITE_INLINE void widen_row(const e4m3* x, int64_t n, float* out) {
  for_lanes(n, [&](int64_t i, int64_t lanes) { store(out + i, decode_e4m3(load_u8(&x[i].bits, lanes))); });
}

/// n elements as the tiles of attention read them: where they lie, or decoded into `buffer`.
template <class T>
MINITE_INLINE const T* readable(const T* x, int64_t, float*) {
  return x;
}
MINITE_INLINE const float* readable(const e4m3* x, int64_t n, float* buffer) {
  widen_row(x, n, buffer);
  return buffer;
}

}  // namespace minite::simd::MINITE_ISA
