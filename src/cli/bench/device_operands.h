#pragma once
// Operands of device benchmarks.
#include "backends/op_table.h"
#include "cli/bench/data.h"

namespace minite::cli {

/// Memory of a device with an owner.
class DeviceBytes {
 public:
  DeviceBytes(const DeviceMemory& memory, int64_t bytes) : memory_(&memory), data_(memory.allocate(bytes)) {}
  ~DeviceBytes() {
    if (data_ != nullptr) memory_->release(data_);
  }
  DeviceBytes(DeviceBytes&& other) noexcept
      : memory_(other.memory_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  const DeviceMemory* memory_;
  void* data_;
};

/// Copies of one operand, so many that going round them leaves none in the cache.
struct DeviceOperands {
  std::vector<DeviceBytes> memory;
  std::vector<Operand> copies;

  [[nodiscard]] const Operand& at(int i) const { return copies[static_cast<size_t>(i) % copies.size()]; }
};

}  // namespace minite::cli
