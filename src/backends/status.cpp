#include "backends/status.h"

#include <array>

#include "backends/cuda/cuda.h"
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
  const Backend backend = cuda::backend();
  return {std::string(name), backend.table != nullptr, backend.reason};
}

struct Row {
  std::string_view name;
  BackendStatus (*status)(std::string_view name);
};
constexpr std::array<Row, 3> kRows = {{
    {"ref", ref_status},
    {"simd", simd_status},
    {"cuda", cuda_status},
}};

}  // namespace

std::vector<BackendStatus> backend_status() {
  std::vector<BackendStatus> result;
  for (const Row& row : kRows) result.push_back(row.status(row.name));
  return result;
}

BackendStatus backend_status(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) {
    if (row.name == name) return row.status(row.name);
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown backend '{}'; allowed: {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

}  // namespace minite
