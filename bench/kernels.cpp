// The quantizer and the matrix product of every format, on one thread and on all: elements and floating point
// operations a second. Weights are [1024, 1024]; M is the number of tokens. MINITE_BACKEND chooses the
// backend.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>

#include "backends/registry.h"
#include "core/env.h"
#include "core/memory.h"
#include "core/philox.h"
#include "minite/error.h"

namespace minite::bench {
namespace {

constexpr int64_t kWidth = 1024;

/// The tightest outer scale of a format.
QuantSpec spec_of(const Format& format) {
  return {format.id, format.outer_scale ? OuterScale::row : OuterScale::none, Convention::te};
}

/// Sums of uniform numbers: roughly normal, and cheap.
void fill(const TensorView& x, uint64_t key) {
  for (int64_t i = 0; i < x.size(); ++i) {
    const auto words = Philox::generate(key, static_cast<uint64_t>(i), 0);
    const float sum = Philox::unit(words[0]) + Philox::unit(words[1]) + Philox::unit(words[2]) +
                      Philox::unit(words[3]) - 2.0f;
    if (x.dtype == DType::bf16) {
      x.as<bf16>()[i] = bf16(sum);
    } else {
      x.as<float>()[i] = sum;
    }
  }
}

/// A matrix in one format: dense, or quantized from BF16.
struct Matrix {
  Buffer dense_memory, code_memory;
  Operand operand;

  Matrix(const OpTable& op, ThreadPool& pool, const Format& format, int64_t rows, uint64_t key) {
    const DType dtype = format.element == Element::fp32 ? DType::f32 : DType::bf16;
    dense_memory = Buffer(rows * kWidth * dtype_size(dtype));
    const TensorView x(dense_memory.data(), dtype, rows, kWidth);
    fill(x, key);
    operand = Operand::of(x);
    if (format.block == 0) return;
    const QuantSpec spec = spec_of(format);
    code_memory = Buffer(QTensor::bytes(spec, rows, kWidth));
    const QTensor q = QTensor::place(spec, rows, kWidth, code_memory.data());
    op.quantize({x, Orientation::rows, q}, {&pool, {}});
    operand = Operand::of(q);
  }
};

void gemm(benchmark::State& state, const OpTable& op, const Format& format, int threads) {
  ThreadPool pool(threads);
  const int64_t m = state.range(0);
  const Matrix a(op, pool, format, m, 1);
  const Matrix b(op, pool, format, kWidth, 2);
  const Buffer y(m * kWidth * dtype_size(DType::bf16));
  const GemmProblem problem{format.id, format.id, DType::bf16, kWidth, kWidth};
  const Buffer scratch(op.gemm_scratch(problem, m, pool.threads()));
  const GemmArgs args{
      a.operand, b.operand, {}, TensorView(y.data(), DType::bf16, m, kWidth), Output::overwrite};
  for (auto _ : state) {
    op.gemm(args, {&pool, {scratch.data(), static_cast<size_t>(scratch.size())}});
    benchmark::ClobberMemory();
  }
  state.counters["FLOP/s"] = benchmark::Counter(2.0 * static_cast<double>(m * kWidth * kWidth),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void quantize(benchmark::State& state, const OpTable& op, const Format& format, int threads) {
  ThreadPool pool(threads);
  const int64_t m = state.range(0);
  const Buffer memory(m * kWidth * dtype_size(DType::bf16));
  const TensorView x(memory.data(), DType::bf16, m, kWidth);
  fill(x, 3);
  const QuantSpec spec = spec_of(format);
  const Buffer codes(QTensor::bytes(spec, m, kWidth));
  const QuantizeArgs args{x, Orientation::rows, QTensor::place(spec, m, kWidth, codes.data())};
  for (auto _ : state) {
    op.quantize(args, {&pool, {}});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * m * kWidth);
}

void add_benchmarks(const OpTable& op) {
  for (const Format& format : formats()) {
    for (const int threads : {1, 0}) {
      const std::string who =
          fmt::format("{}/{}/{}", op.name, format.name, threads == 1 ? "one thread" : "all threads");
      benchmark::RegisterBenchmark(("gemm/" + who).c_str(), gemm, op, format, threads)
          ->ArgName("M")
          ->Arg(1)
          ->Arg(64)
          ->Arg(512)
          ->UseRealTime();
      if (format.block == 0) continue;
      benchmark::RegisterBenchmark(("quantize/" + who).c_str(), quantize, op, format, threads)
          ->ArgName("M")
          ->Arg(4096)
          ->UseRealTime();
    }
  }
}

}  // namespace
}  // namespace minite::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    minite::bench::add_benchmarks(minite::backend(minite::env_backend()));
    benchmark::RunSpecifiedBenchmarks();
  } catch (const minite::Error& error) {
    fmt::print(stderr, "bench_kernels: {}\n", error.what());
    return error.exit_code();
  }
}
