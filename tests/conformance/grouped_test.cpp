// Products by group with bounds in the backend's memory, on the vector levels: the bits of one product a
// group. (A device adds in another order; cuda_grouped_test.cpp compares it with its own products.)
#include <cstring>

#include "backends/ref/table.h"
#include "conformance/conformance.h"
#include "minite/error.h"
#include "ops/ops.h"

namespace minite::conformance {
namespace {

using Grouped = Level;
MINITE_LEVELS(Grouped);

const std::vector<int32_t> kBounds = {0, 0, 1, 34, 34, 55, 70, 271};
constexpr int64_t kGroups = 7, kPast = 5;

constexpr QuantSpec kBf16{FormatId::bf16}, kMxfp8{FormatId::mxfp8}, kNone{FormatId::nvfp4};
constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row}, kTensor{FormatId::nvfp4, OuterScale::tensor},
    kExpert{FormatId::nvfp4, OuterScale::expert};

struct Pair {
  QuantSpec a, b;
};
constexpr std::array<Pair, 7> kPairs = {{{kBf16, kBf16},
                                         {kRow, kExpert},
                                         {kRow, kRow},
                                         {kExpert, kTensor},
                                         {kNone, kNone},
                                         {kBf16, kExpert},
                                         {kMxfp8, kMxfp8}}};

/// An operand of groups of rows, quantized by the reference.
Operand operand(Trial& trial, const char* label, const QuantSpec& spec, const TensorView& x,
                const GroupBounds& groups) {
  if (!spec.quantized()) return Operand::of(x);
  QuantSpec plain = spec;
  plain.outer = OuterScale::none;
  QTensor q = trial.space.codes(label, plain, x.rows, x.cols);
  q.spec = spec;
  const int64_t count = spec.outer == OuterScale::expert ? groups.count : q.outer_count();
  if (count > 0) {
    q.outer = trial.space.output("outer", DType::f32, 1, count).as<float>();
    q.amax = trial.space.output("amax", DType::f32, 1, count).as<float>();
  }
  if (spec.outer == OuterScale::tensor) {
    ref::table().quantize({x, Orientation::rows, q}, {});
  } else {
    ref::table().grouped_quantize({x, groups, Orientation::rows, q}, {});
  }
  return Operand::of(q);
}

void run_gemm(Trial& trial, const Pair& p, int64_t n, int64_t k, DType dtype, bool turned) {
  const int64_t rows = kBounds.back() + kPast;
  const GroupBounds groups{trial.space.ints("offset", kBounds).data(), kGroups};
  std::vector<int32_t> experts;
  for (int64_t e = 0; e <= kGroups; ++e) experts.push_back(static_cast<int32_t>(e * n));
  const TensorView x = trial.space.input("x", DType::bf16, rows, k);
  GroupedGemmArgs args;
  args.a = operand(trial, "a", p.a, x, groups);
  args.groups = groups;
  args.b = turned ? Operand::of(trial.space.input("w", DType::bf16, kGroups * k, n), Orientation::columns)
                  : operand(trial, "b", p.b, trial.space.input("w", DType::bf16, kGroups * n, k),
                            {experts.data(), kGroups});
  args.y = trial.space.output("y", dtype, rows, n, 3);
  const TensorView each = trial.space.output("each", dtype, rows, n, 3);
  const GemmProblem problem{args.a.format(), args.b.format(), dtype, n, k};
  const int64_t scratch = trial.op.grouped_scratch(problem, rows, kGroups, trial.pool.threads());
  const Context ctx{&trial.op, &trial.pool, nullptr, trial.exec(scratch).scratch};
  ops::grouped_gemm(ctx, args);
  GroupedGemmArgs again = args;
  again.y = each;
  for (int64_t g = 0; g < kGroups; ++g) {
    const int64_t begin = groups.offset[g], count = groups.offset[g + 1] - begin;
    if (count > 0) ref::table().gemm(group_of(again, {g, begin, count}), {});
  }
  ASSERT_EQ(std::memcmp(args.y.data, each.data, static_cast<size_t>(rows * each.stride * dtype_size(dtype))),
            0);
}

TEST_P(Grouped, GemmIsOneGemmAGroup) {
  for (const auto& [n, k] : {std::array<int64_t, 2>{21, 50}, {130, 48}}) {
    for (const Pair& p : kPairs) {
      for (const DType dtype : kStorage) {
        check(fmt::format("grouped_gemm {} x {}, N={} K={} -> {}", to_string(p.a), to_string(p.b), n, k,
                          dtype_name(dtype)),
              [&, n = n, k = k](Trial& trial) { run_gemm(trial, p, n, k, dtype, false); });
      }
    }
    check(fmt::format("grouped_gemm by columns, N={} K={}", n, k),
          [&, n = n, k = k](Trial& trial) { run_gemm(trial, kPairs[0], n, k, DType::bf16, true); });
  }
}

struct Domains {
  OuterScale a, b;
};

/// The chain alone is gemm()'s; scales and the old y follow it, each rounded once.
void run_wgrad(Trial& trial, const Domains& per, Output output) {
  constexpr int64_t kN = 21, kK = 34;
  const int64_t rows = kBounds.back() + kPast;
  const auto scales = [&](const char* label, OuterScale domain, int64_t lines) -> GroupScales {
    const int64_t count = domain == OuterScale::row      ? kGroups * lines
                          : domain == OuterScale::expert ? kGroups
                                                         : 1;
    if (domain == OuterScale::none) return {};
    return {trial.space.input(label, DType::f32, 1, count, Fill::positive).as<float>(), domain};
  };
  GroupedWgradArgs args;
  args.a = trial.space.input("a", DType::bf16, rows, kN, Fill::normal, 3);
  args.b = trial.space.input("b", DType::bf16, rows, kK);
  args.groups = {trial.space.ints("offset", kBounds).data(), kGroups};
  args.as = scales("scales of a", per.a, kN);
  args.bs = scales("scales of b", per.b, kK);
  args.y = trial.space.input("y", DType::f32, kGroups * kN, kK);
  args.output = output;
  const std::vector<float> old(args.y.as<float>(), args.y.as<float>() + args.y.size());
  const Context ctx{&trial.op, &trial.pool, nullptr, {}};
  ops::grouped_wgrad(ctx, args);
  std::vector<float> sums(old.size(), 0.0f);
  GroupedWgradArgs plain = args;
  plain.y = TensorView(sums.data(), args.y.rows, kK);
  plain.output = Output::overwrite;
  for (int64_t g = 0; g < kGroups; ++g) {
    const int64_t begin = args.groups.offset[g], count = args.groups.offset[g + 1] - begin;
    if (count > 0) ref::table().gemm(group_of(plain, {g, begin, count}), {});
    for (int64_t i = 0; i < kN * kK; ++i) {
      const int64_t at = g * kN * kK + i, n = i / kK, k = i % kK;
      float y = sums[static_cast<size_t>(at)];
      const auto scale = [&](const GroupScales& s, int64_t lines, int64_t line) {
        if (s.empty() || count == 0) return;
        y = y * s.scale[s.per == OuterScale::row ? g * lines + line : s.per == OuterScale::expert ? g : 0];
      };
      scale(args.as, kN, n);
      scale(args.bs, kK, k);
      if (output == Output::accumulate) y = y + old[static_cast<size_t>(at)];
      ASSERT_EQ(y, args.y.as<float>()[at]) << "group " << g << ", [" << n << ", " << k << "]";
    }
  }
}

TEST_P(Grouped, WgradIsOneGemmAGroupAndItsScales) {
  using enum OuterScale;
  for (const Domains& per :
       {Domains{none, none}, {row, row}, {expert, row}, {row, expert}, {tensor, expert}}) {
    for (const Output output : {Output::overwrite, Output::accumulate}) {
      check(fmt::format("grouped_wgrad, scales {} and {}{}", to_string(per.a), to_string(per.b),
                        output == Output::overwrite ? "" : ", accumulated"),
            [&](Trial& trial) { run_wgrad(trial, per, output); });
    }
  }
}

TEST(GroupedChecks, NameWhatIsWrong) {
  Workspace space(7);
  ThreadPool pool(1);
  const Context ctx{&ref::table(), &pool, nullptr, {}};
  const auto refused = [](const std::string& part, const auto& body) {
    try {
      body();
      ADD_FAILURE() << part << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const std::vector<int32_t> good = {0, 3, 8}, back = {0, 5, 3}, far = {0, 3, 9}, late = {1, 3, 8};
  GroupedGemmArgs args{Operand::of(space.input("a", DType::bf16, 8, 32)),
                       {good.data(), 2},
                       Operand::of(space.input("b", DType::bf16, 2 * 16, 32)),
                       space.output("y", DType::bf16, 8, 16)};
  ops::grouped_gemm(ctx, args);
  for (const auto& [bounds, part] : {std::pair{&back, "group 1 begins at row 5 and ends at row 3"},
                                     {&far, "ends at row 9 of 8"},
                                     {&late, "group 0 begins at row 1"}}) {
    GroupedGemmArgs wrong = args;
    wrong.groups.offset = bounds->data();
    refused(part, [&] { ops::grouped_gemm(ctx, wrong); });
  }
  GroupedGemmArgs few = args;
  few.b = Operand::of(space.input("b", DType::bf16, 30, 32));
  refused("b is 30x32, expected 2 weights of 16x32", [&] { ops::grouped_gemm(ctx, few); });
  GroupedWgradArgs wgrad;
  wgrad.a = space.input("a", DType::bf16, 8, 16);
  wgrad.b = space.input("b", DType::bf16, 8, 32);
  wgrad.groups = {good.data(), 2};
  wgrad.y = space.output("y", DType::f32, 16, 32);
  refused("y is 16x32 f32, expected 32x32 f32", [&] { ops::grouped_wgrad(ctx, wgrad); });
}

}  // namespace
}  // namespace minite::conformance
