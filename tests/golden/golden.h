#pragma once
// What the golden tests share: files named on the command line, stored tensors as views, first differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/memory.h"
#include "io/safetensors.h"
#include "minite/format.h"

namespace minite::golden {

/// Files to check: the small ones of this folder, or the full ones that --te, --peers and --ggml name.
struct Files {
  std::string te = MINITE_SOURCE_DIR "/tests/golden/transformer_engine.safetensors";
  std::string peers = MINITE_SOURCE_DIR "/tests/golden/peers.safetensors";
  std::string ggml = MINITE_SOURCE_DIR "/tests/golden/ggml_nvfp4.bin";
  std::string tokenizers = MINITE_SOURCE_DIR "/tests/golden/tokenizers.json";
  std::string gguf = MINITE_SOURCE_DIR "/tests/golden/ggml_blocks.gguf";  ///< has no larger one
};
extern Files files;

inline TensorView view_of(const io::TensorInfo& t, Buffer& memory) {
  memory = Buffer(static_cast<int64_t>(t.bytes.size()));
  std::memcpy(memory.data(), t.bytes.data(), t.bytes.size());
  const DType dtype = t.type == io::StoredType::bf16 ? DType::bf16 : DType::f32;
  return {memory.data(), dtype, t.shape[0], t.shape[1]};
}

/// How bytes are compared. E4M3 has two NaNs, 0x7F and 0xFF; which one Transformer Engine's reference wrote
/// depends on whether its vector or its tail loop handled the element (one file holds both in one tensor), so
/// they count as equal.
enum class Bytes : uint8_t { exact, e4m3_nan };

/// First of `bytes` bytes that differs, described; "" when all agree.
inline std::string first_difference(const void* want, const void* got, int64_t bytes,
                                    Bytes how = Bytes::exact) {
  const auto* a = static_cast<const uint8_t*>(want);
  const auto* b = static_cast<const uint8_t*>(got);
  for (int64_t i = 0; i < bytes; ++i) {
    const bool both_nan = how == Bytes::e4m3_nan && (a[i] & 0x7F) == 0x7F && (b[i] & 0x7F) == 0x7F;
    if (a[i] != b[i] && !both_nan)
      return "byte " + std::to_string(i) + ": " + std::to_string(b[i]) + ", expected " + std::to_string(a[i]);
  }
  return {};
}

/// FP32 values; NaN equals NaN, and the sign of zero does not count.
inline std::string first_float_difference(const float* want, const float* got, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (want[i] == got[i] || (std::isnan(want[i]) && std::isnan(got[i]))) continue;
    return "element " + std::to_string(i) + ": " + std::to_string(got[i]) + ", expected " +
           std::to_string(want[i]);
  }
  return {};
}
/// The stored values of an FP32 tensor.
inline std::vector<float> floats_of(const io::TensorInfo& t) {
  std::vector<float> values(static_cast<size_t>(t.count()));
  std::memcpy(values.data(), t.bytes.data(), values.size() * 4);
  return values;
}

}  // namespace minite::golden
