#pragma once
// Owned aligned memory and a bump arena. Ops never allocate; whoever builds a model or a step does.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/fail.h"
#include "minite/format.h"
#include "minite/tensor.h"

namespace minite {

/// Alignment of every buffer: one cache line, one AVX-512 register.
inline constexpr int64_t kAlignment = 64;
constexpr int64_t align_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Owns zero-filled, 64-byte aligned bytes.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    void* p = std::aligned_alloc(kAlignment, static_cast<size_t>(align_up(bytes)));
    if (p == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(p));
    std::uninitialized_fill_n(data_.get(), align_up(bytes), std::byte{0});
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  int64_t size_ = 0;
};

/// Hands out aligned pieces of one block in order. In measuring mode (no memory) it only adds up sizes, so
/// that the function that lays out activations is also the function that sizes them.
class Arena {
 public:
  Arena() = default;  ///< measuring
  Arena(void* base, int64_t bytes) : base_(static_cast<std::byte*>(base)), capacity_(bytes) {}
  explicit Arena(const Buffer& buffer) : Arena(buffer.data(), buffer.size()) {}

  void* take(int64_t bytes) {
    const int64_t at = used_;
    used_ += align_up(bytes);
    if (used_ > peak_) peak_ = used_;
    if (base_ == nullptr) return nullptr;
    if (used_ > capacity_)
      fail(ErrorCode::internal, "arena of {} bytes is too small for {} bytes", capacity_, used_);
    return base_ + at;
  }
  template <class T>
  T* take_array(int64_t count) {
    return static_cast<T*>(take(count * int64_t{sizeof(T)}));
  }
  TensorView take_tensor(DType dtype, int64_t rows, int64_t cols) {
    return {take(rows * cols * dtype_size(dtype)), dtype, rows, cols};
  }
  QTensor take_qtensor(const QuantSpec& spec, int64_t rows, int64_t cols) {
    return QTensor::place(spec, rows, cols, take(QTensor::bytes(spec, rows, cols)));
  }
  /// Position to return to with rewind(); pieces taken after it are given back.
  [[nodiscard]] int64_t mark() const { return used_; }
  void rewind(int64_t mark) { used_ = mark; }
  [[nodiscard]] int64_t peak() const { return peak_; }

 private:
  std::byte* base_ = nullptr;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace minite
