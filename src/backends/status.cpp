#include "backends/status.h"

#include <array>
#include <optional>

#include "core/cpu.h"
#include "core/env.h"
#include "core/fail.h"

namespace minite {
namespace {

BackendStatus ref_status(std::string_view name) {
  return {std::string(name), true, "scalar C++, runs on any processor; the specification of every result"};
}

BackendStatus simd_status(std::string_view name) {
  const CpuInfo& cpu = cpu_info();
  BackendStatus status{std::string(name), false, {}};
  try {
    const SimdLevel level = choose_simd(cpu, env_simd());
    status.available = level != SimdLevel::none;
    status.reason = status.available
                        ? fmt::format("will use {}; the same bits as ref", to_string(level))
                        : fmt::format("needs AVX2 and FMA, which this processor ({}, {}) does not have",
                                      cpu.model, cpu.architecture);
  } catch (const Error& error) {
    status.reason = error.what();
  }
  return status;
}

BackendStatus cuda_status(std::string_view name) {
  return {std::string(name), false, "not built: kernels for this architecture are not part of this version"};
}

struct Row {
  std::string_view name;
  BackendStatus (*status)(std::string_view name);
};
constexpr std::array<Row, 4> kRows = {{
    {"ref", ref_status},
    {"simd", simd_status},
    {"cuda/sm_90", cuda_status},
    {"cuda/sm_100", cuda_status},
}};

/// "cuda" of "cuda/sm_90".
std::string_view family(std::string_view name) { return name.substr(0, name.find('/')); }

}  // namespace

std::vector<BackendStatus> backend_status() {
  std::vector<BackendStatus> result;
  for (const Row& row : kRows) result.push_back(row.status(row.name));
  return result;
}

BackendStatus backend_status(std::string_view name) {
  std::vector<std::string_view> names;
  std::optional<BackendStatus> first;
  for (const Row& row : kRows) {
    names.push_back(row.name);
    if (row.name != name && family(row.name) != name) continue;
    BackendStatus status = row.status(row.name);
    if (status.available) return status;
    if (!first) first = std::move(status);
  }
  if (first) return *first;
  fail(ErrorCode::not_found, "unknown backend '{}'; allowed: {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

}  // namespace minite
