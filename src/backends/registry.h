#pragma once
// The ordered list of backends and how one is chosen: once, by name, never silently.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/op_table.h"

namespace minite {

/// One backend as this machine sees it.
struct Backend {
  std::string_view name;  ///< "simd", "ref"
  const OpTable* table;   ///< nullptr when it cannot run here
  std::string reason;     ///< why it cannot, or what it will use; one sentence
  const OpTable* built =
      nullptr;  ///< what this build holds, whether or not it can run here; to be asked, not run
};

/// All backends, best first.
[[nodiscard]] const std::vector<Backend>& backends();

/// The table of the backend `name`, which works on the host's memory; "auto" takes the first that does.
/// Throws unsupported with the backend's sentence when it cannot run or needs the memory of a device,
/// not_found for an unknown name.
[[nodiscard]] const OpTable& backend(std::string_view name);
/// The same for callers that place operands in `OpTable::memory` where a backend has one.
[[nodiscard]] const OpTable& any_backend(std::string_view name);

}  // namespace minite
