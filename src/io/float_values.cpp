#include "io/float_values.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "core/fail.h"

namespace minite::io {
namespace {

template <class T>
T element(const TensorInfo& tensor, int64_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

FloatValues copy(const TensorInfo& tensor, DType dtype) {
  FloatValues values{Buffer(static_cast<int64_t>(tensor.bytes.size())), dtype, 0};
  if (!tensor.bytes.empty()) std::memcpy(values.memory.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

FloatValues from_doubles(const TensorInfo& tensor) {
  FloatValues values{Buffer(tensor.count() * 4), DType::f32, 0};
  auto* to = reinterpret_cast<float*>(values.memory.data());
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto x = element<double>(tensor, i);
    to[i] = static_cast<float>(x);
    values.rounded += !std::isnan(x) && static_cast<double>(to[i]) != x ? 1 : 0;
  }
  return values;
}

FloatValues from_halves(const TensorInfo& tensor) {
  FloatValues values{Buffer(tensor.count() * 4), DType::f32, 0, DType::f16};
  auto* to = reinterpret_cast<float*>(values.memory.data());
  for (int64_t i = 0; i < tensor.count(); ++i) to[i] = from_half(element<uint16_t>(tensor, i));
  return values;
}

}  // namespace

bool is_wide_float(StoredType type) {
  return type == StoredType::f64 || type == StoredType::f32 || type == StoredType::f16 ||
         type == StoredType::bf16;
}

float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude < 0x0400u) {  // subnormal: steps of 2^-24
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }
  const uint32_t rebiased = (magnitude << 13) + (112u << 23);      // 112 = 127 - 15
  const uint32_t special = magnitude >= 0x7C00u ? 112u << 23 : 0;  // infinity, NaN: all exponent bits
  return std::bit_cast<float>(sign | (rebiased + special));
}

FloatValues load_floats(const TensorInfo& tensor) {
  switch (tensor.type) {
    case StoredType::bf16:
      return copy(tensor, DType::bf16);
    case StoredType::f32:
      return copy(tensor, DType::f32);
    case StoredType::f16:
      return from_halves(tensor);
    case StoredType::f64:
      return from_doubles(tensor);
    default:
      fail(ErrorCode::unsupported, "{} values are not read as floats; expected F64, F32, F16 or BF16",
           stored_type(tensor.type).name);
  }
}

}  // namespace minite::io
