// Products on the tensor cores: within bounds of FP64, and the same bits for a row alone or among others,
// from codes or from decoded values, by the kernel for few rows or the one for many. Skipped without a
// device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/cuda.h"
#include "backends/ref/table.h"
#include "conformance/device_workspace.h"
#include "conformance/workspace.h"
#include "minite/error.h"

namespace minite::conformance {
namespace {

using Values = std::vector<float>;

/// One operand on host and device.
struct Matrix {
  QTensor host;           ///< codes, or
  TensorView host_dense;  ///< values
  Operand device;
};

class CudaGemm : public testing::Test {
 protected:
  void SetUp() override {
    const Backend backend = cuda::backend();
    if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
    op_ = backend.table;
    device_ = std::make_unique<DeviceWorkspace>(*op_);
  }

  Matrix quantized(const char* name, const QuantSpec& spec, int64_t rows, int64_t cols,
                   Fill fill = Fill::normal) {
    const TensorView x = space_.input(name, DType::bf16, rows, cols, fill);
    Matrix m;
    m.host = space_.codes(name, spec, rows, cols);
    ref::table().quantize({x, Orientation::rows, m.host}, {});
    m.device = Operand::of(device_->upload(m.host));
    return m;
  }
  Matrix dense(const char* name, int64_t rows, int64_t cols, Orientation along = Orientation::rows,
               int64_t extra = 0, Fill fill = Fill::normal) {
    const bool by_rows = along == Orientation::rows;
    Matrix m;
    m.host_dense = space_.input(name, DType::bf16, by_rows ? rows : cols, by_rows ? cols : rows, fill, extra);
    m.device = Operand::of(device_->upload(m.host_dense), along);
    return m;
  }
  /// The operand with its decoded values beside the codes.
  Operand with_decoded(const Matrix& m) {
    Operand x = m.device;
    x.decoded = device_->output(DType::bf16, m.host.rows, (m.host.cols + 7) / 8 * 8);
    x.decoded.cols = m.host.cols;
    op_->dequantize({x.q, x.decoded, Multiplier::block}, {});
    return x;
  }
  /// The operand with its prepacked form beside the codes.
  Operand with_prepacked(const Matrix& m) {
    Operand x = m.device;
    const int64_t bytes = op_->prepacked_bytes(x.q.spec, x.q.rows, x.q.cols);
    EXPECT_GT(bytes, 0);
    const TensorView place = device_->output(DType::u8, 1, bytes);
    op_->prepack({x.q, {static_cast<std::byte*>(place.data), static_cast<size_t>(bytes)}}, {});
    x.prepacked = static_cast<const std::byte*>(place.data);
    return x;
  }
  static Operand first_rows(const Operand& x, int64_t begin, int64_t count) {
    Operand part = x;
    if (x.quantized()) {
      part.q = x.q.slice_rows(begin, count);
      if (!x.decoded.empty()) part.decoded = x.decoded.slice_rows(begin, count);
    } else if (x.along == Orientation::rows) {
      part.dense = x.dense.slice_rows(begin, count);
    } else {
      part.dense = TensorView(x.dense.as<bf16>() + begin, DType::bf16, x.dense.rows, count, x.dense.stride);
    }
    return part;
  }

  /// y as FP32, after one product with poisoned output and scratch. Checks that nothing else was written.
  Values multiply(GemmArgs args, DType y = DType::f32) {
    const int64_t m = args.a.rows(), n = args.b.rows(), k = args.a.depth();
    const GemmProblem problem{args.a.format(), args.b.format(), y, n, k, args.epilogue, args.order};
    const Support support = op_->supports_gemm(problem);
    EXPECT_TRUE(support.ok) << support.reason;
    if (args.y.empty()) args.y = device_->output(y, m, n, 8);
    const Exec exec{nullptr, device_->scratch(op_->gemm_scratch(problem, m, 1)), nullptr};
    op_->gemm(args, exec);
    op_->memory->synchronize(nullptr);
    device_->expect_intact();
    return device_->values(args.y);
  }

  const OpTable* op_ = nullptr;
  std::unique_ptr<DeviceWorkspace> device_;
  Workspace space_{20240607};
};

constexpr QuantSpec nvfp4(OuterScale outer) { return {FormatId::nvfp4, outer}; }

/// Values without the outer scale, as the tensor cores see them.
std::vector<double> seen(const Matrix& m, int64_t rows, int64_t k) {
  std::vector<double> x(static_cast<size_t>(rows * k));
  std::vector<bf16> decoded(static_cast<size_t>(rows * k));
  if (!m.host.empty())
    ref::table().dequantize({m.host, TensorView(decoded.data(), rows, k), Multiplier::block}, {});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < k; ++c) {
      const auto at = static_cast<size_t>(r * k + c);
      const bool turned = m.device.along == Orientation::columns;
      x[at] = static_cast<double>(static_cast<float>(!m.host.empty() ? decoded[at]
                                                     : turned        ? m.host_dense.row<bf16>(c)[r]
                                                                     : m.host_dense.row<bf16>(r)[c]));
    }
  }
  return x;
}
double outer_of(const Matrix& m, int64_t row) {
  return m.host.empty() ? 1.0 : static_cast<double>(m.host.outer_of(row));
}

/// |y - exact| against the bound of FP32 chains: every partial sum of K products rounds, or is cut, by at
/// most 2^-22 of the sum of magnitudes; the epilogue rounds three times more.
void expect_close(const Values& y, const Matrix& a, const Matrix& b, int64_t m, int64_t n, int64_t k) {
  const std::vector<double> x = seen(a, m, k), w = seen(b, n, k);
  int64_t bad = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0, magnitude = 0;
      for (int64_t c = 0; c < k; ++c) {
        const double p = x[static_cast<size_t>(i * k + c)] * w[static_cast<size_t>(j * k + c)];
        sum += p;
        magnitude += std::fabs(p);
      }
      const double scale = outer_of(a, i) * outer_of(b, j);
      const double bound = (std::sqrt(static_cast<double>(k)) + 4) * 0x1p-22 * magnitude * scale + 1e-37;
      const double error = std::fabs(static_cast<double>(y[static_cast<size_t>(i * n + j)]) - sum * scale);
      if (error <= bound) continue;
      if (++bad <= 3)
        ADD_FAILURE() << fmt::format("[{}, {}]: {} instead of {}, bound {}", i, j,
                                     y[static_cast<size_t>(i * n + j)], sum * scale, bound);
    }
  }
  EXPECT_EQ(bad, 0) << m << "x" << n << "x" << k;
}

std::string first_difference(const Values& x, const Values& y) {
  if (x.size() != y.size()) return "sizes";
  int64_t count = 0, first = -1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::bit_cast<uint32_t>(x[i]) == std::bit_cast<uint32_t>(y[i])) continue;
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (first < 0) first = static_cast<int64_t>(i);
    ++count;
  }
  if (count == 0) return {};
  return fmt::format("{} of {} differ, first {}: {:.9g} and {:.9g}", count, x.size(), first,
                     x[static_cast<size_t>(first)], y[static_cast<size_t>(first)]);
}

struct Size {
  int64_t m, n, k;
};
constexpr Size kSizes[] = {{1, 16, 128},    {5, 33, 272},     {17, 1, 64},      {64, 256, 512},
                           {65, 200, 100},  {128, 192, 1024}, {129, 385, 1152}, {300, 130, 2176},
                           {3, 520, 2100},  {1, 8200, 256},   {70, 8192, 192},  {200, 8300, 320},
                           {90, 140, 2112}, {33, 64, 1}};

TEST_F(CudaGemm, IsCloseToFp64) {
  for (const auto& [m, n, k] : kSizes) {
    const Matrix a4 = quantized("a4", nvfp4(OuterScale::row), m, k),
                 b4 = quantized("b4", nvfp4(OuterScale::tensor), n, k);
    const Matrix a16 = dense("a16", m, k), b16 = dense("b16", n, k);
    const Matrix a8 = quantized("a8", {FormatId::mxfp8}, m, k), b8 = quantized("b8", {FormatId::mxfp8}, n, k);
    for (const auto& [a, b] :
         {std::pair{&a4, &b4}, {&a16, &b4}, {&a4, &b16}, {&a16, &b16}, {&a8, &b8}, {&a8, &b4}})
      expect_close(multiply({a->device, b->device, {}, {}}), *a, *b, m, n, k);
  }
}

TEST_F(CudaGemm, OperandsMayBeTransposed) {
  using enum Orientation;
  for (const auto& [m, n, k] : kSizes) {
    for (const auto& [x, w] : {std::pair{rows, columns}, {columns, rows}, {columns, columns}}) {
      const Matrix a = dense("a", m, k, x), b = dense("b", n, k, w);
      expect_close(multiply({a.device, b.device, {}, {}}), a, b, m, n, k);
      // The same values the other way round have the same bits.
      Matrix a2 = dense("a2", m, k), b2 = dense("b2", n, k);
      for (const auto& [from, to, count] : {std::tuple{&a, &a2, m}, {&b, &b2, n}}) {
        const std::vector<double> v = seen(*from, count, k);
        for (int64_t r = 0; r < count; ++r)
          for (int64_t c = 0; c < k; ++c)
            to->host_dense.row<bf16>(r)[c] = bf16(static_cast<float>(v[static_cast<size_t>(r * k + c)]));
        to->device = Operand::of(device_->upload(to->host_dense));
      }
      EXPECT_EQ(
          first_difference(multiply({a.device, b.device, {}, {}}), multiply({a2.device, b2.device, {}, {}})),
          "")
          << m << "x" << n << "x" << k;
    }
  }
}

struct Weight {
  int64_t n, k;
};
/// One shape of weights a case, so that shards share them.
class CudaGemmRows : public CudaGemm, public testing::WithParamInterface<Weight> {};
INSTANTIATE_TEST_SUITE_P(Shapes, CudaGemmRows,
                         testing::Values(Weight{48, 512}, Weight{130, 1152}, Weight{200, 3072},
                                         Weight{8208, 384}, Weight{136, 1088}, Weight{72, 9728},
                                         Weight{40, 1040}),
                         [](const auto& w) { return fmt::format("{}x{}", w.param.n, w.param.k); });

/// The rows of a large product are those of every smaller one, down to a row alone.
TEST_P(CudaGemmRows, ARowsBitsDependOnThatRowAlone) {
  constexpr int64_t kRows = 300;
  const auto [n, k] = GetParam();
  for (const Fill fill : {Fill::normal, Fill::ties}) {
    const Matrix weights = quantized("w", nvfp4(OuterScale::tensor), n, k, fill);
    const Matrix a4 = quantized("a4", nvfp4(OuterScale::row), kRows, k, fill),
                 a16 = dense("a16", kRows, k, Orientation::rows, 0, fill);
    for (const Operand& a : {a4.device, a16.device, with_decoded(a4)}) {
      const Values all = multiply({a, with_decoded(weights), {}, {}});
      const Operand prepacked = with_prepacked(weights);
      ASSERT_EQ(first_difference(all, multiply({a, prepacked, {}, {}})), "");
      for (const int64_t count : {1, 2, 7, 8, 9, 16, 17, 31, 33, 63, 64, 65, 128, 129}) {
        for (const int64_t begin : {int64_t{0}, kRows - count}) {
          const Values expected(all.begin() + begin * n, all.begin() + (begin + count) * n);
          const Operand rows = first_rows(a, begin, count);
          for (const Operand& w : {prepacked, begin == 0 ? weights.device : prepacked})
            ASSERT_EQ(first_difference(expected, multiply({rows, w, {}, {}})), "")
                << "rows " << begin << " + " << count << (w.prepacked == nullptr ? "" : ", prepacked");
        }
      }
    }
  }
}

TEST_F(CudaGemm, CodesAndDecodedValuesGiveTheSameBits) {
  for (const auto& [m, n, k] : kSizes) {
    const Matrix a = quantized("a", nvfp4(OuterScale::row), m, k),
                 b = quantized("b", nvfp4(OuterScale::tensor), n, k);
    const Values packed = multiply({a.device, b.device, {}, {}});
    EXPECT_EQ(first_difference(packed, multiply({with_decoded(a), with_decoded(b), {}, {}})), "")
        << m << "x" << n << "x" << k;
    EXPECT_EQ(first_difference(packed, multiply({with_decoded(a), b.device, {}, {}})), "")
        << m << "x" << n << "x" << k;
    EXPECT_EQ(first_difference(packed, multiply({with_decoded(a), with_prepacked(b), {}, {}})), "")
        << m << "x" << n << "x" << k;
  }
}

/// Every scale byte with every code: token i is 1 at k = begin + i and 0 elsewhere, so that y is w. Few rows,
/// prepacked weights and decoded ones, each by its kernel and every size of it.
TEST_F(CudaGemm, EveryScaleAndCodeIsExact) {
  constexpr int64_t kN = 256, kK = 256;
  struct Way {
    int64_t tokens;
    bool decoded;
  };
  for (const Convention convention : {Convention::te, Convention::ggml}) {
    Matrix w;
    w.host = space_.codes("w", {.format = FormatId::nvfp4, .convention = convention}, kN, kK);
    for (int64_t n = 0; n < kN; ++n) {
      for (int64_t i = 0; i < kK / 2; ++i)  // all 16 codes in each block
        w.host.codes[n * kK / 2 + i] = static_cast<uint8_t>((2 * i % 16) | ((2 * i + 1) % 16) << 4);
      for (int64_t i = 0; i < kK / 16; ++i)
        w.host.block_scales[n * kK / 16 + i] = static_cast<uint8_t>(n + 16 * i);
    }
    w.device = Operand::of(device_->upload(w.host));
    std::vector<float> expected(kN * kK);
    ref::table().dequantize({w.host, TensorView(expected.data(), kN, kK), Multiplier::block}, {});
    for (const Way& way :
         {Way{8, false}, Way{16, false}, Way{32, false}, Way{64, false}, Way{128, false}, Way{128, true}}) {
      if (way.decoded && convention == Convention::ggml) continue;  // dequantize does not know it
      const Operand weights = way.decoded ? with_decoded(w) : with_prepacked(w);
      for (int64_t begin = 0; begin < kK; begin += way.tokens) {
        Matrix x = dense("x", way.tokens, kK);
        for (int64_t i = 0; i < way.tokens; ++i)
          for (int64_t k = 0; k < kK; ++k) x.host_dense.row<bf16>(i)[k] = bf16(k == begin + i ? 1.0f : 0.0f);
        x.device = Operand::of(device_->upload(x.host_dense));
        const Values y = multiply({x.device, weights, {}, {}});
        int64_t bad = 0;
        for (int64_t i = 0; i < way.tokens; ++i) {
          for (int64_t n = 0; n < kN; ++n) {
            // A NaN anywhere in a weight row reaches every token, as 0 * NaN.
            bool nan = false;
            for (int64_t c = 0; c < kK; ++c) nan |= std::isnan(expected[static_cast<size_t>(n * kK + c)]);
            const float want = expected[static_cast<size_t>(n * kK + begin + i)],
                        got = y[static_cast<size_t>(i * kN + n)];
            bad += nan ? !std::isnan(got) : got != want;
          }
        }
        EXPECT_EQ(bad, 0) << to_string(convention) << ", " << way.tokens << " tokens from " << begin;
      }
    }
  }
}

TEST_F(CudaGemm, EpiloguesFollowTheReference) {
  // K = 16 and small integers: the sum is exact, so that every rounding is the epilogue's.
  for (const int64_t m : {3, 70}) {
    const int64_t n = 40, k = 128;
    const Matrix a = quantized("a", nvfp4(OuterScale::row), m, k, Fill::sparse),
                 b = quantized("b", nvfp4(OuterScale::row), n, k, Fill::sparse);
    const TensorView bias = space_.input("bias", DType::f32, 1, n);
    const TensorView device_bias = device_->upload(bias);
    for (const DType y : {DType::f32, DType::bf16}) {
      for (const Epilogue epilogue : {Epilogue::minite, Epilogue::te}) {
        for (const bool with_bias : {false, true}) {
          for (const Output output : {Output::overwrite, Output::accumulate}) {
            for (const int64_t extra : {0, 3, 8}) {
              const TensorView old = space_.input("y", y, m, n, Fill::normal, extra);
              GemmArgs args{a.device, b.device, with_bias ? device_bias : TensorView{}, device_->upload(old),
                            output,   epilogue};
              const Values fast = multiply(args, y);
              args.y = device_->upload(old);
              args.order = SumOrder::canonical;
              EXPECT_EQ(first_difference(multiply(args, y), fast), "") << m << ", extra " << extra;
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaGemm, RepeatsToTheBit) {
  for (const auto& [m, n, k] : {Size{4, 640, 4096}, Size{150, 520, 2304}, Size{256, 8192, 512}}) {
    const Matrix a = quantized("a", nvfp4(OuterScale::row), m, k),
                 b = quantized("b", nvfp4(OuterScale::tensor), n, k);
    const Values first = multiply({a.device, b.device, {}, {}});
    for (int i = 0; i < 30; ++i)
      ASSERT_EQ(first_difference(first, multiply({a.device, b.device, {}, {}})), "");
  }
}

TEST_F(CudaGemm, RefusesWithASentenceWhatItCannotRead) {
  const Matrix a = dense("a", 8, 64, Orientation::rows, 3), b = dense("b", 16, 64);
  const GemmArgs args{a.device, b.device, {}, device_->output(DType::f32, 8, 16)};
  try {
    op_->gemm(args, {nullptr, {}, nullptr});
    FAIL() << "rows 67 elements apart were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("67 elements apart"), std::string::npos) << error.what();
  }
  const Matrix simulated = [&] {
    Matrix m;
    m.host = space_.codes("sim", {FormatId::sim_e2m3}, 16, 64);
    m.device = Operand::of(device_->upload(m.host));
    return m;
  }();
  EXPECT_THROW(op_->gemm({b.device, simulated.device, {}, args.y}, {nullptr, {}, nullptr}), Error);
  EXPECT_FALSE(op_->supports_gemm({FormatId::sim_e2m3, FormatId::bf16, DType::f32, 16, 64}).ok);
  device_->expect_intact();
}

}  // namespace
}  // namespace minite::conformance
