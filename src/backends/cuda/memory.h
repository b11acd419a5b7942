#pragma once
// The device's memory as OpTable::memory offers it, and memory of the host that the device reads as well.
#include <cstddef>
#include <memory>

#include "backends/op_table.h"

namespace minite::cuda {

extern const DeviceMemory kMemory;

/// Bytes that host and device address by the same pointer: page-locked host memory. Every access of the
/// device goes over the bus, so it is for tests and small tables. Throws like DeviceMemory.
[[nodiscard]] std::shared_ptr<std::byte> shared_bytes(int64_t bytes);

}  // namespace minite::cuda
