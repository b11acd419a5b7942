#include "core/env.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "core/fail.h"

namespace minite {
namespace {

constexpr int kMaxThreads = 4096;
constexpr std::array<std::string_view, 3> kBackends = {"auto", "ref", "simd"};
constexpr std::array<std::string_view, 5> kSimdLevels = {"auto", "avx2", "avxvnni", "avx512", "avx512vnni"};

std::optional<int> parse_int(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A checker returns why `value` is refused, or "".
std::string check_name(std::string_view value, std::span<const std::string_view> names) {
  for (const auto name : names) {
    if (name == value) return {};
  }
  return "unknown value" + did_you_mean(value, {names.begin(), names.end()});
}
std::string check_any(std::string_view) { return {}; }
std::string check_backend(std::string_view value) { return check_name(value, kBackends); }
std::string check_simd(std::string_view value) { return check_name(value, kSimdLevels); }
std::string check_threads(std::string_view value) {
  if (value == "auto") return {};
  const auto threads = parse_int(value);
  return threads && *threads >= 1 && *threads <= kMaxThreads ? std::string{} : "not a number of threads";
}

struct Row {
  const char* name;
  std::string_view default_value;
  std::string_view allowed;
  std::string_view does;
  std::string (*check)(std::string_view value);
};
constexpr std::array<Row, 4> kRows = {{
    {"MINITE_RECIPE", "bf16", "a name from `minite recipes`", "recipe used where none is named", check_any},
    {"MINITE_BACKEND", "auto", "auto, ref, simd", "backend used where none is named", check_backend},
    {"MINITE_THREADS", "auto", "auto, 1 to 4096", "threads; auto is one a hardware thread", check_threads},
    {"MINITE_SIMD", "auto", "auto, avx2, avxvnni, avx512, avx512vnni", "instruction set of the simd backend",
     check_simd},
}};

}  // namespace

std::vector<EnvVariable> read_env(const std::function<const char*(const char*)>& lookup) {
  std::vector<EnvVariable> table;
  for (const Row& row : kRows) {
    EnvVariable variable{
        row.name, row.default_value, row.allowed, row.does, std::string(row.default_value), {}, {}};
    if (const char* text = lookup(row.name); text != nullptr && *text != '\0') {
      variable.value = text;
      variable.set = true;
      variable.problem = row.check(variable.value);
    }
    table.push_back(std::move(variable));
  }
  return table;
}

std::span<const EnvVariable> env_table() {
  // Initialised once, also when several threads come first together.
  static const std::vector<EnvVariable> table = read_env([](const char* name) { return std::getenv(name); });
  return table;
}

const std::string& env_value(std::span<const EnvVariable> table, std::string_view name) {
  for (const EnvVariable& variable : table) {
    if (variable.name != name) continue;
    require(variable.problem.empty(), "{}={}: {}; allowed: {}", name, variable.value, variable.problem,
            variable.allowed);
    return variable.value;
  }
  fail(ErrorCode::internal, "no environment variable {} in the table", name);
}

std::string_view env_recipe() { return env_value(env_table(), "MINITE_RECIPE"); }
std::string_view env_backend() { return env_value(env_table(), "MINITE_BACKEND"); }
std::string_view env_simd() { return env_value(env_table(), "MINITE_SIMD"); }
int env_threads() { return parse_int(env_value(env_table(), "MINITE_THREADS")).value_or(0); }

}  // namespace minite
