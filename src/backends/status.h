#pragma once
// Which backends can run on this machine, and why the others cannot.
#include <string>
#include <string_view>
#include <vector>

namespace minite {

/// One backend.
struct BackendStatus {
  std::string name;  ///< "ref", "simd", "cuda"
  bool available = false;
  std::string reason;  ///< one sentence: what it will use, or why it cannot run
};

/// All backends in order of preference, weakest first. Reads the processor and MINITE_SIMD; touches no
/// device.
[[nodiscard]] std::vector<BackendStatus> backend_status();

/// The status of the backend `name`. Throws not_found, with the nearest name.
[[nodiscard]] BackendStatus backend_status(std::string_view name);

}  // namespace minite
