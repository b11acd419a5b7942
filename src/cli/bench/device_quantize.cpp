#include "cli/bench/device_quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backends/cuda/timing.h"
#include "cli/bench/data.h"
#include "cli/bench/device_operands.h"

namespace minite::cli {
namespace {

constexpr int64_t kRotate = int64_t{512} << 20;     ///< bytes that the sets of one row touch in turn
constexpr int64_t kCopyBytes = int64_t{256} << 20;  ///< read, and written

/// One call on one set of buffers.
using Launch = std::function<void(const Exec&)>;
/// What a row measures: `ours`, and its parts one after the other, where it has any.
struct Sets {
  std::vector<Launch> ours, parts;
};
/// Buffers of a row, given back after it.
class Memory {
 public:
  Memory(const OpTable& op, const NormalMatrix& data) : op_(op), data_(data) {}
  void* take(int64_t bytes) { return owned_.emplace_back(*op_.memory, bytes).data(); }
  /// BF16; `filled` with the same rows again and again.
  TensorView matrix(int64_t rows, int64_t cols, bool filled) {
    const TensorView t(take(rows * cols * 2), DType::bf16, rows, cols);
    const int64_t all = rows * cols * 2, piece = data_.view.size() * 2;
    for (int64_t at = 0; filled && at < all; at += piece)
      op_.memory->copy_in(static_cast<std::byte*>(t.data) + at, data_.view.data, std::min(piece, all - at),
                          nullptr);
    return t;
  }
  QTensor codes(const QuantSpec& spec, int64_t rows, int64_t cols) {
    return QTensor::place(spec, rows, cols, take(QTensor::bytes(spec, rows, cols)));
  }
  [[nodiscard]] const OpTable& op() const { return op_; }

 private:
  const OpTable& op_;
  const NormalMatrix& data_;
  std::vector<DeviceBytes> owned_;
};

struct Goal {
  double must = 0, aim = 0;
};
struct Row {
  std::string name;
  int64_t m, k, bytes;  ///< compulsory
  Goal copy, parts;     ///< share of the copy's speed; speed over that of the parts
  std::function<void(Memory&, Sets&)> build;
};

/// Codes and block scales of whole blocks.
int64_t code_bytes(const QuantSpec& spec, int64_t elements) {
  return elements * format(spec.format).bits / 8 + elements / spec.block_size();
}

Row quantize_row(const QuantSpec& spec, Orientation along, int64_t m, int64_t k, Goal goal,
                 bool decoded = false) {
  const bool rows = along == Orientation::rows;
  return {fmt::format("quantize/{}{}{}", to_string(spec), rows ? "" : "/columns", decoded ? "/decoded" : ""),
          m,
          k,
          m * k * (decoded ? 4 : 2) + code_bytes(spec, m * k),
          goal,
          {},
          [=](Memory& memory, Sets& sets) {
            QuantizeArgs args = {
                memory.matrix(m, k, true), along, memory.codes(spec, rows ? m : k, rows ? k : m), {1, 2}};
            if (decoded) args.decoded = memory.matrix(args.out.rows, args.out.cols, false);
            sets.ours.push_back([=, &op = memory.op()](const Exec& exec) { op.quantize(args, exec); });
          }};
}

Row both_row(const QuantSpec& by_rows, const QuantSpec& by_columns, int64_t m, int64_t k, Goal goal) {
  return {fmt::format("quantize_both/{}/{}", to_string(by_rows), to_string(by_columns)),
          m,
          k,
          m * k * 2 + code_bytes(by_rows, m * k) + code_bytes(by_columns, m * k),
          goal,
          {},
          [=](Memory& memory, Sets& sets) {
            const TensorView x = memory.matrix(m, k, true);
            const QuantizeBothArgs both = {{x, Orientation::rows, memory.codes(by_rows, m, k), {1, 2}},
                                           {x, Orientation::columns, memory.codes(by_columns, k, m), {1, 3}}};
            const OpTable& op = memory.op();
            sets.ours.push_back([=, &op](const Exec& exec) { op.quantize_both(both, exec); });
            sets.parts.push_back([=, &op](const Exec& exec) {
              op.quantize(both.rows, exec);
              op.quantize(both.columns, exec);
            });
          }};
}

Row decode_row(const QuantSpec& spec, int64_t m, int64_t k, Goal goal) {
  return {fmt::format("dequantize/{}", to_string(spec)),
          m,
          k,
          m * k * 2 + code_bytes(spec, m * k),
          goal,
          {},
          [=](Memory& memory, Sets& sets) {
            const TensorView x = memory.matrix(m, k, true);
            const QTensor q = memory.codes(spec, m, k);
            const OpTable& op = memory.op();
            op.quantize({x, Orientation::rows, q}, {});
            sets.ours.push_back([=, &op](const Exec& exec) { op.dequantize({q, x}, exec); });
          }};
}

NormArgs norm_of(Memory& memory, const TensorView& x) {
  NormArgs norm;
  norm.x = x;
  norm.weight = memory.matrix(1, x.cols, true);
  norm.eps = 1e-6f;
  norm.y = memory.matrix(x.rows, x.cols, false);
  return norm;
}

constexpr Goal kFused = {0.85, 0.92}, kOverParts = {1.8, 2.3};

Row norm_row(const QuantSpec& spec, int64_t m, int64_t d) {
  return {fmt::format("norm_quantize/{}", to_string(spec)),
          m,
          d,
          m * d * 4 + code_bytes(spec, m * d),
          kFused,
          kOverParts,
          [=](Memory& memory, Sets& sets) {
            const NormArgs norm = norm_of(memory, memory.matrix(m, d, true));
            const QTensor out = memory.codes(spec, m, d);
            const OpTable& op = memory.op();
            sets.ours.push_back([=, &op](const Exec& exec) { op.norm_quantize({norm, out}, exec); });
            sets.parts.push_back([=, &op](const Exec& exec) {
              op.norm(norm, exec);
              op.quantize({norm.y, Orientation::rows, out}, exec);
            });
          }};
}

/// The sum of two, its norm and the codes.
Row add_norm_row(const QuantSpec& spec, int64_t m, int64_t d) {
  return {fmt::format("add_norm_quantize/{}", to_string(spec)),
          m,
          d,
          m * d * 8 + code_bytes(spec, m * d),
          kFused,
          kOverParts,
          [=](Memory& memory, Sets& sets) {
            const AddArgs add = {memory.matrix(m, d, true), memory.matrix(m, d, true),
                                 memory.matrix(m, d, false)};
            const NormArgs norm = norm_of(memory, add.y);
            const QTensor out = memory.codes(spec, m, d);
            const OpTable& op = memory.op();
            sets.ours.push_back([=, &op](const Exec& exec) { op.add_norm_quantize({add, norm, out}, exec); });
            sets.parts.push_back([=, &op](const Exec& exec) {
              op.add(add, exec);
              op.norm(norm, exec);
              op.quantize({norm.y, Orientation::rows, out}, exec);
            });
          }};
}

Row swiglu_row(const QuantSpec& spec, int64_t m, int64_t f) {
  return {fmt::format("swiglu_quantize/{}", to_string(spec)),
          m,
          f,
          m * f * 6 + code_bytes(spec, m * f),
          kFused,
          kOverParts,
          [=](Memory& memory, Sets& sets) {
            const SwigluArgs act = {memory.matrix(m, 2 * f, true), memory.matrix(m, f, false)};
            const QTensor out = memory.codes(spec, m, f);
            const OpTable& op = memory.op();
            sets.ours.push_back([=, &op](const Exec& exec) { op.swiglu_quantize({act, out}, exec); });
            sets.parts.push_back([=, &op](const Exec& exec) {
              op.swiglu(act, exec);
              op.quantize({act.y, Orientation::rows, out}, exec);
            });
          }};
}

std::vector<Row> all_rows() {
  const QuantSpec none{FormatId::nvfp4}, mxfp8{FormatId::mxfp8}, row{FormatId::nvfp4, OuterScale::row},
      tensor{FormatId::nvfp4, OuterScale::tensor};
  QuantSpec tile = none, noise = none, turned = none, search = none;
  tile.blocks = BlockShape::tile;
  noise.rounding = Rounding::stochastic;
  turned.rotation = Rotation::hadamard;
  search.search = ScaleSearch::four_six_mse;
  constexpr Goal kGiven = {0.9, 0.95}, kOwn = {0.85, 0.92}, kDecode = {0.92, 0.95};
  using enum Orientation;
  return {quantize_row(none, rows, 16384, 4096, kGiven),
          quantize_row(none, rows, 16384, 4096, kGiven, true),
          quantize_row(row, rows, 16384, 2048, kOwn),
          quantize_row(row, rows, 16384, 2560, kOwn),
          quantize_row(row, rows, 16384, 4096, kOwn),
          quantize_row(row, rows, 8192, 8192, kOwn),
          quantize_row(row, rows, 8192, 16384, kOwn),
          quantize_row(tensor, rows, 16384, 4096, {}),
          quantize_row(noise, rows, 16384, 4096, {0.65, 0.8}),
          quantize_row(search, rows, 16384, 4096, {}),
          quantize_row(tile, rows, 16384, 4096, {0.8, 0.85}),
          quantize_row(mxfp8, rows, 16384, 4096, kGiven),
          quantize_row(none, columns, 16384, 4096, {}),
          quantize_row(row, columns, 16384, 4096, {}),
          quantize_row(turned, columns, 16384, 4096, {}),
          both_row(none, none, 16384, 4096, {0.75, 0.85}),
          both_row(row, row, 16384, 8192, {0.5, 0.57}),
          both_row(row, turned, 16384, 4096, {}),
          both_row(tile, tile, 16384, 4096, {}),
          both_row(noise, noise, 16384, 4096, {}),
          decode_row(row, 16384, 4096, kDecode),
          norm_row(row, 16384, 2048),
          norm_row(row, 16384, 2560),
          norm_row(row, 16384, 4096),
          norm_row(row, 8192, 8192),
          norm_row(none, 16384, 4096),
          add_norm_row(row, 16384, 2560),
          add_norm_row(row, 16384, 4096),
          swiglu_row(row, 8192, 9728),
          swiglu_row(row, 8192, 8192)};
}

/// Microseconds of one call over the rounds, in the same rounds as the copy.
struct Rounds {
  std::vector<double> ours, parts, copy, over_parts, of_copy;
};
Rounds measure(const Row& row, const Sets& sets, cuda::Replay& copy, int rounds) {
  const int count = static_cast<int>(sets.ours.size());
  const auto replay = [&](const std::vector<Launch>& launches) {
    return std::make_unique<cuda::Replay>(
        [&](int i, void* stream) {
          launches[static_cast<size_t>(i % count)]({nullptr, {}, stream});
        },
        2 * count);
  };
  const auto ours = replay(sets.ours), parts = sets.parts.empty() ? nullptr : replay(sets.parts);
  (void)ours->seconds(1);
  Rounds all;
  for (int i = 0; i < rounds; ++i) {
    const double copied =
        copy.seconds(1) * 1e6 * static_cast<double>(row.bytes) / static_cast<double>(2 * kCopyBytes);
    all.copy.push_back(copied);
    all.ours.push_back(ours->seconds(1) * 1e6);
    all.of_copy.push_back(copied / all.ours.back());
    if (parts == nullptr) continue;
    all.parts.push_back(parts->seconds(1) * 1e6);
    all.over_parts.push_back(all.parts.back() / all.ours.back());
  }
  return all;
}

void add_rows(const Row& row, const Rounds& all, std::vector<BenchRow>& rows) {
  BenchRow r;
  r.name = row.name;
  r.problem = fmt::format("{}x{}", row.m, row.k);
  r.unit = "us";
  r.rival = RivalId::copy;
  r.against = rival_name(r.rival);
  r.ours = spread(all.ours);
  r.theirs = spread(all.copy);
  r.ratio = spread(all.of_copy);
  r.ceiling = r.ratio.median;
  r.must = row.copy.must;
  r.aim = row.copy.aim;
  rows.push_back(r);
  if (all.parts.empty()) return;
  r.rival = RivalId::parts;
  r.against = rival_name(r.rival);
  r.theirs = spread(all.parts);
  r.ratio = spread(all.over_parts);
  r.must = row.parts.must;
  r.aim = row.parts.aim;
  rows.push_back(r);
}

}  // namespace

std::vector<BenchRow> bench_quantizers(const OpTable& op, int rounds, const std::regex& filter,
                                       const std::function<void(const std::string&)>& progress) {
  std::vector<BenchRow> rows;
  std::unique_ptr<DeviceBytes> from, to;
  std::unique_ptr<cuda::Replay> copy;
  for (const Row& row : all_rows()) {
    if (!std::regex_search(row.name, filter)) continue;
    progress(row.name);
    if (copy == nullptr) {
      from = std::make_unique<DeviceBytes>(*op.memory, kCopyBytes);
      to = std::make_unique<DeviceBytes>(*op.memory, kCopyBytes);
      copy = std::make_unique<cuda::Replay>(
          [&](int, void* stream) { cuda::copy_kernel(to->data(), from->data(), kCopyBytes, stream); }, 8);
    }
    const NormalMatrix data = activations(512, row.k);
    Memory memory(op, data);
    Sets sets;
    const auto count = static_cast<int>(kRotate / row.bytes + 2);
    for (int set = 0; set < count; ++set) row.build(memory, sets);
    op.memory->synchronize(nullptr);
    add_rows(row, measure(row, sets, *copy, rounds), rows);
  }
  return rows;
}

}  // namespace minite::cli
