#pragma once
// The environment variables of the library: the only place that reads them, once, on first use.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minite {

/// One environment variable, as `doctor` shows it and as results store it.
struct EnvVariable {
  std::string_view name;           ///< "MINITE_THREADS"
  std::string_view default_value;  ///< what an unset or empty variable means
  std::string_view allowed;        ///< accepted values in words
  std::string_view does;           ///< one sentence
  std::string value;               ///< the value in effect: as set, else default_value
  bool set = false;                ///< whether the environment holds a non-empty value
  std::string problem;             ///< why the value is refused; empty when it is fine
};

/// The rows of the table with values from `lookup` (nullptr: not set). Never throws: a bad value is recorded
/// in `problem`. A pure function, for tests; everything else uses env_table().
[[nodiscard]] std::vector<EnvVariable> read_env(const std::function<const char*(const char*)>& lookup);

/// All variables with the values of this process, read on the first call.
[[nodiscard]] std::span<const EnvVariable> env_table();

/// The value in effect of the variable `name` in `table`. Errors: invalid_argument "MINITE_X=...: why",
/// internal when no such row exists.
[[nodiscard]] const std::string& env_value(std::span<const EnvVariable> table, std::string_view name);

/// MINITE_RECIPE: the recipe used where none is named, "bf16" by default. Whether the recipe exists is
/// checked by get_qlinear_params(), which knows the table.
[[nodiscard]] std::string_view env_recipe();
/// MINITE_BACKEND: "auto", "ref" or "simd". Throws invalid_argument naming the variable.
[[nodiscard]] std::string_view env_backend();
/// MINITE_SIMD: "auto", "avx2", "avxvnni", "avx512" or "avx512vnni". Throws invalid_argument naming the
/// variable.
[[nodiscard]] std::string_view env_simd();
/// MINITE_THREADS: threads to use, 1 to 4096; 0 for "auto", one a hardware thread. Throws invalid_argument
/// naming the variable.
[[nodiscard]] int env_threads();

}  // namespace minite
