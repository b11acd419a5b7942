#include "core/cpu.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "core/fail.h"

namespace minite {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"none", "avx2", "avxvnni", "avx512", "avx512vnni"};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

void detect_features(CpuInfo& cpu) {
#if defined(__x86_64__)
  cpu.architecture = "x86-64";
  __builtin_cpu_init();
  // The builtin also asks the operating system whether it saves the wide registers.
  cpu.avx2 = __builtin_cpu_supports("avx2") != 0;
  cpu.fma = __builtin_cpu_supports("fma") != 0;
  cpu.avx512f = __builtin_cpu_supports("avx512f") != 0;
  cpu.avx512bw = __builtin_cpu_supports("avx512bw") != 0;
  cpu.avx512dq = __builtin_cpu_supports("avx512dq") != 0;
  cpu.avx512vl = __builtin_cpu_supports("avx512vl") != 0;
  cpu.avx512vnni = __builtin_cpu_supports("avx512vnni") != 0;
  cpu.avxvnni = __builtin_cpu_supports("avxvnni") != 0;
  cpu.avx512bf16 = __builtin_cpu_supports("avx512bf16") != 0;
#elif defined(__aarch64__)
  cpu.architecture = "aarch64";
#else
  cpu.architecture = "other";
#endif
}

CpuInfo detect() {
  CpuInfo cpu;
  detect_features(cpu);
  cpu.hardware_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::ifstream file("/proc/cpuinfo");
  const CpuText text = parse_cpuinfo(std::string(std::istreambuf_iterator<char>(file), {}));
  cpu.model = text.model;
  // A container may list more cores than it may run on.
  cpu.cores = text.cores == 0 ? cpu.hardware_threads : std::min(text.cores, cpu.hardware_threads);
  return cpu;
}

}  // namespace

std::array<CpuFeature, 9> CpuInfo::features() const {
  return {{{"avx2", avx2},
           {"fma", fma},
           {"avx512f", avx512f},
           {"avx512bw", avx512bw},
           {"avx512dq", avx512dq},
           {"avx512vl", avx512vl},
           {"avx512vnni", avx512vnni},
           {"avxvnni", avxvnni},
           {"avx512bf16", avx512bf16}}};
}

const CpuInfo& cpu_info() {
  static const CpuInfo cpu = detect();
  return cpu;
}

CpuText parse_cpuinfo(std::string_view text) {
  CpuText result;
  std::set<std::pair<std::string_view, std::string_view>> cores;
  std::string_view package;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (key == "model name" && !value.empty()) result.model = std::string(value);
    if (key == "physical id") package = value;
    if (key == "core id") cores.emplace(package, value);
  }
  result.cores = static_cast<int>(cores.size());
  return result;
}

std::string_view to_string(SimdLevel level) { return kLevelNames[static_cast<size_t>(level)]; }

bool has_simd(const CpuInfo& cpu, SimdLevel level) {
  const bool avx2 = cpu.avx2 && cpu.fma;
  const bool avx512 = avx2 && cpu.avx512f && cpu.avx512bw && cpu.avx512dq && cpu.avx512vl;
  switch (level) {
    case SimdLevel::none:
      return true;
    case SimdLevel::avx2:
      return avx2;
    case SimdLevel::avxvnni:
      return avx2 && cpu.avxvnni;
    case SimdLevel::avx512:
      return avx512;
    case SimdLevel::avx512vnni:
      return avx512 && cpu.avx512vnni;
  }
  return false;
}

SimdLevel best_simd(const CpuInfo& cpu) {
  SimdLevel best = SimdLevel::none;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (has_simd(cpu, static_cast<SimdLevel>(i))) best = static_cast<SimdLevel>(i);
  }
  return best;
}

SimdLevel choose_simd(const CpuInfo& cpu, std::string_view wanted) {
  const SimdLevel best = best_simd(cpu);
  if (wanted == "auto") return best;
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] != wanted) continue;
    const auto level = static_cast<SimdLevel>(i);
    if (has_simd(cpu, level)) return level;
    fail(ErrorCode::unsupported, "MINITE_SIMD={}: this processor ({}) has {}; use auto", wanted, cpu.model,
         best == SimdLevel::none ? "no AVX2 with FMA"
                                 : fmt::format("no {}, at best {}", wanted, to_string(best)));
  }
  fail(ErrorCode::invalid_argument,
       "MINITE_SIMD={}: unknown value; allowed: auto, avx2, avxvnni, avx512, avx512vnni", wanted);
}

}  // namespace minite
