// Kernels of some formats on Google Benchmark, for work on one of them: its filters, repetitions and
// counters. Rates are items a second: elements for quantizers, floating point operations for products. Rivals
// and targets are the business of `minite bench kernels`, whose operands these are.
#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "cli/bench/data.h"
#include "minite/ops.h"

namespace minite {
namespace {

Runtime& runtime() {
  static Runtime r;
  return r;
}

struct Codes {
  Buffer memory;
  QTensor q;
  Codes(const QuantSpec& spec, const TensorView& x)
      : memory(QTensor::bytes(spec, x.rows, x.cols)), q(QTensor::place(spec, x.rows, x.cols, memory.data())) {
    quantize(runtime(), x, q);
  }
};

constexpr QuantSpec kNvfp4Row{FormatId::nvfp4, OuterScale::row, Convention::te};
constexpr QuantSpec kMxfp8{FormatId::mxfp8, OuterScale::none, Convention::te};

void quantize_rows(benchmark::State& state, const QuantSpec& spec) {
  const cli::NormalMatrix x = cli::activations(4096, state.range(0));
  Codes out(spec, x.view);
  for (auto _ : state) quantize(runtime(), x.view, out.q);
  state.SetItemsProcessed(state.iterations() * x.view.size());
}

/// M, N, K of the state; formats of both operands, or bf16 when a spec is not quantized.
void product(benchmark::State& state, const QuantSpec& a_spec, const QuantSpec& b_spec) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const cli::NormalMatrix x = cli::activations(m, k), w = cli::weights(n, k);
  std::vector<bf16> y(static_cast<size_t>(m * n));
  const TensorView out(y.data(), m, n);
  if (a_spec.quantized()) {
    const Codes a(a_spec, x.view), b(b_spec, w.view);
    for (auto _ : state) qgemm(runtime(), a.q, b.q, out);
  } else if (b_spec.quantized()) {
    const Codes b(b_spec, w.view);
    for (auto _ : state) qgemm(runtime(), x.view, b.q, out);
  } else {
    for (auto _ : state) qgemm(runtime(), x.view, w.view, out);
  }
  state.SetItemsProcessed(state.iterations() * 2 * m * n * k);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"M", "N", "K"})
      ->Args({1024, 1024, 1024})
      ->Args({4096, 512, 96})
      ->Args({16, 1024, 1024})
      ->UseRealTime();
}

}  // namespace
}  // namespace minite

int main(int argc, char** argv) {
  using namespace minite;
  const QuantSpec bf16_spec;
  for (const auto& [name, spec] : {std::pair{"nvfp4_row", kNvfp4Row}, {"mxfp8", kMxfp8}}) {
    benchmark::RegisterBenchmark((std::string("quantize/") + name).c_str(), quantize_rows, spec)
        ->ArgName("K")
        ->Arg(1024)
        ->UseRealTime();
  }
  shapes(benchmark::RegisterBenchmark("gemm/nvfp4_nvfp4", product, kNvfp4Row, kNvfp4Row));
  shapes(benchmark::RegisterBenchmark("gemm/bf16_nvfp4", product, bf16_spec, kNvfp4Row));
  shapes(benchmark::RegisterBenchmark("gemm/mxfp8_mxfp8", product, kMxfp8, kMxfp8));
  shapes(benchmark::RegisterBenchmark("gemm/bf16_bf16", product, bf16_spec, bf16_spec));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
