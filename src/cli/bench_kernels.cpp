#include "cli/bench_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <regex>
#include <thread>

#include "backends/registry.h"
#include "backends/simd/isa_table.h"
#include "cli/openblas.h"
#include "core/cpu.h"
#include "core/fail.h"
#include "core/memory.h"
#include "core/philox.h"
#include "ops/plan.h"

namespace minite::cli {
namespace {

/// What a row measures.
enum class Job : uint8_t { quantize, w4a4, w4a16, gemv };
/// What its figure is compared with.
enum class Rival : uint8_t { none, sgemm, read_bandwidth, ggml };

struct Spec {
  const char* name;
  Job job;
  Rival rival;
  const char* level;  ///< an instruction set, or "auto"
  int threads;        ///< 0: as the options say
  int64_t m, n, k;
  double must, aim;
};
constexpr Spec kSpecs[] = {
    {"quantize/nvfp4_te_row", Job::quantize, Rival::none, "auto", 1, 4096, 0, 4096, 2, 5},
    {"gemm/w4a4/m64", Job::w4a4, Rival::sgemm, "auto", 0, 64, 4096, 4096, 1.25, 2},
    {"gemm/w4a4/m256", Job::w4a4, Rival::sgemm, "auto", 0, 256, 2048, 2048, 1.25, 2},
    {"gemm/w4a4/m1024", Job::w4a4, Rival::sgemm, "auto", 0, 1024, 1024, 1024, 1.25, 2},
    {"gemm/w4a4_avx2/m256", Job::w4a4, Rival::ggml, "avx2", 0, 256, 2048, 2048, 1.2, 3},
    {"gemm/w4a16/m64", Job::w4a16, Rival::sgemm, "auto", 0, 64, 4096, 4096, 0.85, 0.95},
    {"gemm/w4a16/m256", Job::w4a16, Rival::sgemm, "auto", 0, 256, 2048, 2048, 0.85, 0.95},
    {"gemv/w4a16/m1", Job::gemv, Rival::read_bandwidth, "auto", 0, 1, 16384, 8192, 0.60, 0.75},
    {"gemv/w4a16/m4", Job::gemv, Rival::read_bandwidth, "auto", 0, 4, 16384, 8192, 0, 0},
};

/// OpenBLAS's threads spin for a while after a product and would take cores from what follows.
constexpr std::chrono::milliseconds kRivalSettles{400};

constexpr QuantSpec kNvfp4{FormatId::nvfp4, OuterScale::row};
constexpr double kPackedBytes = 0.5 + 1.0 / 16;  ///< an NVFP4 element

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
/// What a body takes: wall time, or with one thread the time that the thread was given, so that a shared
/// machine counts less.
double seconds(const std::function<void()>& body, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double begin = now(clock);
  body();
  return now(clock) - begin;
}

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

/// Normal values in bf16: a million drawn, then repeated out of step with the rows. Activations have one row
/// in 64 that is 30 times larger, as outlier tokens are.
struct Matrix {
  Buffer memory;
  TensorView view;
  Matrix(int64_t rows, int64_t cols, double scale, uint64_t seed, bool outliers)
      : memory(rows * cols * 2), view(memory.data(), DType::bf16, rows, cols) {
    constexpr int64_t kDrawn = 1000003;
    std::vector<double> drawn(static_cast<size_t>(std::min(rows * cols, kDrawn)));
    for (size_t i = 0; i < drawn.size(); ++i) {
      const auto w = Philox::generate(seed, i, 0);
      const double u = (w[0] + 0.5) * 0x1p-32, v = w[1] * 0x1p-32;
      drawn[i] = scale * std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
    }
    for (int64_t i = 0; i < rows * cols; ++i) {
      const double row_scale = outliers && (i / cols) % 64 == 0 ? 30.0 : 1.0;
      view.as<bf16>()[i] = bf16(static_cast<float>(row_scale * drawn[static_cast<size_t>(i) % drawn.size()]));
    }
  }
  [[nodiscard]] std::vector<float> widened() const {
    return {view.as<const bf16>(), view.as<const bf16>() + view.size()};
  }
};

/// Memory that is read for the bandwidth: far larger than any cache.
class ReadProbe {
 public:
  explicit ReadProbe(ThreadPool& pool) : pool_(pool), data_(int64_t{256} << 20) {
    auto* words = reinterpret_cast<uint64_t*>(data_.data());
    for (int64_t i = 0; i < data_.size() / 8; ++i) words[i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
  }
  /// GB/s of one pass by all threads.
  double operator()() {
    constexpr int64_t kPiece = 1 << 20;
    const double time = seconds(
        [&] {
          pool_.parallel_for(data_.size() / kPiece, [&](int64_t task, int) {
            const auto* p = reinterpret_cast<const uint64_t*>(data_.data() + task * kPiece);
            uint64_t sum[8] = {};
            for (int64_t i = 0; i < kPiece / 8; i += 8) {
              for (int j = 0; j < 8; ++j) sum[j] += p[i + j];
            }
            sink_ = sink_ + (sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7]);
          });
        },
        pool_.threads());
    return static_cast<double>(data_.size()) * 1e-9 / time;
  }

 private:
  ThreadPool& pool_;
  Buffer data_;
  std::atomic<uint64_t> sink_{0};
};

/// One row's operands and the bodies that are timed.
class Bench {
 public:
  Bench(const Spec& spec, const OpTable& table, int threads, const OpenBlas* blas)
      : spec_(spec), table_(table), pool_(threads), blas_(blas), x_(spec.m, spec.k, 1.0, 1, true) {
    place(spec.m, codes_x_, x_q_);
    const Exec exec{&pool_, {}};
    table.quantize({x_.view, Orientation::rows, x_q_}, exec);
    if (spec.job == Job::quantize) return;
    const Matrix w(spec.n, spec.k, 0.02, 2, false);
    place(spec.n, codes_w_, w_q_);
    table.quantize({w.view, Orientation::rows, w_q_}, exec);
    y_ = Buffer(spec.m * spec.n * 2);
    args_.a = spec.job == Job::w4a4 ? Operand::of(x_q_) : Operand::of(x_.view);
    args_.b = Operand::of(w_q_);
    args_.y = TensorView(y_.data(), DType::bf16, spec.m, spec.n);
    const GemmPlan plan =
        plan_gemm(table, {args_.a.format(), args_.b.format(), DType::bf16, spec.n, spec.k}, {}, spec.name);
    scratch_ = Buffer(plan.scratch(spec.m, threads));
    kernel_ = plan.support.kernel;
    if (blas == nullptr || spec.rival != Rival::sgemm) return;
    x_wide_ = x_.widened();
    w_wide_ = w.widened();
    y_wide_.resize(static_cast<size_t>(spec.m * spec.n));
  }

  void ours() {
    if (spec_.job == Job::quantize) return table_.quantize({x_.view, Orientation::rows, x_q_}, {&pool_, {}});
    table_.gemm(args_, {&pool_, {scratch_.data(), static_cast<size_t>(scratch_.size())}});
  }
  void theirs() { blas_->sgemm(spec_.m, spec_.n, spec_.k, x_wide_.data(), w_wide_.data(), y_wide_.data()); }

  [[nodiscard]] int threads() const { return pool_.threads(); }
  /// Work of one call: elements, operations or packed bytes, in units of 1e9.
  [[nodiscard]] double work() const {
    const auto m = static_cast<double>(spec_.m), n = static_cast<double>(spec_.n),
               k = static_cast<double>(spec_.k);
    if (spec_.job == Job::quantize) return 1e-9 * m * k;
    return spec_.job == Job::gemv ? 1e-9 * n * k * kPackedBytes : 2e-9 * m * n * k;
  }
  /// Bytes that one call must move from or to memory, in units of 1e9; 0 when arithmetic bounds it.
  [[nodiscard]] double bytes() const {
    const auto size = static_cast<double>(spec_.m * spec_.k);
    if (spec_.job == Job::quantize) return 1e-9 * size * (2 + kPackedBytes);
    return spec_.job == Job::gemv ? work() : 0;
  }
  [[nodiscard]] std::string problem() const {
    return spec_.job == Job::quantize
               ? fmt::format("{}x{} bf16, {} thread(s)", spec_.m, spec_.k, pool_.threads())
               : fmt::format("M={} N={} K={}, {} {}, {} thread(s)", spec_.m, spec_.n, spec_.k, table_.name,
                             kernel_, pool_.threads());
  }

 private:
  void place(int64_t rows, Buffer& memory, QTensor& q) const {
    memory = Buffer(QTensor::bytes(kNvfp4, rows, spec_.k));
    q = QTensor::place(kNvfp4, rows, spec_.k, memory.data());
  }

  const Spec& spec_;
  const OpTable& table_;
  ThreadPool pool_;
  const OpenBlas* blas_;
  Matrix x_;
  Buffer codes_x_, codes_w_, y_, scratch_;
  QTensor x_q_, w_q_;
  GemmArgs args_;
  std::string kernel_;
  std::vector<float> x_wide_, w_wide_, y_wide_;
};

/// Calls that fill a twentieth of a second.
int calls_for(const std::function<void()>& body, int threads) {
  body();
  const double once = seconds(body, threads);
  return std::clamp(static_cast<int>(0.05 / std::max(once, 1e-7)), 1, 100000);
}
double rate(const std::function<void()>& body, int calls, double work, int threads) {
  return work * calls /
         seconds(
             [&] {
               for (int i = 0; i < calls; ++i) body();
             },
             threads);
}

const char* unit_of(Job job) {
  if (job == Job::quantize) return "G elements/s";
  return job == Job::gemv ? "GB/s of packed weights" : "GFLOP/s";
}

BenchRow measure(const Spec& spec, Bench& bench, const OpenBlas* blas, ReadProbe& probe, int rounds,
                 std::vector<double>& reads) {
  BenchRow row;
  row.name = spec.name;
  row.problem = bench.problem();
  row.unit = unit_of(spec.job);
  row.must = spec.must;
  row.aim = spec.aim;
  const bool rival = spec.rival == Rival::sgemm && blas != nullptr;
  row.against = spec.rival == Rival::none             ? "-"
                : spec.rival == Rival::read_bandwidth ? "read bandwidth"
                : rival                               ? blas->name() + " sgemm"
                                                      : "absent";
  const int threads = bench.threads();
  const auto ours = [&] { bench.ours(); };
  const auto theirs = [&] { bench.theirs(); };
  const int our_calls = calls_for(ours, threads), their_calls = rival ? calls_for(theirs, threads) : 0;
  if (rival) std::this_thread::sleep_for(kRivalSettles);
  std::vector<double> mine, other, ratio, share;
  for (int round = 0; round < rounds; ++round) {
    const double read = probe();
    reads.push_back(read);
    mine.push_back(rate(ours, our_calls, bench.work(), threads));
    if (rival) {
      other.push_back(rate(theirs, their_calls, bench.work(), threads));
      std::this_thread::sleep_for(kRivalSettles);
    }
    if (spec.rival == Rival::read_bandwidth) other.push_back(read);
    ratio.push_back(spec.rival == Rival::none ? mine.back() : other.empty() ? 0 : mine.back() / other.back());
    share.push_back(mine.back() / bench.work() * bench.bytes() / read);
  }
  row.ours = spread(mine);
  row.theirs = spread(other);
  if (row.measured()) row.ratio = spread(ratio);
  row.ceiling = spread(share).median;
  return row;
}

const OpTable& table_of(const Spec& spec) {
  return spec.level == std::string_view("avx2") ? simd::avx2::table() : backend("auto");
}

std::vector<Spec> chosen(const std::string& filter) {
  std::vector<Spec> specs;
  try {
    const std::regex expression(filter);
    for (const Spec& spec : kSpecs) {
      if (std::regex_search(spec.name, expression)) specs.push_back(spec);
    }
  } catch (const std::regex_error& error) {
    fail(ErrorCode::invalid_argument, "--filter {}: not a regular expression ({})", filter, error.what());
  }
  if (specs.empty()) {
    fail(ErrorCode::invalid_argument, "--filter {}: no kernel has such a name; names look like {}", filter,
         kSpecs[1].name);
  }
  return specs;
}

}  // namespace

BenchTable bench_kernels(const BenchOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  require(options.rounds >= 1, "--rounds {}: at least 1", options.rounds);
  const std::vector<Spec> specs = chosen(options.filter);
  BenchTable table;
  table.threads = options.threads == 0 ? cpu_info().hardware_threads : options.threads;
  table.backend = backend("auto").name;
  ThreadPool pool(table.threads);
  ReadProbe probe(pool);
  const std::unique_ptr<OpenBlas> blas = OpenBlas::open(table.threads);
  table.rival = blas == nullptr ? "absent" : blas->name();
  std::vector<double> reads;
  for (const Spec& spec : specs) {
    if (spec.level == std::string_view("avx2") && !has_simd(cpu_info(), SimdLevel::avx2)) continue;
    progress(spec.name);
    Bench bench(spec, table_of(spec), spec.threads == 0 ? table.threads : spec.threads, blas.get());
    table.rows.push_back(measure(spec, bench, blas.get(), probe, options.rounds, reads));
  }
  table.read_gbs = spread(reads);
  if (blas == nullptr)
    table.notes.push_back("OpenBLAS is not installed (Debian: libopenblas0): its rows have no ratio");
  if (blas != nullptr && blas->core() == "Haswell" && has_simd(cpu_info(), SimdLevel::avx512))
    table.notes.push_back(
        "OpenBLAS runs its Haswell kernels on a processor with AVX-512; unset OPENBLAS_CORETYPE");
  if (table.read_gbs.most > 1.3 * table.read_gbs.least)
    table.notes.push_back("memory bandwidth drifted by more than 30 %: other work shares this machine");
  return table;
}

}  // namespace minite::cli
