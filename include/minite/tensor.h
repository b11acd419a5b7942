#pragma once
// Plain tensor values: element types, BF16 storage and non-owning views.
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

namespace minite {

/// Element type of a TensorView. The order is part of no file format.
enum class DType : uint8_t { f64, f32, bf16, f16, u8, i32, i64 };

[[nodiscard]] constexpr int64_t dtype_size(DType t) {
  constexpr std::array<int64_t, 7> sizes = {8, 4, 2, 2, 1, 4, 8};
  return sizes[static_cast<size_t>(t)];
}
[[nodiscard]] constexpr std::string_view dtype_name(DType t) {
  constexpr std::array<std::string_view, 7> names = {"f64", "f32", "bf16", "f16", "u8", "i32", "i64"};
  return names[static_cast<size_t>(t)];
}

/// BF16 storage: the upper 16 bits of an FP32. Conversion from FP32 rounds to nearest even and keeps
/// NaN a NaN (quiet bit set); conversion to FP32 is exact.
struct bf16 {
  uint16_t bits = 0;

  constexpr bf16() = default;
  [[gnu::always_inline]] constexpr explicit bf16(float x) : bits(round(x)) {}
  [[gnu::always_inline]] constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  [[nodiscard]] static constexpr bf16 from_bits(uint16_t b) {
    bf16 r;
    r.bits = b;
    return r;
  }

 private:
  [[gnu::always_inline]] static constexpr uint16_t round(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
    return static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
  }
};
static_assert(sizeof(bf16) == 2);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};

/// A dense row-major matrix that somebody else owns: `rows` x `cols`, rows `stride` elements apart.
/// Vectors are 1 x cols. Copying a view copies no data.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  ///< elements between the starts of consecutive rows, >= cols

  TensorView() = default;
  TensorView(void* d, DType t, int64_t r, int64_t c) : data(d), dtype(t), rows(r), cols(c), stride(c) {}
  TensorView(void* d, DType t, int64_t r, int64_t c, int64_t s)
      : data(d), dtype(t), rows(r), cols(c), stride(s) {}
  template <class T>
  TensorView(T* d, int64_t r, int64_t c) : TensorView(d, DTypeOf<T>::value, r, c) {}

  [[nodiscard]] int64_t size() const { return rows * cols; }
  [[nodiscard]] bool empty() const { return data == nullptr; }
  /// Typed pointer; the caller has checked `dtype`.
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
  template <class T>
  [[nodiscard]] T* row(int64_t r) const {
    return static_cast<T*>(data) + r * stride;
  }
  /// Rows [begin, begin + count) of this view.
  [[nodiscard]] TensorView slice_rows(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * stride * dtype_size(dtype), dtype, count, cols, stride};
  }
  /// Columns [begin, begin + count) of this view.
  [[nodiscard]] TensorView slice_cols(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * dtype_size(dtype), dtype, rows, count, stride};
  }
};

}  // namespace minite
