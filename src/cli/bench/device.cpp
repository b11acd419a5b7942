#include "cli/bench/device.h"

#include <fmt/format.h>

#include "backends/cuda/device.h"
#include "backends/registry.h"
#include "cli/bench/device_grouped.h"
#include "cli/bench/device_operands.h"
#include "cli/bench/device_quantize.h"
#include "cli/bench/specs.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

constexpr int64_t kRoundTrip = 256 << 20;  ///< bytes of operands between two uses of one: four times the L2

/// How the operands of a product are stored.
enum class Way : uint8_t {
  bf16,
  w4a16,         ///< weights prepacked, activations in BF16
  w4a4_few,      ///< weights prepacked, activations decoded by their quantizer
  w4a4_packed,   ///< codes on both sides
  w4a4_decoded,  ///< both sides decoded before
};

struct GemmSpec {
  const char* name;
  Way way;
  int64_t m, n, k;
  double must, aim;
};
constexpr GemmSpec kGemms[] = {
    {"gemm/w4a16/m1/28672x8192", Way::w4a16, 1, 28672, 8192, 3.0, 3.4},
    {"gemm/w4a16/m8/28672x8192", Way::w4a16, 8, 28672, 8192, 3.0, 3.4},
    {"gemm/w4a16/m16/28672x8192", Way::w4a16, 16, 28672, 8192, 3.0, 3.4},
    {"gemm/w4a4/m16/28672x8192", Way::w4a4_few, 16, 28672, 8192, 3.0, 3.4},
    {"gemm/w4a16/m1/6144x2560", Way::w4a16, 1, 6144, 2560, 2.0, 2.6},
    {"gemm/w4a16/m16/6144x2560", Way::w4a16, 16, 6144, 2560, 2.0, 2.6},
    {"gemm/w4a16/m1/2560x4096", Way::w4a16, 1, 2560, 4096, 2.0, 2.6},
    {"gemm/w4a16/m16/2560x4096", Way::w4a16, 16, 2560, 4096, 2.0, 2.6},
    {"gemm/w4a16/m1/19456x2560", Way::w4a16, 1, 19456, 2560, 2.0, 2.6},
    {"gemm/w4a16/m16/19456x2560", Way::w4a16, 16, 19456, 2560, 2.0, 2.6},
    {"gemm/w4a16/m1/2560x9728", Way::w4a16, 1, 2560, 9728, 2.0, 2.6},
    {"gemm/w4a16/m16/2560x9728", Way::w4a16, 16, 2560, 9728, 2.0, 2.6},
    {"gemm/w4a16/m64/28672x8192", Way::w4a16, 64, 28672, 8192, 1.5, 2.0},
    {"gemm/w4a16/m64/19456x2560", Way::w4a16, 64, 19456, 2560, 1.5, 2.0},
    {"gemm/w4a16/m256/28672x8192", Way::w4a16, 256, 28672, 8192, 1.0, 1.05},
    {"gemm/w4a16/m256/19456x2560", Way::w4a16, 256, 19456, 2560, 1.0, 1.05},
    {"gemm/w4a16/m2048/28672x8192", Way::w4a16, 2048, 28672, 8192, 0.85, 0.95},
    {"gemm/w4a16/m2048/19456x2560", Way::w4a16, 2048, 19456, 2560, 0.85, 0.95},
    {"gemm/w4a4_decoded/8192", Way::w4a4_decoded, 8192, 8192, 8192, 0.95, 1.0},
    {"gemm/w4a4_packed/8192", Way::w4a4_packed, 8192, 8192, 8192, 0.88, 0.95},
    {"gemm/bf16/8192", Way::bf16, 8192, 8192, 8192, 0, 0},
    {"gemm/w4a4_decoded/4096x6144x2560", Way::w4a4_decoded, 4096, 6144, 2560, 0, 0},
    {"gemm/w4a4_decoded/4096x2560x4096", Way::w4a4_decoded, 4096, 2560, 4096, 0, 0},
    {"gemm/w4a4_decoded/4096x19456x2560", Way::w4a4_decoded, 4096, 19456, 2560, 0, 0},
    {"gemm/w4a4_decoded/4096x2560x9728", Way::w4a4_decoded, 4096, 2560, 9728, 0, 0},
};

constexpr QuantSpec kActivations{FormatId::nvfp4, OuterScale::row},
    kWeights{FormatId::nvfp4, OuterScale::tensor};

/// What lies beside the codes of an operand.
enum class Beside : uint8_t { nothing, decoded, prepacked };
constexpr Beside beside_activations(Way way) {
  return way == Way::w4a4_few || way == Way::w4a4_decoded ? Beside::decoded : Beside::nothing;
}
constexpr Beside beside_weights(Way way) {
  return way == Way::w4a4_decoded                    ? Beside::decoded
         : way == Way::w4a16 || way == Way::w4a4_few ? Beside::prepacked
                                                     : Beside::nothing;
}

/// All that the measurements of one run share.
struct Bench {
  const OpTable& op;
  const OpTable& host;
  ThreadPool pool;
  Cublas* cublas;
  int rounds;
  double copy_rate = 0;  ///< bytes a second, read and written
};

class Uploader {
 public:
  Uploader(Bench& bench, int64_t bytes_per_copy)
      : bench_(bench),
        copies_(static_cast<int>(std::clamp<int64_t>(kRoundTrip / bytes_per_copy + 1, 1, 64))) {}

  /// Codes of `spec`, or BF16 values.
  DeviceOperands operands(const TensorView& x, const QuantSpec& spec, Beside beside) {
    DeviceOperands all;
    if (!spec.quantized()) {
      for (int i = 0; i < copies_; ++i) {
        all.memory.push_back(upload(x.data, x.size() * 2));
        all.copies.push_back(Operand::of(TensorView(all.memory.back().data(), DType::bf16, x.rows, x.cols)));
      }
      return all;
    }
    Buffer memory(QTensor::bytes(spec, x.rows, x.cols));
    const QTensor q = QTensor::place(spec, x.rows, x.cols, memory.data());
    bench_.host.quantize({x, Orientation::rows, q}, {&bench_.pool, {}});
    for (int i = 0; i < copies_; ++i) {
      all.memory.push_back(upload(memory.data(), memory.size()));
      Operand operand = Operand::of(QTensor::place(spec, x.rows, x.cols, all.memory.back().data()));
      if (beside == Beside::decoded) {
        all.memory.emplace_back(*bench_.op.memory, x.size() * 2);
        operand.decoded = TensorView(all.memory.back().data(), DType::bf16, x.rows, x.cols);
        bench_.op.dequantize({operand.q, operand.decoded, Multiplier::block}, {});
      }
      if (beside == Beside::prepacked) {
        const int64_t bytes = bench_.op.prepacked_bytes(spec, x.rows, x.cols);
        all.memory.emplace_back(*bench_.op.memory, bytes);
        auto* place = static_cast<std::byte*>(all.memory.back().data());
        bench_.op.prepack({operand.q, {place, static_cast<size_t>(bytes)}}, {});
        operand.prepacked = place;
      }
      all.copies.push_back(operand);
    }
    bench_.op.memory->synchronize(nullptr);
    return all;
  }
  [[nodiscard]] int copies() const { return copies_; }

 private:
  DeviceBytes upload(const void* data, int64_t bytes) {
    DeviceBytes memory(*bench_.op.memory, bytes);
    bench_.op.memory->copy_in(memory.data(), data, bytes, nullptr);
    bench_.op.memory->synchronize(nullptr);
    return memory;
  }
  Bench& bench_;
  int copies_;
};

BenchRow measure(const GemmSpec& spec, Bench& bench) {
  const bool b_codes = spec.way != Way::bf16, a_codes = b_codes && spec.way != Way::w4a16;
  const Beside beside_a = beside_activations(spec.way), beside_b = beside_weights(spec.way);
  const bool a_moves_codes = a_codes && beside_a != Beside::decoded,
             b_moves_codes = b_codes && beside_b != Beside::decoded;
  const NormalMatrix x = activations(spec.m, spec.k), w = weights(spec.n, spec.k);
  const auto bytes = [&](int64_t rows, bool codes) {
    return codes ? rows * spec.k * 9 / 16 : rows * spec.k * 2;
  };
  Uploader uploader(bench, bytes(spec.n, b_moves_codes));
  const DeviceOperands a =
      uploader.operands(x.view, a_codes ? kActivations : QuantSpec{FormatId::bf16}, beside_a);
  const DeviceOperands b =
      uploader.operands(w.view, b_codes ? kWeights : QuantSpec{FormatId::bf16}, beside_b);
  const GemmProblem problem{a_codes ? FormatId::nvfp4 : FormatId::bf16,
                            b_codes ? FormatId::nvfp4 : FormatId::bf16, DType::bf16, spec.n, spec.k};
  const int64_t scratch = bench.op.gemm_scratch(problem, spec.m, 1);
  const DeviceBytes work(*bench.op.memory, scratch + 256), out(*bench.op.memory, spec.m * spec.n * 2);
  const TensorView y(out.data(), DType::bf16, spec.m, spec.n);
  const int count = std::max(20, uploader.copies());
  cuda::Replay ours(
      [&](int i, void* stream) {
        const Exec exec{
            nullptr, {static_cast<std::byte*>(work.data()), static_cast<size_t>(scratch)}, stream};
        bench.op.gemm({a.at(i), b.at(i), {}, y}, exec);
      },
      count);
  // The rival multiplies the decoded values: the same numbers, so the same power.
  std::unique_ptr<cuda::Replay> theirs;
  DeviceOperands wide_a, wide_b;
  if (bench.cublas != nullptr) {
    Uploader wide(bench, bytes(spec.n, false));
    wide_a = wide.operands(x.view, a_codes ? kActivations : QuantSpec{FormatId::bf16}, Beside::decoded);
    wide_b = wide.operands(w.view, b_codes ? kWeights : QuantSpec{FormatId::bf16}, Beside::decoded);
    const auto values = [](const Operand& o) { return o.quantized() ? o.decoded : o.dense; };
    theirs = std::make_unique<cuda::Replay>(
        [&](int i, void* stream) {
          bench.cublas->multiply(values(wide_a.at(i)), values(wide_b.at(i)), y, stream);
        },
        std::max(20, wide.copies()));
  }
  const Sides sides = alternate(ours, theirs.get(), bench.rounds);
  const auto moved =
      static_cast<double>(bytes(spec.n, b_moves_codes) + bytes(spec.m, a_moves_codes) + spec.m * spec.n * 2);
  BenchRow row = row_of(spec.name, sides, bench.cublas, moved, bench.copy_rate);
  row.problem = fmt::format("M={} N={} K={}", spec.m, spec.n, spec.k);
  row.must = spec.must;
  row.aim = spec.aim;
  return row;
}

/// Bytes a second of a copy far larger than the cache.
Spread copy_rate(const OpTable& op, int rounds) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  const DeviceBytes from(*op.memory, kBytes), to(*op.memory, kBytes);
  cuda::Replay copy([&](int, void* stream) { cuda::copy_kernel(to.data(), from.data(), kBytes, stream); }, 4);
  (void)copy.seconds(2);
  std::vector<double> rates;
  for (int i = 0; i < rounds; ++i) rates.push_back(2.0 * kBytes / copy.seconds(2));
  return spread(rates);
}

}  // namespace

BenchTable bench_device(const BenchOptions& options,
                        const std::function<void(const std::string&)>& progress) {
  require(options.rounds >= 1, "--rounds {}: at least 1", options.rounds);
  const std::regex filter = parse_filter(options.filter);
  const OpTable& op = any_backend("cuda");
  BenchTable table;
  table.backend = fmt::format("{}, {} ({} multiprocessors)", op.name, cuda::device().name,
                              cuda::device().multiprocessors);
  const Found<Cublas> cublas =
      options.rivals.none ? absent<Cublas>("--no-rivals") : Cublas::open(options.rivals.cublas_file);
  if (cublas.it != nullptr) table.rivals.push_back(cublas.it->name());
  if (cublas.it == nullptr) table.notes.push_back(cublas.absent);
  Bench bench{op, backend("auto"), ThreadPool(0), cublas.it.get(), options.rounds};
  const Spread copied = copy_rate(op, options.rounds);
  bench.copy_rate = copied.median;
  table.bandwidth = "copy";
  table.bandwidth_gbs = {copied.median * 1e-9, copied.least * 1e-9, copied.most * 1e-9};
  for (const GemmSpec& spec : kGemms) {
    if (!std::regex_search(spec.name, filter)) continue;
    progress(spec.name);
    table.rows.push_back(measure(spec, bench));
  }
  for (BenchRow& row : bench_quantizers(op, options.rounds, filter, progress))
    table.rows.push_back(std::move(row));
  bench_grouped({op, cublas.it.get(), options.rounds, bench.copy_rate}, filter, progress, table.rows);
  require(!table.rows.empty(), "--filter {}: no kernel of the device has such a name; names look like {}",
          options.filter, kGemms[0].name);
  return table;
}

}  // namespace minite::cli
