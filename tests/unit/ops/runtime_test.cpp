// The public ops: quantize, decode, multiply through include/minite/ops.h alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "minite/error.h"
#include "minite/ops.h"
#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row, Convention::te};
constexpr QuantSpec kMxfp8{FormatId::mxfp8, OuterScale::none, Convention::te};

/// Values of both signs over several powers of two, none of them special.
std::vector<float> ramp(int64_t rows, int64_t cols, float scale) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto step = static_cast<float>((i * 37) % 101) - 50.0f;
    x[i] = step * scale * (i % 7 == 0 ? 8.0f : 1.0f);
  }
  return x;
}

struct Quantized {
  std::vector<uint64_t> memory;
  QTensor q;
  Quantized(const QuantSpec& spec, int64_t rows, int64_t cols)
      : memory(static_cast<size_t>(QTensor::bytes(spec, rows, cols)) / 8 + 16),
        q(QTensor::place(spec, rows, cols, memory.data())) {}
};

TEST(Runtime, NamesItsBackendAndRefusesOthers) {
  EXPECT_EQ(Runtime("ref", 1).backend(), "ref");
  expect_error(ErrorCode::not_found, {"'reff'", "'ref'"}, [] { (void)Runtime("reff"); });
}

TEST(Runtime, DecodedValuesAreNearTheirSource) {
  Runtime runtime("auto", 2);
  std::vector<float> x = ramp(5, 64, 0.03f), y(x.size());
  for (const QuantSpec& spec : {kRow, kMxfp8}) {
    Quantized out(spec, 5, 64);
    quantize(runtime, TensorView(x.data(), 5, 64), out.q);
    dequantize(runtime, out.q, TensorView(y.data(), 5, 64));
    double error = 0, norm = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      error += (x[i] - y[i]) * (x[i] - y[i]);
      norm += x[i] * x[i];
    }
    EXPECT_LT(std::sqrt(error / norm), spec.format == FormatId::nvfp4 ? 0.15 : 0.04) << to_string(spec);
    EXPECT_GT(error, 0) << to_string(spec);
  }
}

TEST(Runtime, TransposedQuantizationIsThatOfTheTranspose) {
  Runtime runtime("auto", 1);
  std::vector<float> x = ramp(32, 48, 0.1f), turned(x.size());
  for (int64_t r = 0; r < 32; ++r) {
    for (int64_t c = 0; c < 48; ++c) turned[c * 32 + r] = x[r * 48 + c];
  }
  Quantized a(kMxfp8, 48, 32), b(kMxfp8, 48, 32);
  quantize_transposed(runtime, TensorView(x.data(), 32, 48), a.q);
  quantize(runtime, TensorView(turned.data(), 48, 32), b.q);
  EXPECT_EQ(std::memcmp(a.q.codes, b.q.codes, 48 * 32), 0);
  EXPECT_EQ(std::memcmp(a.q.block_scales, b.q.block_scales, 48), 0);
}

TEST(Runtime, ProductIsTheOneOfTheDecodedOperands) {
  std::vector<float> x = ramp(7, 64, 0.05f), w = ramp(9, 64, 0.01f), y(7 * 9), y_ref(7 * 9);
  for (const auto& [name, out] : {std::pair{"auto", &y}, {"ref", &y_ref}}) {
    Runtime runtime(name, 2);
    Quantized a(kRow, 7, 64), b(kRow, 9, 64);
    quantize(runtime, TensorView(x.data(), 7, 64), a.q);
    quantize(runtime, TensorView(w.data(), 9, 64), b.q);
    qgemm(runtime, a.q, b.q, TensorView(out->data(), 7, 9));
    std::vector<float> xd(x.size()), wd(w.size());
    dequantize(runtime, a.q, TensorView(xd.data(), 7, 64));
    dequantize(runtime, b.q, TensorView(wd.data(), 9, 64));
    for (int64_t m = 0; m < 7; ++m) {
      for (int64_t n = 0; n < 9; ++n) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < 64; ++k) {
          const double term = static_cast<double>(xd[m * 64 + k]) * wd[n * 64 + k];
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR((*out)[m * 9 + n], sum, 1e-6 * size) << name << " " << m << "," << n;
      }
    }
  }
  EXPECT_EQ(std::memcmp(y.data(), y_ref.data(), y.size() * sizeof(float)), 0);
}

TEST(Runtime, GroupsAreOneProductEach) {
  constexpr int64_t kRows = 7, kN = 9, kK = 64;
  const std::vector<int32_t> offset = {0, 0, 4, 4, 7};
  const std::vector<float> x = ramp(kRows, kK, 0.01f);
  Runtime runtime("auto", 2);
  Quantized a(kRow, kRows, kK);
  std::vector<QTensor> parts, b;
  std::vector<Quantized> weights;
  std::vector<float> whole(kRows * kN), each(kRows * kN);
  for (size_t g = 0; g + 1 < offset.size(); ++g) {
    parts.push_back(a.q.slice_rows(offset[g], offset[g + 1] - offset[g]));
    std::vector<float> w = ramp(kN, kK, 0.02f * static_cast<float>(g + 1));
    weights.emplace_back(kRow, kN, kK);
    quantize(runtime, TensorView(w.data(), kN, kK), weights.back().q);
    b.push_back(weights.back().q);
  }
  const TensorView xs(const_cast<float*>(x.data()), kRows, kK);
  group_quantize(runtime, xs, offset, parts);
  Quantized one(kRow, kRows, kK);
  quantize(runtime, xs, one.q);
  EXPECT_EQ(std::memcmp(a.q.codes, one.q.codes, static_cast<size_t>(kRows * a.q.code_stride())), 0);
  group_qgemm(runtime, a.q, offset, b, TensorView(whole.data(), kRows, kN));
  for (size_t g = 0; g < b.size(); ++g)
    qgemm(runtime, parts[g], b[g], TensorView(each.data() + offset[g] * kN, offset[g + 1] - offset[g], kN));
  EXPECT_EQ(std::memcmp(whole.data(), each.data(), whole.size() * sizeof(float)), 0);

  const TensorView y(whole.data(), kRows, kN);
  expect_error(ErrorCode::invalid_argument, {"group_qgemm", "7 packed rows"}, [&] {
    group_qgemm(runtime, a.q, std::vector<int32_t>{0, 1, 2, 3, 6}, b, y);
  });
  expect_error(ErrorCode::invalid_argument, {"group_qgemm", "group 1", "row 5"}, [&] {
    group_qgemm(runtime, a.q, std::vector<int32_t>{0, 5, 2, 3, 7}, b, y);
  });
  expect_error(ErrorCode::invalid_argument, {"group_qgemm", "b has 4", "3"}, [&] {
    group_qgemm(runtime, xs, std::vector<int32_t>{0, 1, 2, 7}, b, y);
  });
}

/// Weights [E*N,K] in one tensor, and activations in one, give the bits of lists.
TEST(Runtime, PackedGroupsAreTheListsOfTheirParts) {
  constexpr int64_t kRows = 7, kN = 6, kK = 64, kGroups = 4;
  constexpr QuantSpec tensor{FormatId::nvfp4, OuterScale::tensor};
  const std::vector<int32_t> offset = {0, 0, 4, 4, 7};
  std::vector<float> x = ramp(kRows, kK, 0.01f), w = ramp(kGroups * kN, kK, 0.02f);
  const TensorView xs(x.data(), kRows, kK), ws(w.data(), kGroups * kN, kK);
  for (const char* backend : {"ref", "auto"}) {
    Runtime runtime(backend, 2);
    Quantized a(kRow, kRows, kK), whole(kRow, kRows, kK);
    group_quantize(runtime, xs, offset, a.q);
    quantize(runtime, xs, whole.q);
    EXPECT_EQ(std::memcmp(a.q.codes, whole.q.codes, static_cast<size_t>(kRows * a.q.code_stride())), 0);
    EXPECT_EQ(std::memcmp(a.q.outer, whole.q.outer, kRows * sizeof(float)), 0);
    for (const QuantSpec& spec : {kRow, tensor, kMxfp8}) {
      Quantized b(spec, kGroups * kN, kK);
      quantize(runtime, ws, b.q);
      std::vector<QTensor> list;
      for (int64_t g = 0; g < kGroups; ++g) list.push_back(b.q.slice_rows(g * kN, kN));
      std::vector<float> packed(kRows * kN), listed(kRows * kN);
      const auto same = [&](const auto& left) {
        group_qgemm(runtime, left, offset, b.q, TensorView(packed.data(), kRows, kN));
        group_qgemm(runtime, left, offset, list, TensorView(listed.data(), kRows, kN));
        return std::memcmp(packed.data(), listed.data(), packed.size() * sizeof(float)) == 0;
      };
      EXPECT_TRUE(same(a.q)) << backend << " " << to_string(spec);
      EXPECT_TRUE(same(xs)) << backend << " " << to_string(spec);
      std::reverse(list.begin(), list.end());
      EXPECT_FALSE(same(a.q)) << "another order must show";
    }
  }
}

TEST(Runtime, PackedGroupsThatDoNotFitAreRefused) {
  constexpr int64_t kRows = 7, kN = 6, kK = 64, kGroups = 4;
  constexpr QuantSpec tensor{FormatId::nvfp4, OuterScale::tensor},
      expert{FormatId::nvfp4, OuterScale::expert};
  const std::vector<int32_t> offset = {0, 0, 4, 4, 7};
  std::vector<float> x = ramp(kRows, kK, 0.01f);
  const TensorView xs(x.data(), kRows, kK);
  Runtime runtime("auto", 1);
  Quantized a(kRow, kRows, kK), b(kRow, kGroups * kN, kK), scaled(expert, kGroups * kN, kK),
      one(tensor, kRows, kK), shorter(kRow, kRows - 1, kK);
  std::vector<float> out(kRows * kN);
  const TensorView y(out.data(), kRows, kN);
  const std::vector<int32_t> five = {0, 0, 4, 4, 7, 7}, none = {0};
  const auto refuse = [](const std::vector<std::string>& parts, const auto& call) {
    expect_error(ErrorCode::invalid_argument, parts, call);
  };
  refuse({"group_qgemm", "24 rows", "5 groups"}, [&] { group_qgemm(runtime, a.q, five, b.q, y); });
  refuse({"group_qgemm", "no groups"}, [&] { group_qgemm(runtime, xs, none, b.q, y); });
  refuse({"group_qgemm", "outer=expert", "list of 4"},
         [&] { group_qgemm(runtime, a.q, offset, scaled.q, y); });
  refuse({"group_quantize", "outer=tensor", "list"}, [&] { group_quantize(runtime, xs, offset, one.q); });
  refuse({"group_quantize", "6x64", "7x64"}, [&] { group_quantize(runtime, xs, offset, shorter.q); });
}

TEST(Runtime, ShapesThatDoNotFitAreNamed) {
  Runtime runtime("auto", 1);
  std::vector<float> x = ramp(4, 32, 1.0f), y(16);
  Quantized a(kRow, 4, 32), b(kRow, 4, 16);
  expect_error(ErrorCode::invalid_argument, {"4x16", "4x32"},
               [&] { quantize(runtime, TensorView(x.data(), 4, 32), b.q); });
  quantize(runtime, TensorView(x.data(), 4, 32), a.q);
  expect_error(ErrorCode::invalid_argument, {"K=16", "K=32"},
               [&] { qgemm(runtime, a.q, b.q, TensorView(y.data(), 4, 4)); });
}

TEST(Runtime, DescribesItsKernel) {
  Runtime runtime("ref", 1);
  EXPECT_EQ(
      describe_qgemm(runtime, FormatId::nvfp4, FormatId::nvfp4, DType::bf16, 8, 32),
      "ref ref_nvfp4_block_dot: nvfp4 x nvfp4 -> bf16, N=8 K=32, canonical: one rounding a block of 16, row "
      "invariant");
}

TEST(Runtime, SaysWhichKernelQuantizes) {
  Runtime ref("ref", 1), simd("simd", 1);
  const QuantSpec peer{FormatId::nvfp4, OuterScale::tensor, Convention::modelopt};
  EXPECT_EQ(describe_quantize(ref, kRow), "ref ref_quantize: nvfp4[te,outer=row]");
  EXPECT_NE(describe_quantize(simd, kRow).find("quantize_lanes: nvfp4[te,outer=row]"), std::string::npos);
  EXPECT_NE(describe_quantize(simd, peer).find("quantize_reference_rows: nvfp4[modelopt,outer=tensor]"),
            std::string::npos);
  EXPECT_THROW((void)describe_quantize(ref, {FormatId::mxfp8, OuterScale::none, Convention::vllm}), Error);
  EXPECT_THROW((void)describe_quantize(ref, {}), Error);
}

}  // namespace
}  // namespace minite
