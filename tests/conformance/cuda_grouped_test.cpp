// Products by group with bounds on the device: the bits of gemm() of each group alone, whatever the bounds
// are, again and again and from one captured graph. Skipped without a device.
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/cuda/cuda.h"
#include "conformance/device_workspace.h"
#include "conformance/workspace.h"
#include "core/fail.h"
#include "minite/error.h"

namespace minite::conformance {
namespace {

using Values = std::vector<float>;
using Bounds = std::vector<int32_t>;

constexpr int64_t kPast = 9;  ///< rows of no group

constexpr QuantSpec kBf16{FormatId::bf16}, kMxfp8{FormatId::mxfp8}, kRow{FormatId::nvfp4, OuterScale::row},
    kTensor{FormatId::nvfp4, OuterScale::tensor}, kExpert{FormatId::nvfp4, OuterScale::expert};

/// "" or the first bits that differ.
std::string difference(const Values& want, const Values& got) {
  if (want.size() != got.size()) return "sizes";
  int64_t count = 0, first = -1;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::bit_cast<uint32_t>(want[i]) == std::bit_cast<uint32_t>(got[i])) continue;
    if (count++ == 0) first = static_cast<int64_t>(i);
  }
  if (count == 0) return {};
  return fmt::format("{} of {} differ, first {}: {:.9g} and {:.9g}", count, want.size(), first,
                     want[static_cast<size_t>(first)], got[static_cast<size_t>(first)]);
}

/// 128 experts: most get a few tokens, some none, some hundreds.
Bounds skewed() {
  Bounds bounds = {0};
  for (int32_t e = 0; e < 128; ++e) {
    const int32_t rows = e % 7 == 3 ? 0 : e % 31 == 5 ? 417 : e % 11 == 0 ? 130 : 1 + e * 5 % 23;
    bounds.push_back(bounds.back() + rows);
  }
  return bounds;
}
const std::vector<Bounds> kGroups = {
    {0, 0, 1, 1, 258, 261}, {0, 0, 0, 0}, {0, 0, 700, 700}, {0, 64, 192, 256}};

class CudaGrouped : public testing::Test {
 protected:
  void SetUp() override {
    const Backend backend = cuda::backend();
    if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
    op_ = backend.table;
    device_ = std::make_unique<DeviceWorkspace>(*op_);
  }
  GroupBounds upload(const Bounds& bounds) {
    Bounds copy = bounds;
    const TensorView at = device_->upload(TensorView(copy.data(), 1, static_cast<int64_t>(copy.size())));
    return {at.as<const int32_t>(), static_cast<int64_t>(bounds.size()) - 1};
  }
  TensorView random(DType dtype, int64_t rows, int64_t cols, int64_t extra = 0, Fill fill = Fill::normal) {
    return device_->upload(space_.input("x", dtype, rows, cols, fill, extra));
  }
  /// BF16, or codes made on the device, with decoded values beside them.
  Operand operand(const QuantSpec& spec, int64_t rows, int64_t k, const GroupBounds& groups, bool decoded) {
    const TensorView x = random(DType::bf16, rows, k, (8 - k % 8) % 8);
    if (!spec.quantized()) return Operand::of(x);
    QTensor q;
    q.spec = spec;
    q.rows = rows;
    q.cols = k;
    q.codes = device_->output(DType::u8, rows, q.code_stride()).as<uint8_t>();
    q.block_scales = device_->output(DType::u8, rows, q.scale_stride()).as<uint8_t>();
    const int64_t outer = spec.outer == OuterScale::expert ? groups.count : q.outer_count();
    if (outer > 0) {
      q.outer = device_->output(DType::f32, 1, outer).as<float>();
      q.amax = device_->output(DType::f32, 1, outer).as<float>();
    }
    if (spec.outer == OuterScale::expert) {
      op_->grouped_quantize({x, groups, Orientation::rows, q}, {});
    } else {
      op_->quantize({x, Orientation::rows, q}, {});
    }
    Operand made = Operand::of(q);
    if (decoded) {
      made.decoded = device_->output(DType::bf16, rows, k, (8 - k % 8) % 8);
      op_->dequantize({q, made.decoded, Multiplier::block}, {});
    }
    return made;
  }
  /// Weights of E experts.
  Operand weights(const QuantSpec& spec, int64_t experts, int64_t n, int64_t k, bool decoded) {
    Bounds each;
    for (int64_t e = 0; e <= experts; ++e) each.push_back(static_cast<int32_t>(e * n));
    return operand(spec, experts * n, k, upload(each), decoded);
  }
  Exec exec(int64_t scratch, void* stream = nullptr) { return {nullptr, device_->scratch(scratch), stream}; }
  int64_t scratch(const GroupedGemmArgs& args) const {
    const GemmProblem p{args.a.format(), args.b.format(), args.y.dtype, args.y.cols, args.a.depth()};
    return std::max(op_->grouped_scratch(p, args.y.rows, args.groups.count, 1),
                    op_->gemm_scratch(p, args.y.rows, 1));
  }
  Values run(const GroupedGemmArgs& args) {
    op_->grouped_gemm(args, exec(scratch(args)));
    op_->memory->synchronize(nullptr);
    device_->expect_intact();
    return device_->values(args.y);
  }
  /// The same by one gemm() a group.
  Values expected(GroupedGemmArgs args, const Bounds& bounds, int64_t extra) {
    args.y = device_->output(args.y.dtype, args.y.rows, args.y.cols, extra);
    const Exec one = exec(scratch(args));
    for (size_t g = 0; g + 1 < bounds.size(); ++g) {
      const int64_t begin = bounds[g], rows = bounds[g + 1] - begin;
      if (rows > 0) op_->gemm(group_of(args, {static_cast<int64_t>(g), begin, rows}), one);
    }
    op_->memory->synchronize(nullptr);
    return device_->values(args.y);
  }
  void expect_gemm(const QuantSpec& a, const QuantSpec& b, const Bounds& bounds, int64_t n, int64_t k,
                   DType y, int64_t extra, bool decoded) {
    const GroupBounds groups = upload(bounds);
    const int64_t rows = bounds.back() + kPast;
    GroupedGemmArgs args{operand(a, rows, k, groups, decoded), groups,
                         weights(b, groups.count, n, k, decoded), device_->output(y, rows, n, extra)};
    EXPECT_EQ(difference(expected(args, bounds, extra), run(args)), "")
        << to_string(a) << " x " << to_string(b) << (decoded ? ", decoded" : "") << ", N=" << n << " K=" << k
        << ", " << groups.count << " groups of " << bounds.back() << " rows, extra " << extra;
    device_->clear();
  }

  /// Weights in their prepacked form alone beside the codes.
  void expect_prepacked(const QuantSpec& a, const QuantSpec& b, const Bounds& bounds, int64_t n, int64_t k,
                        DType y, int64_t extra = 0) {
    const GroupBounds groups = upload(bounds);
    const int64_t rows = bounds.back() + kPast;
    GroupedGemmArgs args{operand(a, rows, k, groups, a.outer == OuterScale::row), groups,
                         weights(b, groups.count, n, k, false), device_->output(y, rows, n, extra)};
    const Values want = expected(args, bounds, extra);
    EXPECT_EQ(difference(want, run(args)), "") << "prepacked in scratch";
    const int64_t bytes = op_->prepacked_bytes(b, args.b.q.rows, k);
    const TensorView place = device_->output(DType::u8, 1, bytes);
    op_->prepack({args.b.q, {static_cast<std::byte*>(place.data), static_cast<size_t>(bytes)}}, {});
    args.b.prepacked = static_cast<const std::byte*>(place.data);
    args.y = device_->output(y, rows, n, extra);
    EXPECT_EQ(difference(want, run(args)), "")
        << to_string(a) << " x " << to_string(b) << ", N=" << n << " K=" << k << ", " << groups.count
        << " groups of " << bounds.back() << " rows, extra " << extra;
    device_->clear();
  }

  Values run(const GroupedWgradArgs& args) {
    op_->grouped_wgrad(args, {});
    op_->memory->synchronize(nullptr);
    device_->expect_intact();
    return device_->values(args.y);
  }
  /// Without scales, by one gemm() a group.
  Values expected(GroupedWgradArgs args, const TensorView& y, const Bounds& bounds) {
    args.y = y;
    const int64_t n = args.a.cols, k = args.b.cols;
    std::vector<size_t> empty;
    int64_t bytes = 0;
    for (size_t g = 0; g + 1 < bounds.size(); ++g) {
      const GemmProblem p{FormatId::bf16, FormatId::bf16, DType::f32, k, bounds[g + 1] - bounds[g]};
      bytes = std::max(bytes, op_->gemm_scratch(p, n, 1));
    }
    const Exec one = exec(bytes);
    for (size_t g = 0; g + 1 < bounds.size(); ++g) {
      const int64_t begin = bounds[g], rows = bounds[g + 1] - begin;
      if (rows == 0) {
        empty.push_back(g);
        continue;
      }
      op_->gemm(group_of(args, {static_cast<int64_t>(g), begin, rows}), one);
    }
    op_->memory->synchronize(nullptr);
    Values all = device_->values(y);
    for (const size_t g : empty) {
      if (args.output == Output::overwrite)
        std::fill_n(all.begin() + static_cast<int64_t>(g) * n * k, n * k, 0.0f);
    }
    return all;
  }
  GroupedWgradArgs wgrad(const Bounds& bounds, int64_t n, int64_t k, Output output) {
    const int64_t rows = bounds.back() + kPast;
    GroupedWgradArgs args;
    TensorView a = space_.input("a", DType::bf16, rows, n, Fill::normal, 8);
    TensorView b = space_.input("b", DType::bf16, rows, k);
    for (int64_t r = bounds.back(); r < rows; ++r) {  // nobody's rows must not count
      for (int64_t c = 0; c < n; ++c) a.row<bf16>(r)[c] = bf16(std::numeric_limits<float>::quiet_NaN());
      for (int64_t c = 0; c < k; ++c) b.row<bf16>(r)[c] = bf16(std::numeric_limits<float>::infinity());
    }
    // A row of infinities at the start of a group: the group before it must not see them.
    for (size_t g = 1; g + 1 < bounds.size(); g += 2) {
      if (bounds[g] < bounds[g + 1]) b.row<bf16>(bounds[g])[0] = bf16(std::numeric_limits<float>::infinity());
    }
    args.a = device_->upload(a);
    args.b = device_->upload(b);
    args.groups = upload(bounds);
    args.output = output;
    return args;
  }

  const OpTable* op_ = nullptr;
  std::unique_ptr<DeviceWorkspace> device_;
  Workspace space_{20240607};
};

TEST_F(CudaGrouped, GemmHasTheBitsOfOneGemmAGroup) {
  struct Size {
    int64_t n, k;
  };
  struct Pair {
    QuantSpec a, b;
  };
  for (const Bounds& bounds : kGroups) {
    for (const auto& [n, k] : {Size{136, 320}, {200, 1152}, {33, 2100}, {384, 2112}, {8208, 192}}) {
      for (const auto& [a, b] : {Pair{kBf16, kBf16}, {kRow, kExpert}, {kBf16, kExpert}, {kMxfp8, kMxfp8}})
        expect_gemm(a, b, bounds, n, k, DType::bf16, n % 8 == 0 ? 8 : 3, false);
      expect_gemm(kRow, kRow, bounds, n, k, DType::f32, 0, true);
      expect_gemm(kExpert, kTensor, bounds, n, k, DType::bf16, 0, true);
    }
    expect_gemm(kBf16, kBf16, bounds, 384, 2048, DType::bf16, 0, false);
  }
}

TEST_F(CudaGrouped, GemmOfManySkewedExperts) {
  expect_gemm(kBf16, kBf16, skewed(), 200, 1152, DType::bf16, 0, false);
  expect_gemm(kRow, kExpert, skewed(), 200, 1152, DType::bf16, 0, true);
  expect_gemm(kRow, kExpert, skewed(), 48, 320, DType::f32, 5, false);
  Bounds many = {0};  // more groups than the table has entries
  for (int32_t e = 0; e < 700; ++e)
    many.push_back(many.back() + (e % 3 == 0 ? 0 : e % 50 == 7 ? 200 : e % 5));
  expect_gemm(kBf16, kBf16, many, 72, 128, DType::bf16, 0, false);
}

/// Few rows a group: prepacked weights are read as they are.
TEST_F(CudaGrouped, FewRowsReadPrepackedWeights) {
  struct Size {
    int64_t n, k;
  };
  for (const Bounds& bounds :
       {Bounds{0, 0, 1, 1, 58, 61}, {0, 0, 0, 0}, {0, 8, 24, 41, 73}, {0, 0, 130, 130, 131}}) {
    for (const auto& [n, k] : {Size{16, 128}, {48, 384}, {208, 1152}, {400, 2048}, {64, 2304}, {8208, 256}}) {
      expect_prepacked(kBf16, kExpert, bounds, n, k, DType::bf16, n % 3);
      expect_prepacked(kRow, kRow, bounds, n, k, DType::f32, 1);
      expect_prepacked(kExpert, kTensor, bounds, n, k, DType::bf16);
    }
    expect_prepacked(kMxfp8, kExpert, bounds, 208, 1152, DType::f32);
  }
  expect_prepacked(kRow, kExpert, skewed(), 208, 1152, DType::bf16);
  Bounds many = {0};
  for (int32_t e = 0; e < 700; ++e)
    many.push_back(many.back() + (e % 3 == 0 ? 0 : e % 50 == 7 ? 200 : e % 5));
  expect_prepacked(kBf16, kExpert, many, 80, 128, DType::bf16);
}

TEST_F(CudaGrouped, WeightsMayBeReadByColumns) {
  struct Size {
    int64_t n, k;
  };
  for (const Bounds& bounds : kGroups) {
    for (const auto& [n, k] : {Size{136, 320}, {200, 1100}, {40, 2048}, {8208, 72}, {35, 50}}) {
      const GroupBounds groups = upload(bounds);
      const int64_t rows = bounds.back() + kPast;
      GroupedGemmArgs args{operand(kBf16, rows, k, groups, false), groups,
                           Operand::of(random(DType::bf16, groups.count * k, n), Orientation::columns),
                           device_->output(DType::bf16, rows, n)};
      EXPECT_EQ(difference(expected(args, bounds, 0), run(args)), "") << "N=" << n << " K=" << k;
      device_->clear();
    }
  }
}

TEST_F(CudaGrouped, WgradHasTheBitsOfOneGemmAGroup) {
  struct Size {
    int64_t n, k;
  };
  std::vector<Bounds> groups = kGroups;
  groups.push_back({0, 2500, 2501, 2517});  // more rows than a chunk
  for (const Bounds& bounds : groups) {
    for (const auto& [n, k] : {Size{128, 192}, {200, 264}, {72, 8208}, {384, 520}}) {
      for (const Output output : {Output::overwrite, Output::accumulate}) {
        GroupedWgradArgs args = wgrad(bounds, n, k, output);
        const TensorView old = space_.input("y", DType::f32, args.groups.count * n, k);
        args.y = device_->upload(old);
        const Values want = expected(args, device_->upload(old), bounds);
        EXPECT_EQ(difference(want, run(args)), "")
            << "N=" << n << " K=" << k << ", " << bounds.back() << " rows"
            << (output == Output::accumulate ? ", accumulated" : "");
        device_->clear();
      }
    }
  }
}

TEST_F(CudaGrouped, WgradOfManySkewedExpertsWithScales) {
  constexpr int64_t kN = 136, kK = 200;
  const Bounds bounds = skewed();
  const auto experts = static_cast<int64_t>(bounds.size()) - 1;
  for (const OuterScale per : {OuterScale::row, OuterScale::expert, OuterScale::tensor}) {
    GroupedWgradArgs args = wgrad(bounds, kN, kK, Output::overwrite);
    args.y = device_->output(DType::f32, experts * kN, kK);
    const Values sums = run(args);
    EXPECT_EQ(difference(expected(args, device_->output(DType::f32, experts * kN, kK), bounds), sums), "");
    const auto scales = [&](int64_t lines) {
      const int64_t count = per == OuterScale::row      ? experts * lines
                            : per == OuterScale::expert ? experts
                                                        : 1;
      return space_.input("scales", DType::f32, 1, count, Fill::positive);
    };
    const TensorView as = scales(kN), bs = scales(kK), old = space_.input("y", DType::f32, experts * kN, kK);
    args.as = {device_->upload(as).as<float>(), per};
    args.bs = {device_->upload(bs).as<float>(), per};
    args.y = device_->upload(old);
    args.output = Output::accumulate;
    const auto at = [&](const TensorView& s, int64_t e, int64_t lines, int64_t line) {
      return s.as<float>()[per == OuterScale::row ? e * lines + line : per == OuterScale::expert ? e : 0];
    };
    Values want(sums.size());
    for (int64_t e = 0; e < experts; ++e) {
      for (int64_t i = 0; i < kN * kK; ++i) {
        const auto j = static_cast<size_t>(e * kN * kK + i);
        const float scaled = sums[j] * at(as, e, kN, i / kK) * at(bs, e, kK, i % kK);
        const bool any = bounds[static_cast<size_t>(e)] < bounds[static_cast<size_t>(e) + 1];
        want[j] = any ? scaled + old.as<float>()[j] : old.as<float>()[j];
      }
    }
    Values got = run(args);
    for (size_t i = 0; i < got.size(); ++i) {  // which NaN inf * 0 gives is the processor's own
      if (std::isnan(want[i]) && std::isnan(got[i])) got[i] = want[i];
    }
    EXPECT_EQ(difference(want, got), "") << to_string(per);
    device_->clear();
  }
}

/// What one replay needs: products both ways and the operands of the weight gradient.
struct Step {
  GroupedGemmArgs gemm;
  GroupedQuantizeArgs quantize;
  GroupedWgradArgs wgrad;
};

TEST_F(CudaGrouped, OneGraphServesAllBounds) {
  constexpr int64_t kRows = 300, kExperts = 5, kN = 200, kK = 1152;
  const std::vector<Bounds> all = {{0, 0, 1, 1, 258, 261},
                                   {0, 60, 120, 180, 240, 300},
                                   {0, 0, 0, 0, 0, 0},
                                   {0, 300, 300, 300, 300, 300},
                                   {0, 1, 2, 3, 4, 291}};
  const GroupBounds groups = upload(all[0]);
  Step step;
  step.gemm = {operand(kRow, kRows, kK, {}, true), groups, weights(kExpert, kExperts, kN, kK, true), {}};
  step.gemm.y = device_->output(DType::bf16, kRows, kN);
  step.quantize.x = random(DType::bf16, kRows, kK);
  step.quantize.groups = groups;
  step.quantize.along = Orientation::columns;
  step.quantize.out.spec = kRow;
  step.quantize.out.rows = kK;
  step.quantize.out.cols = padded_rows(kRows, kExperts, 16);
  step.quantize.out.outer = device_->output(DType::f32, 1, kExperts * kK).as<float>();
  step.quantize.out.amax = device_->output(DType::f32, 1, kExperts * kK).as<float>();
  step.quantize.decoded = device_->output(DType::bf16, kRows, kK);
  step.wgrad.a = random(DType::bf16, kRows, kN);
  step.wgrad.b = step.quantize.decoded;
  step.wgrad.bs = {step.quantize.out.outer, OuterScale::row};
  step.wgrad.groups = groups;
  step.wgrad.y = device_->output(DType::f32, kExperts * kN, kK);
  step.wgrad.output = Output::overwrite;
  const Exec work = exec(scratch(step.gemm));
  const auto launch = [&](void* stream) {
    op_->grouped_gemm(step.gemm, {nullptr, work.scratch, stream});
    op_->grouped_quantize(step.quantize, {nullptr, {}, stream});
    op_->grouped_wgrad(step.wgrad, {nullptr, {}, stream});
  };
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  launch(stream);
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
  const TensorView poison = space_.output("poison", DType::bf16, kRows, kN);
  for (const Bounds& bounds : all) {
    const auto set = [&](void* on) {
      op_->memory->copy_in(const_cast<int32_t*>(groups.offset), bounds.data(),
                           static_cast<int64_t>(bounds.size() * sizeof(int32_t)), on);
      op_->memory->copy_in(step.gemm.y.data, poison.data, kRows * kN * 2, on);
      op_->memory->synchronize(on);
    };
    set(stream);
    ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    op_->memory->synchronize(stream);
    const Values y = device_->values(step.gemm.y), dw = device_->values(step.wgrad.y);
    EXPECT_EQ(difference(expected(step.gemm, bounds, 0), y), "") << bounds[2];
    set(nullptr);
    launch(nullptr);
    op_->memory->synchronize(nullptr);
    EXPECT_EQ(difference(device_->values(step.wgrad.y), dw), "") << bounds[2];
    int64_t zeros = 0;
    for (const float value : dw) zeros += value == 0.0f ? 1 : 0;
    if (bounds.back() == 0) {
      EXPECT_EQ(zeros, static_cast<int64_t>(dw.size()));
    }
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  device_->expect_intact();
}

TEST_F(CudaGrouped, RepeatsToTheBit) {
  const Bounds bounds = skewed();
  const GroupBounds groups = upload(bounds);
  const int64_t rows = bounds.back() + kPast;
  const GroupedGemmArgs gemm{operand(kRow, rows, 1152, groups, true), groups,
                             weights(kExpert, groups.count, 200, 1152, true),
                             device_->output(DType::bf16, rows, 200)};
  GroupedWgradArgs wgrad = this->wgrad(bounds, 136, 200, Output::overwrite);
  wgrad.y = device_->output(DType::f32, groups.count * 136, 200);
  const GroupedGemmArgs packed{operand(kRow, rows, 1152, groups, true), groups,
                               weights(kExpert, groups.count, 208, 1152, false),
                               device_->output(DType::bf16, rows, 208)};
  const Values y = run(gemm), few = run(packed), dw = run(wgrad);
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(difference(y, run(gemm)), "") << i;
    ASSERT_EQ(difference(few, run(packed)), "") << i;
    ASSERT_EQ(difference(dw, run(wgrad)), "") << i;
  }
}

/// Few rows, few groups, every kernel: for compute-sanitizer.
TEST_F(CudaGrouped, SmallOfEachKernel) {
  const Bounds bounds = {0, 0, 3, 70, 200};
  expect_gemm(kBf16, kBf16, bounds, 200, 1088, DType::bf16, 0, false);
  expect_gemm(kRow, kExpert, bounds, 40, 128, DType::f32, 3, true);
  expect_gemm(kBf16, kBf16, bounds, 8200, 64, DType::bf16, 0, false);
  expect_prepacked(kRow, kExpert, bounds, 208, 1152, DType::bf16);
  for (const int64_t k : {int64_t{200}, int64_t{8200}}) {
    for (const Output output : {Output::overwrite, Output::accumulate}) {
      GroupedWgradArgs args = wgrad(bounds, 72, k, output);
      const TensorView old = space_.input("y", DType::f32, 4 * 72, k);
      args.y = device_->upload(old);
      const Values want = expected(args, device_->upload(old), bounds);
      EXPECT_EQ(difference(want, run(args)), "") << k;
    }
  }
}

TEST_F(CudaGrouped, RefusesWithASentence) {
  const Bounds bounds = {0, 8, 16};
  const GroupBounds groups = upload(bounds);
  const auto refused = [](const std::string& part, const auto& body) {
    try {
      body();
      ADD_FAILURE() << part << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  GroupedGemmArgs args{Operand::of(random(DType::bf16, 16, 64)), groups,
                       Operand::of(random(DType::bf16, 2 * 32, 64)), device_->output(DType::bf16, 16, 32)};
  GroupedGemmArgs canonical = args, wide = args, odd = args;
  canonical.order = SumOrder::canonical;
  refused("canonical order", [&] { op_->grouped_gemm(canonical, {}); });
  wide.b = Operand::of(random(DType::f32, 2 * 32, 64));
  refused("f32", [&] { op_->grouped_gemm(wide, {}); });
  odd.a = Operand::of(random(DType::bf16, 16, 64, 3));
  refused("67 elements apart", [&] { op_->grouped_gemm(odd, exec(256)); });
  refused("counter of tiles", [&] { op_->grouped_gemm(args, {}); });
  GroupedWgradArgs wgrad;
  wgrad.a = random(DType::bf16, 16, 33);
  wgrad.b = random(DType::bf16, 16, 64);
  wgrad.groups = groups;
  wgrad.y = device_->output(DType::f32, 66, 64);
  refused("33 elements apart", [&] { op_->grouped_wgrad(wgrad, {}); });
  GroupedQuantizeArgs sim;
  sim.x = random(DType::bf16, 16, 64);
  sim.groups = groups;
  sim.out.spec = {FormatId::sim_e2m3};
  refused("exists in software only", [&] { op_->grouped_quantize(sim, {}); });
  device_->expect_intact();
}

}  // namespace
}  // namespace minite::conformance
