#include "cli/bench/device_grouped.h"

#include <fmt/format.h>

#include "cli/bench/device_operands.h"

namespace minite::cli {
namespace {

constexpr int64_t kExperts = 128, kN = 1536, kK = 2048;
constexpr int64_t kScratch = 1024;  ///< operands need none; the kernel counts its tiles there
constexpr int64_t kDrawnExperts = 8, kDrawnRows = 8192;  ///< of the host; the rest repeats them

enum class Product : uint8_t {
  bf16,
  w4a4_decoded,  ///< NVFP4 on both sides, decoded before
  w4a16,         ///< weights prepacked, rows in BF16
  w4a4,          ///< weights prepacked, rows decoded by their quantizer
  dgrad,         ///< weights read by columns
  wgrad,
};
/// How rows are spread. Skewed: every tenth expert has none, the others' shares fall as 1 / (1 + i)^0.7 of an
/// i that runs through them out of order.
enum class Load : uint8_t { uniform, skewed };

struct GroupedSpec {
  const char* name;
  Product product;
  int64_t rows;
  Load load;
};
constexpr GroupedSpec kSpecs[] = {
    {"grouped/bf16/2048/uniform", Product::bf16, 2048, Load::uniform},
    {"grouped/bf16/2048/skewed", Product::bf16, 2048, Load::skewed},
    {"grouped/w4a16/2048/uniform", Product::w4a16, 2048, Load::uniform},
    {"grouped/w4a16/2048/skewed", Product::w4a16, 2048, Load::skewed},
    {"grouped/w4a4/2048/uniform", Product::w4a4, 2048, Load::uniform},
    {"grouped/w4a4/2048/skewed", Product::w4a4, 2048, Load::skewed},
    {"grouped/w4a16/8192/skewed", Product::w4a16, 8192, Load::skewed},
    {"grouped/bf16/32768/uniform", Product::bf16, 32768, Load::uniform},
    {"grouped/bf16/32768/skewed", Product::bf16, 32768, Load::skewed},
    {"grouped/bf16/524288/uniform", Product::bf16, 524288, Load::uniform},
    {"grouped/bf16/524288/skewed", Product::bf16, 524288, Load::skewed},
    {"grouped/w4a4_decoded/32768/uniform", Product::w4a4_decoded, 32768, Load::uniform},
    {"grouped/w4a4_decoded/32768/skewed", Product::w4a4_decoded, 32768, Load::skewed},
    {"grouped/w4a4_decoded/524288/uniform", Product::w4a4_decoded, 524288, Load::uniform},
    {"grouped/w4a4_decoded/524288/skewed", Product::w4a4_decoded, 524288, Load::skewed},
    {"grouped/dgrad/32768/skewed", Product::dgrad, 32768, Load::skewed},
    {"grouped/wgrad/32768/uniform", Product::wgrad, 32768, Load::uniform},
    {"grouped/wgrad/32768/skewed", Product::wgrad, 32768, Load::skewed},
    {"grouped/wgrad/524288/skewed", Product::wgrad, 524288, Load::skewed},
};

/// Bounds of the experts, in sum exactly `rows`.
std::vector<int32_t> bounds_of(int64_t rows, Load load) {
  std::vector<double> share(kExperts, 1.0);
  for (int64_t e = 0; load == Load::skewed && e < kExperts; ++e)
    share[static_cast<size_t>(e)] =
        e % 10 == 9 ? 0.0 : std::pow(1.0 + static_cast<double>(e * 37 % 128), -0.7);
  double all = 0, sum = 0;
  for (const double s : share) all += s;
  std::vector<int32_t> bounds = {0};
  for (const double s : share) {
    sum += s;
    bounds.push_back(static_cast<int32_t>(std::llround(sum / all * static_cast<double>(rows))));
  }
  return bounds;
}

/// What the rows share: weights, and bounds on host and device.
class Setting {
 public:
  Setting(const GroupedBench& bench, const GroupedSpec& spec)
      : bench_(bench), spec_(spec), bounds_(bounds_of(spec.rows, spec.load)) {
    const bool weights_too = spec.product != Product::wgrad, turned = spec.product == Product::dgrad;
    const int64_t depth = turned ? kN : kK, width = turned ? kK : kN;
    x_ = repeated(activations(std::min(spec.rows, kDrawnRows), depth).view, spec.rows);
    offset_ = take(static_cast<int64_t>(bounds_.size()) * 4);
    bench.op.memory->copy_in(offset_, bounds_.data(), static_cast<int64_t>(bounds_.size()) * 4, nullptr);
    groups_ = {static_cast<const int32_t*>(offset_), kExperts};
    scratch_ = take(kScratch);
    if (weights_too) {
      w_ = repeated(weights(kDrawnExperts * kN, kK).view, kExperts * kN);
      y_ = TensorView(take(spec.rows * width * 2), DType::bf16, spec.rows, width);
    } else {
      w_ = repeated(activations(std::min(spec.rows, kDrawnRows), kN).view, spec.rows);
      y_ = TensorView(take(kExperts * kN * kK * 4), DType::f32, kExperts * kN, kK);
    }
    if (coded()) quantize();
    bench.op.memory->synchronize(nullptr);
  }

  void ours(void* stream) const {
    if (spec_.product == Product::wgrad)
      return bench_.op.grouped_wgrad({w_, x_, {}, {}, groups_, y_, Output::overwrite}, {nullptr, {}, stream});
    Operand b = Operand::of(w_);
    if (spec_.product == Product::dgrad) b.along = Orientation::columns;
    if (coded())
      return bench_.op.grouped_gemm(
          {spec_.product == Product::w4a16 ? Operand::of(x_) : qx_, groups_, qw_, y_}, exec(stream));
    bench_.op.grouped_gemm({Operand::of(x_), groups_, b, y_}, exec(stream));
  }
  /// The same numbers, one product an expert.
  void theirs(void* stream) const {
    const TensorView &x = coded() && spec_.product != Product::w4a16 ? qx_.decoded : x_,
                     &w = coded() ? decoded_weights_ : w_;
    for (int64_t e = 0; e < kExperts; ++e) {
      const int64_t begin = bounds_[static_cast<size_t>(e)],
                    rows = bounds_[static_cast<size_t>(e) + 1] - begin;
      if (rows == 0) continue;
      const TensorView mine = x.slice_rows(begin, rows);
      if (spec_.product == Product::wgrad) {
        bench_.cublas->multiply_turned(w.slice_rows(begin, rows), mine, y_.slice_rows(e * kN, kN), stream);
      } else {
        bench_.cublas->multiply(mine, w.slice_rows(e * kN, kN), y_.slice_rows(begin, rows), stream,
                                spec_.product == Product::dgrad ? Orientation::columns : Orientation::rows);
      }
    }
  }

  [[nodiscard]] BenchRow measure() const {
    const int count = spec_.rows > 100000 ? 2 : 8;
    cuda::Replay mine([&](int, void* stream) { ours(stream); }, count);
    std::unique_ptr<cuda::Replay> rival;
    if (bench_.cublas != nullptr)
      rival = std::make_unique<cuda::Replay>([&](int, void* stream) { theirs(stream); }, count);
    const Sides sides = alternate(mine, rival.get(), bench_.rounds);
    int64_t used = 0;
    for (size_t e = 0; e < kExperts; ++e) used += bounds_[e] < bounds_[e + 1] ? 1 : 0;
    const int64_t weight_bytes = spec_.product == Product::wgrad ? kExperts * kN * kK * 4
                                 : packed()                      ? used * kN * kK / 16 * 9
                                                                 : used * kN * kK * 2;
    BenchRow row = row_of(spec_.name, sides, bench_.cublas,
                          static_cast<double>(weight_bytes + spec_.rows * (kN + kK) * 2), bench_.copy_rate);
    const double tera = 2e-12 * static_cast<double>(spec_.rows) * kN * kK / spread(sides.ours).median;
    row.problem = fmt::format("{} rows, {} of {} experts of {}x{}, {:.0f} TFLOP/s", spec_.rows, used,
                              kExperts, kN, kK, tera);
    return row;
  }

 private:
  [[nodiscard]] bool packed() const {
    return spec_.product == Product::w4a16 || spec_.product == Product::w4a4;
  }
  [[nodiscard]] bool coded() const { return packed() || spec_.product == Product::w4a4_decoded; }
  [[nodiscard]] Exec exec(void* stream) const {
    return {nullptr, {static_cast<std::byte*>(scratch_), kScratch}, stream};
  }
  void* take(int64_t bytes) {
    memory_.emplace_back(*bench_.op.memory, bytes);
    return memory_.back().data();
  }
  /// `drawn` again and again, `rows` rows in all.
  TensorView repeated(const TensorView& drawn, int64_t rows) {
    const TensorView all(take(rows * drawn.cols * 2), DType::bf16, rows, drawn.cols);
    bench_.op.memory->copy_in(all.data, drawn.data, drawn.size() * 2, nullptr);
    bench_.op.memory->synchronize(nullptr);
    for (int64_t r = drawn.rows; r < rows; r += drawn.rows)
      cuda::copy_kernel(all.row<bf16>(r), all.data, drawn.size() * 2, nullptr);
    return all;
  }
  Operand quantized(const TensorView& x, const GroupBounds& groups, OuterScale outer) {
    const QuantSpec spec{FormatId::nvfp4, outer};
    // An operand of experts has one scale each, for which a place of rows is more than enough.
    const QuantSpec placed{FormatId::nvfp4, OuterScale::row};
    QTensor q = QTensor::place(placed, x.rows, x.cols, take(QTensor::bytes(placed, x.rows, x.cols)));
    q.spec = spec;
    Operand made = Operand::of(q);
    made.decoded = TensorView(take(x.size() * 2), DType::bf16, x.rows, x.cols);
    bench_.op.grouped_quantize({x, groups, Orientation::rows, q, made.decoded}, {});
    return made;
  }
  void quantize() {
    std::vector<int32_t> each;
    for (int64_t e = 0; e <= kExperts; ++e) each.push_back(static_cast<int32_t>(e * kN));
    void* at = take(static_cast<int64_t>(each.size()) * 4);
    bench_.op.memory->copy_in(at, each.data(), static_cast<int64_t>(each.size()) * 4, nullptr);
    bench_.op.memory->synchronize(nullptr);
    qx_ = quantized(x_, groups_, OuterScale::row);
    qw_ = quantized(w_, {static_cast<const int32_t*>(at), kExperts}, OuterScale::expert);
    decoded_weights_ = qw_.decoded;
    if (!packed()) return;
    const int64_t bytes = bench_.op.prepacked_bytes(qw_.q.spec, qw_.q.rows, qw_.q.cols);
    auto* place = static_cast<std::byte*>(take(bytes));
    bench_.op.prepack({qw_.q, {place, static_cast<size_t>(bytes)}}, {});
    qw_.prepacked = place;
    qw_.decoded = {};
  }

  const GroupedBench& bench_;
  const GroupedSpec& spec_;
  std::vector<int32_t> bounds_;
  std::vector<DeviceBytes> memory_;
  TensorView x_, w_, y_;  ///< w: weights, or dy of a weight gradient
  Operand qx_, qw_;
  TensorView decoded_weights_;
  void* offset_ = nullptr;
  void* scratch_ = nullptr;
  GroupBounds groups_;
};

}  // namespace

void bench_grouped(const GroupedBench& bench, const std::regex& filter,
                   const std::function<void(const std::string&)>& progress, std::vector<BenchRow>& rows) {
  for (const GroupedSpec& spec : kSpecs) {
    if (!std::regex_search(spec.name, filter)) continue;
    progress(spec.name);
    rows.push_back(Setting(bench, spec).measure());
  }
}

}  // namespace minite::cli
