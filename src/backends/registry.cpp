#include "backends/registry.h"

#include "backends/cuda/cuda.h"
#include "backends/ref/table.h"
#include "backends/simd/table.h"
#include "core/fail.h"

namespace minite {

const std::vector<Backend>& backends() {
  static const std::vector<Backend> list = {
      cuda::backend(),
      simd::backend(),
      {"ref", &ref::table(), {}, &ref::table()},
  };
  return list;
}

const OpTable& any_backend(std::string_view name) {
  std::vector<std::string_view> names = {"auto"};
  for (const Backend& b : backends()) {
    names.push_back(b.name);
    if (name == "auto" && b.table != nullptr && b.table->memory == nullptr) return *b.table;
    if (name != b.name) continue;
    if (b.table == nullptr) fail(ErrorCode::unsupported, "backend {}: {}", name, b.reason);
    return *b.table;
  }
  fail(ErrorCode::not_found, "unknown backend '{}'; did you mean '{}'?", name, nearest_name(name, names));
}

const OpTable& backend(std::string_view name) {
  const OpTable& table = any_backend(name);
  if (table.memory != nullptr) {
    fail(ErrorCode::unsupported,
         "backend {}: it computes on operands in the device's memory, and these lie in the host's; use ref, "
         "simd or "
         "auto here",
         name);
  }
  return table;
}

}  // namespace minite
