#pragma once
// Main memory of this machine.
#include <cstdint>
#include <string_view>

namespace minite {

/// Bytes; 0 where the system does not say.
struct HostMemory {
  int64_t total = 0;
  int64_t available = 0;  ///< what can be used without swapping
};

/// Now; read at every call.
[[nodiscard]] HostMemory host_memory();
/// From the text of /proc/meminfo.
[[nodiscard]] HostMemory parse_meminfo(std::string_view text);

}  // namespace minite
