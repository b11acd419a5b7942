// Kernels of the engine beside their rivals. Each rate is items a second: elements for quantizers, floating
// point operations for products. Random interleaving of Google Benchmark keeps slow phases of the machine
// from favouring one side:
//   bench_kernels --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
//                 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "core/memory.h"
#include "core/philox.h"
#include "minite/ops.h"

#ifdef MINITE_HAVE_OPENBLAS
#include <cblas.h>
#endif

namespace minite {
namespace {

Runtime& runtime() {
  static Runtime r;
  return r;
}

/// A matrix of normal values in bf16; activations get one row in 64 scaled up, as outlier tokens do.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols, double scale, uint64_t seed, bool outliers)
      : memory_(rows * cols * 2), view_(memory_.data(), DType::bf16, rows, cols) {
    for (int64_t i = 0; i < rows * cols; ++i) {
      const auto w = Philox::generate(seed, static_cast<uint64_t>(i), 0);
      const double u = (w[0] + 0.5) * 0x1p-32, v = w[1] * 0x1p-32;
      const double row_scale = outliers && (i / cols) % 64 == 0 ? 30.0 : 1.0;
      const double x = scale * row_scale * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
      view_.as<bf16>()[i] = bf16(static_cast<float>(x));
    }
  }
  [[nodiscard]] const TensorView& view() const { return view_; }
  [[nodiscard]] std::vector<float> widened() const {
    return {view_.as<const bf16>(), view_.as<const bf16>() + view_.size()};
  }

 private:
  Buffer memory_;
  TensorView view_;
};

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
  const Matrix x(4096, state.range(0), 1.0, 1, true);
  Codes out(spec, x.view());
  for (auto _ : state) quantize(runtime(), x.view(), out.q);
  state.SetItemsProcessed(state.iterations() * x.view().size());
}

/// M, N, K of the state; formats of both operands, or bf16 when a spec is not quantized.
void product(benchmark::State& state, const QuantSpec& a_spec, const QuantSpec& b_spec) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const Matrix x(m, k, 1.0, 1, true), w(n, k, 0.02, 2, false);
  std::vector<bf16> y(static_cast<size_t>(m * n));
  const TensorView out(y.data(), m, n);
  if (a_spec.quantized()) {
    const Codes a(a_spec, x.view()), b(b_spec, w.view());
    for (auto _ : state) qgemm(runtime(), a.q, b.q, out);
  } else if (b_spec.quantized()) {
    const Codes b(b_spec, w.view());
    for (auto _ : state) qgemm(runtime(), x.view(), b.q, out);
  } else {
    for (auto _ : state) qgemm(runtime(), x.view(), w.view(), out);
  }
  state.SetItemsProcessed(state.iterations() * 2 * m * n * k);
}

#ifdef MINITE_HAVE_OPENBLAS
void openblas_sgemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const std::vector<float> x = Matrix(m, k, 1.0, 1, true).widened(),
                           w = Matrix(n, k, 0.02, 2, false).widened();
  std::vector<float> y(static_cast<size_t>(m * n));
  const auto dim = [](int64_t v) { return static_cast<int>(v); };
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, dim(m), dim(n), dim(k), 1.0f, x.data(), dim(k),
                w.data(), dim(k), 0.0f, y.data(), dim(n));
  }
  state.SetItemsProcessed(state.iterations() * 2 * m * n * k);
}
#endif

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
#ifdef MINITE_HAVE_OPENBLAS
  shapes(benchmark::RegisterBenchmark("gemm/openblas_sgemm", openblas_sgemm));
#endif
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
