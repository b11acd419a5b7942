#pragma once
// What the processor of this machine is and can do.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace minite {

/// One instruction set extension that some backend uses.
struct CpuFeature {
  std::string_view name;  ///< as in /proc/cpuinfo, without underscores
  bool present = false;   ///< usable: processor and operating system both support it
};

/// Facts about the processor; every feature is absent on an architecture other than x86-64.
struct CpuInfo {
  std::string model;         ///< "AMD EPYC 9B45", or "unknown"
  std::string architecture;  ///< "x86-64", "aarch64", "other"
  int hardware_threads = 1;  ///< threads this process may run on
  int cores = 1;             ///< physical cores behind them
  bool avx2 = false;
  bool fma = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512vnni = false;
  bool avxvnni = false;
  bool avx512bf16 = false;

  /// The feature fields with their names, for reports.
  [[nodiscard]] std::array<CpuFeature, 9> features() const;
};

/// The processor of this machine, read on the first call.
[[nodiscard]] const CpuInfo& cpu_info();

/// Model name and number of distinct (physical id, core id) pairs in the text of /proc/cpuinfo; "unknown" and
/// 0 where the text does not say.
struct CpuText {
  std::string model = "unknown";
  int cores = 0;
};
[[nodiscard]] CpuText parse_cpuinfo(std::string_view text);

/// Vector instruction sets that have their own kernels, weakest first. The vnni levels add products of
/// bytes to the level before them.
enum class SimdLevel : uint8_t { none, avx2, avxvnni, avx512, avx512vnni };
[[nodiscard]] std::string_view to_string(SimdLevel level);

/// Whether `cpu` runs a level: avx2 needs AVX2 and FMA, avx512 F, BW, DQ and VL besides, the vnni levels
/// AVX-VNNI or AVX512-VNNI on top. A processor may have avx512 without avxvnni.
[[nodiscard]] bool has_simd(const CpuInfo& cpu, SimdLevel level);
/// The strongest level that `cpu` has.
[[nodiscard]] SimdLevel best_simd(const CpuInfo& cpu);
/// best_simd(), or `wanted` ("auto" or a level's name: the values of MINITE_SIMD) when `cpu` has it. Throws
/// unsupported when it does not.
[[nodiscard]] SimdLevel choose_simd(const CpuInfo& cpu, std::string_view wanted);

}  // namespace minite
