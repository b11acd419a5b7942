#include "core/cpu.h"

#include <gtest/gtest.h>

#include "core/host_memory.h"
#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

CpuInfo cpu_with(bool avx2, bool avx512) {
  CpuInfo cpu;
  cpu.model = "test";
  cpu.avx2 = cpu.fma = avx2;
  cpu.avx512f = cpu.avx512bw = cpu.avx512dq = cpu.avx512vl = avx512;
  return cpu;
}

TEST(Cpu, ThisMachineIsDescribed) {
  const CpuInfo& cpu = cpu_info();
  EXPECT_GE(cpu.hardware_threads, 1);
  EXPECT_GE(cpu.cores, 1);
  EXPECT_LE(cpu.cores, cpu.hardware_threads);
  EXPECT_FALSE(cpu.model.empty());
  EXPECT_FALSE(cpu.architecture.empty());
}

TEST(Cpu, CpuinfoTextIsRead) {
  const CpuText text = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: 0\n\n"
      "processor\t: 1\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: 0\n\n"
      "processor\t: 2\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 0\ncore id\t\t: 1\n\n"
      "processor\t: 3\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: 1\ncore id\t\t: 0");
  EXPECT_EQ(text.model, "Some CPU @ 2 GHz");
  EXPECT_EQ(text.cores, 3);
}

TEST(Cpu, CpuinfoWithoutTheFieldsIsUnknown) {
  for (const char* empty : {"", "\n\n", "processor", "model name\t:\n", ":\n:"}) {
    const CpuText text = parse_cpuinfo(empty);
    EXPECT_EQ(text.model, "unknown");
    EXPECT_EQ(text.cores, 0);
  }
}

TEST(Cpu, SimdLevelNeedsEveryPart) {
  EXPECT_EQ(best_simd(cpu_with(false, false)), SimdLevel::none);
  EXPECT_EQ(best_simd(cpu_with(true, false)), SimdLevel::avx2);
  EXPECT_EQ(best_simd(cpu_with(true, true)), SimdLevel::avx512);
  CpuInfo no_vl = cpu_with(true, true);
  no_vl.avx512vl = false;
  EXPECT_EQ(best_simd(no_vl), SimdLevel::avx2);
  CpuInfo no_fma = cpu_with(true, true);
  no_fma.fma = false;
  EXPECT_EQ(best_simd(no_fma), SimdLevel::none);
}

TEST(Cpu, VnniLevelsStandOnTheirBase) {
  CpuInfo cpu = cpu_with(true, true);
  cpu.avx512vnni = true;
  EXPECT_EQ(best_simd(cpu), SimdLevel::avx512vnni);
  // AVX-512 does not imply AVX-VNNI.
  EXPECT_FALSE(has_simd(cpu, SimdLevel::avxvnni));
  expect_error(ErrorCode::unsupported, {"MINITE_SIMD=avxvnni", "no avxvnni"},
               [&] { (void)choose_simd(cpu, "avxvnni"); });
  CpuInfo client = cpu_with(true, false);
  client.avxvnni = client.avx512vnni = true;
  EXPECT_EQ(best_simd(client), SimdLevel::avxvnni);
  EXPECT_EQ(choose_simd(client, "avx2"), SimdLevel::avx2);
}

TEST(Cpu, ChosenSimdIsTheWantedOneOrAnError) {
  EXPECT_EQ(choose_simd(cpu_with(true, true), "auto"), SimdLevel::avx512);
  EXPECT_EQ(choose_simd(cpu_with(true, true), "avx2"), SimdLevel::avx2);
  EXPECT_EQ(choose_simd(cpu_with(false, false), "auto"), SimdLevel::none);
  expect_error(ErrorCode::unsupported, {"MINITE_SIMD=avx512", "no avx512, at best avx2"},
               [] { (void)choose_simd(cpu_with(true, false), "avx512"); });
  expect_error(ErrorCode::unsupported, {"MINITE_SIMD=avx2", "no AVX2 with FMA"},
               [] { (void)choose_simd(cpu_with(false, false), "avx2"); });
  expect_error(ErrorCode::invalid_argument, {"MINITE_SIMD=sse2"},
               [] { (void)choose_simd(cpu_with(true, true), "sse2"); });
}

TEST(HostMemory, MeminfoTextIsRead) {
  const HostMemory memory =
      parse_meminfo("MemTotal:       16000000 kB\nMemFree:  1 kB\nMemAvailable:    8000000 kB\n");
  EXPECT_EQ(memory.total, int64_t{16000000} * 1024);
  EXPECT_EQ(memory.available, int64_t{8000000} * 1024);
  for (const char* broken :
       {"", "MemTotal:", "MemTotal: x kB", "MemTotal: -5 kB", "MemTotal: 99999999999999999999 kB"}) {
    EXPECT_EQ(parse_meminfo(broken).total, 0) << broken;
  }
}

}  // namespace
}  // namespace minite
