// Quantization on the device against a copy of the same bytes: compulsory bytes, each input read once and
// each output written once, over time. Five rounds, the copy beside each; buffers rotate past the L2 cache.
// Prints one JSON document. An argument chooses rows whose name contains it.
#include <fmt/format.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <string_view>

#include "backends/cuda/cuda.h"
#include "backends/cuda/device.h"
#include "device.h"
#include "timer.h"

namespace minite::bench {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kRotate = int64_t{512} << 20;  ///< bytes that the sets of one row touch in turn

/// One call on one set of buffers.
using Launch = std::function<void(cudaStream_t)>;
/// What a row measures: `ours`, and `theirs` that it is compared with (the copy when there is none).
struct Sets {
  std::vector<Launch> ours, theirs;
};
struct Row {
  std::string name, problem, against;
  int64_t bytes;  ///< compulsory
  std::function<void(Memory&, int set, Sets&)> build;
};

const OpTable& table() { return *cuda::backend().table; }
Exec on(cudaStream_t stream) { return {nullptr, {}, stream}; }

TensorView matrix(Memory& memory, int64_t rows, int64_t cols, int seed = -1) {
  TensorView t(memory.take(rows * cols * 2), DType::bf16, rows, cols);
  if (seed >= 0) fill_normal(t.data, rows, cols, static_cast<uint64_t>(seed), nullptr);
  return t;
}
QTensor codes(Memory& memory, const QuantSpec& spec, int64_t rows, int64_t cols) {
  return QTensor::place(spec, rows, cols, memory.take(QTensor::bytes(spec, rows, cols)));
}
int64_t code_bytes(int64_t rows, int64_t cols) { return rows * cols / 2 + rows * cols / 16; }

Row quantize_row(const QuantSpec& spec, Orientation along, int64_t m, int64_t k, bool decoded) {
  const bool rows = along == Orientation::rows;
  return {
      fmt::format("quantize {}{}{}", to_string(spec), rows ? "" : " by columns", decoded ? " + decoded" : ""),
      fmt::format("{}x{}", m, k), "copy", m * k * (decoded ? 4 : 2) + code_bytes(m, k),
      [=](Memory& memory, int set, Sets& sets) {
        QuantizeArgs args = {
            matrix(memory, m, k, set), along, codes(memory, spec, rows ? m : k, rows ? k : m), {1, 2}};
        if (decoded) args.decoded = matrix(memory, args.out.rows, args.out.cols);
        sets.ours.push_back([=](cudaStream_t s) { table().quantize(args, on(s)); });
      }};
}

Row both_row(const QuantSpec& by_rows, const QuantSpec& by_columns, int64_t m, int64_t k) {
  return {fmt::format("quantize {} and {} by columns", to_string(by_rows), to_string(by_columns)),
          fmt::format("{}x{}", m, k), "one way, then the other", m * k * 2 + 2 * code_bytes(m, k),
          [=](Memory& memory, int set, Sets& sets) {
            const TensorView x = matrix(memory, m, k, set);
            const QuantizeBothArgs both = {{x, Orientation::rows, codes(memory, by_rows, m, k)},
                                           {x, Orientation::columns, codes(memory, by_columns, k, m)}};
            sets.ours.push_back([=](cudaStream_t s) { table().quantize_both(both, on(s)); });
            sets.theirs.push_back([=](cudaStream_t s) {
              table().quantize(both.rows, on(s));
              table().quantize(both.columns, on(s));
            });
          }};
}

Row decode_row(const QuantSpec& spec, int64_t m, int64_t k, Multiplier multiplier) {
  const bool all = multiplier == Multiplier::all;
  return {fmt::format("dequantize {}{}", to_string(spec), all ? "" : ", block scales alone"),
          fmt::format("{}x{}", m, k), "copy", m * k * 2 + code_bytes(m, k),
          [=](Memory& memory, int set, Sets& sets) {
            const TensorView x = matrix(memory, m, k, set);
            const QTensor q = codes(memory, spec, m, k);
            table().quantize({x, Orientation::rows, q}, on(nullptr));
            sets.ours.push_back([=](cudaStream_t s) { table().dequantize({q, x, multiplier}, on(s)); });
          }};
}

Row norm_row(const QuantSpec& spec, int64_t m, int64_t d) {
  return {fmt::format("rmsnorm + quantize {}", to_string(spec)), fmt::format("{}x{}", m, d),
          "norm, then quantize", m * d * 4 + code_bytes(m, d), [=](Memory& memory, int set, Sets& sets) {
            NormArgs norm;
            norm.x = matrix(memory, m, d, set);
            norm.weight = matrix(memory, 1, d, 1000);
            norm.eps = 1e-6f;
            norm.y = matrix(memory, m, d);
            const QTensor out = codes(memory, spec, m, d);
            sets.ours.push_back([=](cudaStream_t s) { table().norm_quantize({norm, out}, on(s)); });
            sets.theirs.push_back([=](cudaStream_t s) {
              table().norm(norm, on(s));
              table().quantize({norm.y, Orientation::rows, out}, on(s));
            });
          }};
}

/// The sum of two, its norm and the codes.
Row add_norm_row(const QuantSpec& spec, int64_t m, int64_t d) {
  return {fmt::format("add + rmsnorm + quantize {}", to_string(spec)), fmt::format("{}x{}", m, d),
          "add, norm, then quantize", m * d * 8 + code_bytes(m, d), [=](Memory& memory, int set, Sets& sets) {
            const AddArgs add = {matrix(memory, m, d, set), matrix(memory, m, d, set + 500),
                                 matrix(memory, m, d)};
            NormArgs norm;
            norm.x = add.y;
            norm.weight = matrix(memory, 1, d, 1000);
            norm.eps = 1e-6f;
            norm.y = matrix(memory, m, d);
            const QTensor out = codes(memory, spec, m, d);
            sets.ours.push_back([=](cudaStream_t s) { table().add_norm_quantize({add, norm, out}, on(s)); });
            sets.theirs.push_back([=](cudaStream_t s) {
              table().add(add, on(s));
              table().norm(norm, on(s));
              table().quantize({norm.y, Orientation::rows, out}, on(s));
            });
          }};
}

Row swiglu_row(const QuantSpec& spec, int64_t m, int64_t f) {
  return {fmt::format("swiglu + quantize {}", to_string(spec)), fmt::format("{}x{}", m, f),
          "swiglu, then quantize", m * f * 6 + code_bytes(m, f), [=](Memory& memory, int set, Sets& sets) {
            const SwigluArgs act = {matrix(memory, m, 2 * f, set), matrix(memory, m, f)};
            const QTensor out = codes(memory, spec, m, f);
            sets.ours.push_back([=](cudaStream_t s) { table().swiglu_quantize({act, out}, on(s)); });
            sets.theirs.push_back([=](cudaStream_t s) {
              table().swiglu(act, on(s));
              table().quantize({act.y, Orientation::rows, out}, on(s));
            });
          }};
}

std::vector<Row> rows() {
  const QuantSpec none{FormatId::nvfp4}, row{FormatId::nvfp4, OuterScale::row},
      tensor{FormatId::nvfp4, OuterScale::tensor};
  QuantSpec tile = none, noise = none, turned = none, search = none;
  tile.blocks = BlockShape::tile;
  noise.rounding = Rounding::stochastic;
  turned.rotation = Rotation::hadamard;
  search.search = ScaleSearch::four_six_mse;
  using enum Orientation;
  return {quantize_row(none, rows, 16384, 4096, false),
          quantize_row(none, rows, 16384, 4096, true),
          quantize_row(row, rows, 16384, 2048, false),
          quantize_row(row, rows, 16384, 2560, false),
          quantize_row(row, rows, 16384, 4096, false),
          quantize_row(row, rows, 8192, 8192, false),
          quantize_row(row, rows, 8192, 16384, false),
          quantize_row(tensor, rows, 16384, 4096, false),
          quantize_row(noise, rows, 16384, 4096, false),
          quantize_row(search, rows, 16384, 4096, false),
          quantize_row(tile, rows, 16384, 4096, false),
          quantize_row(none, columns, 16384, 4096, false),
          quantize_row(row, columns, 16384, 4096, false),
          quantize_row(turned, columns, 16384, 4096, false),
          both_row(none, none, 16384, 4096),
          both_row(row, row, 16384, 4096),
          both_row(row, turned, 16384, 4096),
          decode_row(row, 16384, 4096, Multiplier::all),
          decode_row(row, 16384, 4096, Multiplier::block),
          norm_row(row, 16384, 2560),
          norm_row(row, 16384, 4096),
          norm_row(row, 8192, 8192),
          add_norm_row(row, 16384, 4096),
          norm_row(none, 16384, 4096),
          swiglu_row(row, 8192, 9728),
          swiglu_row(row, 8192, 8192),
          swiglu_row(none, 8192, 8192)};
}

/// Bytes of a copy, half of them read, that takes buffers of its own.
constexpr int64_t kCopyBytes = int64_t{512} << 20;

std::string measure(const Row& row, const Replay& copy, cudaStream_t stream) {
  Memory memory;
  Sets sets;
  const int count = static_cast<int>(kRotate / row.bytes + 2);
  for (int set = 0; set < count; ++set) row.build(memory, set, sets);
  check(cudaDeviceSynchronize(), "fill");
  const auto replay = [&](const std::vector<Launch>& launches) {
    return std::make_unique<Replay>(2 * count, stream,
                                    [&](int i) { launches[static_cast<size_t>(i % count)](stream); });
  };
  const auto ours = replay(sets.ours), theirs = sets.theirs.empty() ? nullptr : replay(sets.theirs);
  (void)ours->time();
  std::vector<double> us, against, ceiling, ratio;
  for (int i = 0; i < kRounds; ++i) {
    const double peak = static_cast<double>(kCopyBytes) / copy.time();
    us.push_back(ours->time());
    against.push_back(theirs ? theirs->time() : static_cast<double>(row.bytes) / peak);
    ratio.push_back(against.back() / us.back());
    ceiling.push_back(static_cast<double>(row.bytes) / us.back() / peak);
  }
  const Spread r = spread(ratio), c = spread(ceiling);
  return fmt::format(
      R"({{"name": "{}", "problem": "{}", "ratio": {:.3f}, "ratio_min": {:.3f}, "ratio_max": {:.3f}, "ours": {:.2f}, "theirs": {:.2f}, "against": "{}", "unit": "us", "ceiling_fraction": {:.3f}, "ceiling_min": {:.3f}, "ceiling_max": {:.3f}}})",
      row.name, row.problem, r.median, r.least, r.most, spread(us).median, spread(against).median,
      row.against, c.median, c.least, c.most);
}

int run(std::string_view only) {
  const Backend backend = cuda::backend();
  if (backend.table == nullptr) {
    std::cerr << backend.reason << '\n';
    return 1;
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "stream");
  Memory memory;
  void* from = memory.take(kCopyBytes / 2);
  void* to = memory.take(kCopyBytes / 2);
  fill_normal(from, kCopyBytes / 4 / 4096, 4096, 1, stream);
  // The ceiling is the fastest shape of the copy.
  std::unique_ptr<Replay> copies;
  double least = 0;
  int vectors = 0;
  for (const int shape : {1, 2, 4, 8}) {
    auto replay =
        std::make_unique<Replay>(8, stream, [&](int) { copy(to, from, kCopyBytes / 2, shape, stream); });
    (void)replay->time();
    const double us = spread({replay->time(), replay->time(), replay->time()}).median;
    std::cerr << "copy, " << shape << " vectors: " << us << " us\n";
    if (copies != nullptr && us >= least) continue;
    copies = std::move(replay);
    least = us;
    vectors = shape;
  }
  const double peak = static_cast<double>(kCopyBytes) / least * 1e-6;
  const cuda::Device& d = cuda::device();
  std::cout << fmt::format(
      R"({{"machine": {{"device": "{}", "multiprocessors": {}, "driver": {}, "runtime": {}, "copy_tb_per_s": {:.3f}, "copy_vectors": {}}}, "rounds": {}, "rows": [)",
      d.name, d.multiprocessors, d.driver, d.runtime, peak, vectors, kRounds);
  const char* separator = "\n";
  for (const Row& row : rows()) {
    if (row.name.find(only) == std::string::npos) continue;
    std::cout << separator << measure(row, *copies, stream) << std::flush;
    separator = ",\n";
  }
  std::cout << "\n]}\n";
  return 0;
}

}  // namespace
}  // namespace minite::bench

int main(int argc, char** argv) {
  try {
    return minite::bench::run(argc > 1 ? argv[1] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
