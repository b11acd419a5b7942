#pragma once
// Buffers in a device's own memory with poison around them, for tests whose operands the host does not share.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "backends/op_table.h"

namespace minite::conformance {

class DeviceWorkspace {
 public:
  explicit DeviceWorkspace(const OpTable& op) : memory_(*op.memory) {}
  ~DeviceWorkspace() {
    for (const Buffer& b : buffers_) memory_.release(b.data);
    if (scratch_.data != nullptr) memory_.release(scratch_.data);
  }
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;

  TensorView upload(const TensorView& x) {
    TensorView y = x;
    y.data = copy(x.data, x.rows * x.stride * dtype_size(x.dtype));
    return y;
  }
  QTensor upload(const QTensor& x) {
    QTensor y = x;
    y.codes = static_cast<uint8_t*>(copy(x.codes, x.rows * x.code_stride()));
    y.block_scales = static_cast<uint8_t*>(copy(x.block_scales, x.rows * x.scale_stride()));
    const int64_t outer = x.outer_count() * 4;
    if (outer == 0) return y;
    y.outer = static_cast<float*>(copy(x.outer, outer));
    y.amax = static_cast<float*>(copy(x.amax, outer));
    if (x.reciprocal != nullptr) y.reciprocal = static_cast<float*>(copy(x.reciprocal, outer));
    return y;
  }
  /// Poison (NaN in every float type), rows cols + extra elements apart.
  TensorView output(DType dtype, int64_t rows, int64_t cols, int64_t extra = 0) {
    const int64_t stride = cols + extra;
    const std::vector<uint8_t> poison(static_cast<size_t>(rows * stride * dtype_size(dtype)), 0xFF);
    return {copy(poison.data(), static_cast<int64_t>(poison.size())), dtype, rows, cols, stride};
  }
  /// Poisoned bytes, the same memory for every call.
  std::span<std::byte> scratch(int64_t bytes) {
    if (scratch_.bytes < bytes) {
      if (scratch_.data != nullptr) memory_.release(scratch_.data);
      scratch_ = {static_cast<uint8_t*>(memory_.allocate(bytes)), bytes};
    }
    const std::vector<uint8_t> poison(static_cast<size_t>(bytes), 0xFF);
    memory_.copy_in(scratch_.data, poison.data(), bytes, nullptr);
    memory_.synchronize(nullptr);
    return {reinterpret_cast<std::byte*>(scratch_.data), static_cast<size_t>(bytes)};
  }
  /// Elements of a bf16 or f32 view, row by row; the poison between rows must be whole.
  std::vector<float> values(const TensorView& y) {
    const int64_t size = dtype_size(y.dtype);
    std::vector<uint8_t> raw(static_cast<size_t>(y.rows * y.stride * size));
    memory_.copy_out(raw.data(), y.data, static_cast<int64_t>(raw.size()), nullptr);
    memory_.synchronize(nullptr);
    std::vector<float> out;
    for (int64_t r = 0; r < y.rows; ++r) {
      for (int64_t c = 0; c < y.cols; ++c) {
        const uint8_t* p = raw.data() + (r * y.stride + c) * size;
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<uint8_t*>(&bits) + (4 - size), p, static_cast<size_t>(size));
        out.push_back(std::bit_cast<float>(bits));
      }
    }
    return out;
  }
  /// The poison around every buffer is whole.
  void expect_intact() {
    std::vector<uint8_t> guard(kGuard);
    for (const Buffer& b : buffers_) {
      for (const int64_t at : {int64_t{0}, kGuard + b.bytes}) {
        memory_.copy_out(guard.data(), b.data + at, kGuard, nullptr);
        memory_.synchronize(nullptr);
        for (const uint8_t byte : guard)
          ASSERT_EQ(byte, 0xFF) << "a buffer of " << b.bytes << " bytes was overrun";
      }
    }
  }
  /// Gives all buffers back.
  void clear() {
    for (const Buffer& b : buffers_) memory_.release(b.data);
    buffers_.clear();
  }

 private:
  static constexpr int64_t kGuard = 256;
  struct Buffer {
    uint8_t* data = nullptr;
    int64_t bytes = 0;
  };
  void* copy(const void* from, int64_t bytes) {
    auto* data = static_cast<uint8_t*>(memory_.allocate(bytes + 2 * kGuard));
    buffers_.push_back({data, bytes});
    std::vector<uint8_t> all(static_cast<size_t>(bytes + 2 * kGuard), 0xFF);
    std::memcpy(all.data() + kGuard, from, static_cast<size_t>(bytes));
    memory_.copy_in(data, all.data(), bytes + 2 * kGuard, nullptr);
    memory_.synchronize(nullptr);
    return data + kGuard;
  }

  const DeviceMemory& memory_;
  std::vector<Buffer> buffers_;
  Buffer scratch_;
};

}  // namespace minite::conformance
