// minite doctor: what can run on this machine, and why the rest cannot.
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <map>
#include <memory>

#include "backends/registry.h"
#include "backends/status.h"
#include "cli/output.h"
#include "cli/recipe_kernels.h"
#include "cli/verb.h"
#include "core/cpu.h"
#include "core/env.h"
#include "core/host_memory.h"
#include "minite/error.h"
#include "minite/recipe.h"
#include "minite/version.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

struct Library {
  std::string name;
  std::string version;
};

/// Recipes whose three products a backend of this build has kernels for, and a refusal of each other.
struct RecipeCoverage {
  std::string_view backend;
  std::vector<std::string>
      kernels;  ///< "int8_nvfp4_block_dot (12)": recipes by kernel of the forward product
  std::vector<std::string> refused;  ///< "sim_e2m1: REASON"
};

/// Everything the report says; nothing here is checked again when it is printed.
struct Health {
  std::string compiler;
  std::string build_type;
  CpuInfo cpu;
  HostMemory memory;
  std::vector<BackendStatus> backends;
  std::vector<Library> libraries;
  std::vector<EnvVariable> environment;
  int threads = 0;  ///< 0 when MINITE_THREADS is refused
  std::vector<RecipeCoverage> coverage;
  int recipes_total = 0;
  int recipes_runnable = 0;

  /// Whether every environment variable is accepted and every recipe can run.
  [[nodiscard]] bool ok() const {
    bool good = recipes_runnable == recipes_total;
    for (const EnvVariable& variable : environment) good = good && variable.problem.empty();
    return good;
  }
};

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::vector<Library> library_versions() {
  return {{"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"yaml-cpp", MINITE_YAML_CPP_VERSION},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"glibc", gnu_get_libc_version()}};
}

/// The environment, with MINITE_RECIPE and MINITE_SIMD checked against what only higher layers know.
std::vector<EnvVariable> checked_environment(const CpuInfo& cpu) {
  std::vector<EnvVariable> table(env_table().begin(), env_table().end());
  const auto check = [&](std::string_view name, const auto& use) {
    for (EnvVariable& variable : table) {
      if (variable.name != name || !variable.problem.empty()) continue;
      try {
        use(variable.value);
      } catch (const Error& error) {
        variable.problem = error.what();
      }
    }
  };
  check("MINITE_RECIPE", [](const std::string& value) { (void)get_recipe(value); });
  check("MINITE_SIMD", [&](const std::string& value) { (void)choose_simd(cpu, value); });
  return table;
}

int threads_in_effect(const CpuInfo& cpu) {
  try {
    const int wanted = env_threads();
    return wanted == 0 ? cpu.hardware_threads : wanted;
  } catch (const Error&) {
    return 0;  // shown as a problem of the variable
  }
}

int count_runnable(const std::vector<BackendStatus>& backends) {
  bool any = false;
  for (const BackendStatus& backend : backends) any |= backend.available;
  int count = 0;
  for (const RecipeSpec& recipe : recipes()) {
    try {
      recipe.params.validate();
      count += any ? 1 : 0;
    } catch (const Error&) {
      continue;
    }
  }
  return count;
}

std::vector<RecipeCoverage> recipe_coverage() {
  std::vector<RecipeCoverage> all;
  for (const Backend& backend : backends()) {
    if (backend.built == nullptr) continue;
    RecipeCoverage coverage{backend.name, {}, {}};
    std::map<std::string_view, int> count;
    for (const RecipeSpec& recipe : recipes()) {
      std::string refusal;
      const std::vector<ProductKernels> products = recipe_kernels(recipe, backend, 4096, 4096);
      for (const ProductKernels& product : products) {
        if (refusal.empty()) refusal = product.refusal();
      }
      if (refusal.empty()) ++count[products.front().product.kernel];
      if (!refusal.empty()) coverage.refused.push_back(fmt::format("{}: {}", recipe.name, refusal));
    }
    for (const auto& [kernel, recipes_of] : count)
      coverage.kernels.push_back(fmt::format("{} ({})", kernel, recipes_of));
    all.push_back(std::move(coverage));
  }
  return all;
}

Health examine() {
  Health health;
  health.compiler = compiler_name();
  health.build_type = MINITE_BUILD_TYPE;
  health.cpu = cpu_info();
  health.memory = host_memory();
  health.backends = backend_status();
  health.libraries = library_versions();
  health.environment = checked_environment(health.cpu);
  health.threads = threads_in_effect(health.cpu);
  try {
    health.coverage = recipe_coverage();
  } catch (const Error&) {
    // A variable that no backend accepts; the environment says which.
  }
  health.recipes_total = static_cast<int>(recipes().size());
  health.recipes_runnable = count_runnable(health.backends);
  return health;
}

std::string gib(int64_t bytes) { return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30)); }

std::string to_text(const Health& h) {
  std::string features;
  for (const CpuFeature& feature : h.cpu.features()) {
    if (feature.present) features += (features.empty() ? "" : " ") + std::string(feature.name);
  }
  std::string text =
      fmt::format("minite {}, {}, {} build\n\n", MINITE_VERSION_STRING, h.compiler, h.build_type);
  text += fmt::format("processor  {} ({}), {} cores, {} threads\nfeatures   {}\n", h.cpu.model,
                      h.cpu.architecture, h.cpu.cores, h.cpu.hardware_threads,
                      features.empty() ? "none that is used" : features);
  text += fmt::format("memory     {} available of {}\n", gib(h.memory.available), gib(h.memory.total));
  text += h.threads == 0 ? "threads    unknown, see MINITE_THREADS below\n"
                         : fmt::format("threads    {}\n", h.threads);
  text += fmt::format("recipes    {} of {} can run\n\n", h.recipes_runnable, h.recipes_total);

  Table backends({"backend", "can run", "why"});
  for (const BackendStatus& b : h.backends) backends.add({b.name, b.available ? "yes" : "no", b.reason});
  Table environment({"variable", "value", "set", "allowed", "does"});
  std::string problems;
  for (const EnvVariable& v : h.environment) {
    environment.add(
        {std::string(v.name), v.value, v.set ? "yes" : "no", std::string(v.allowed), std::string(v.does)});
    if (!v.problem.empty()) problems += fmt::format("problem: {}={}: {}\n", v.name, v.value, v.problem);
  }
  Table libraries({"library", "version"});
  for (const Library& library : h.libraries) libraries.add({library.name, library.version});
  Table kernels({"backend", "forward products by", "recipes without a kernel"});
  for (const RecipeCoverage& c : h.coverage) {
    kernels.add({std::string(c.backend), fmt::format("{}", fmt::join(c.kernels, ", ")),
                 c.refused.empty()
                     ? "none"
                     : fmt::format("{}; see describe RECIPE --backend {}", c.refused.size(), c.backend)});
  }
  text += backends.to_text() + "\n" + kernels.to_text() + "\n" + environment.to_text() + "\n" +
          libraries.to_text();
  return problems.empty() ? text : text + "\n" + problems;
}

ordered_json to_json(const Health& h) {
  ordered_json out;
  out["version"] = MINITE_VERSION_STRING;
  out["compiler"] = h.compiler;
  out["build_type"] = h.build_type;
  ordered_json& cpu = out["cpu"];
  cpu["model"] = h.cpu.model;
  cpu["architecture"] = h.cpu.architecture;
  cpu["cores"] = h.cpu.cores;
  cpu["hardware_threads"] = h.cpu.hardware_threads;
  for (const CpuFeature& feature : h.cpu.features())
    cpu["features"][std::string(feature.name)] = feature.present;
  out["memory"] = {{"total_bytes", h.memory.total}, {"available_bytes", h.memory.available}};
  out["threads"] = h.threads;
  out["backends"] = ordered_json::array();
  for (const BackendStatus& b : h.backends) {
    out["backends"].push_back({{"name", b.name}, {"available", b.available}, {"reason", b.reason}});
  }
  for (const RecipeCoverage& c : h.coverage)
    out["recipe_kernels"].push_back({{"backend", c.backend}, {"kernels", c.kernels}, {"refused", c.refused}});
  for (const Library& library : h.libraries) out["libraries"][library.name] = library.version;
  out["environment"] = ordered_json::array();
  for (const EnvVariable& v : h.environment) {
    out["environment"].push_back({{"name", v.name},
                                  {"value", v.value},
                                  {"set", v.set},
                                  {"default", v.default_value},
                                  {"allowed", v.allowed},
                                  {"does", v.does},
                                  {"problem", v.problem}});
  }
  out["recipes"] = {{"runnable", h.recipes_runnable}, {"total", h.recipes_total}};
  out["ok"] = h.ok();
  return out;
}

int run(ReportStyle style) {
  const Health health = examine();
  if (style == ReportStyle::json) {
    print_json(to_json(health));
  } else {
    print(to_text(health));
  }
  return health.ok() ? kOk : kCheckFailed;
}

}  // namespace

std::function<int()> add_doctor(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  add_json_flag(app, *style);
  return [style] { return run(*style); };
}

}  // namespace minite::cli
