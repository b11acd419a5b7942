// Routing, dispatch, permutation and products by expert.
#include <cmath>
#include <cstring>

#include "backends/ref/route.h"
#include "backends/ref/table.h"
#include "conformance/conformance.h"
#include "ops/ops.h"

namespace minite::conformance {
namespace {

using Moe = Level;
MINITE_LEVELS(Moe);

struct Shape {
  int64_t tokens, experts, top_k;
};
constexpr std::array<Shape, 7> kShapes = {
    {{1, 1, 1}, {5, 8, 2}, {37, 15, 4}, {200, 16, 1}, {64, 33, 8}, {30, 128, 8}, {9, 5, 5}}};

std::string name(const char* op, const Shape& s) {
  return fmt::format("{} of {} tokens, {} of {} experts", op, s.tokens, s.top_k, s.experts);
}

/// k different experts a token; half of the experts get none.
std::span<int32_t> random_experts(Trial& trial, const Shape& s) {
  std::vector<int32_t> all;
  const int64_t used = std::max(s.top_k, s.experts / 2);
  for (int64_t t = 0; t < s.tokens; ++t) {
    const int64_t first = trial.space.below(used);
    for (int64_t i = 0; i < s.top_k; ++i) all.push_back(static_cast<int32_t>((first + i) % used));
  }
  return trial.space.ints("expert", all);
}

struct Dispatched {
  std::span<int32_t> expert, offset, row_of, slot_of;
  [[nodiscard]] Groups groups() const { return {offset}; }
};
Dispatched dispatched(Trial& trial, const Shape& s, const OpTable& op) {
  const auto slots = static_cast<size_t>(s.tokens * s.top_k);
  Dispatched d{random_experts(trial, s),
               trial.space.ints("offset", std::vector<int32_t>(static_cast<size_t>(s.experts) + 1, -1)),
               trial.space.ints("row_of", std::vector<int32_t>(slots, -1)),
               trial.space.ints("slot_of", std::vector<int32_t>(slots, -1))};
  op.dispatch({d.expert, d.offset, d.row_of, d.slot_of}, trial.exec());
  return d;
}

TEST_P(Moe, Route) {
  for (const Shape& s : kShapes) {
    for (const Fill fill : {Fill::normal, Fill::ties, Fill::wide, Fill::special, Fill::sparse}) {
      for (const auto weights : {ExpertWeights::renormalized, ExpertWeights::probabilities}) {
        check(name("route", s), [&](Trial& trial) {
          const auto slots = static_cast<size_t>(s.tokens * s.top_k);
          RouteArgs args;
          args.logits = trial.space.input("logits", DType::f32, s.tokens, s.experts, fill, 3);
          args.top_k = s.top_k;
          args.weights = weights;
          args.prob = trial.space.output("prob", DType::f32, s.tokens, s.experts, 1);
          args.expert = trial.space.ints("expert", std::vector<int32_t>(slots, -1));
          args.weight = trial.space.output("weight", DType::f32, s.tokens, s.top_k, 2);
          trial.op.route(args, trial.exec());
        });
      }
    }
  }
}

/// Recorded experts for some tokens; every third is left to its logits.
TEST_P(Moe, RouteReplays) {
  for (const Shape& s : kShapes) {
    for (const Fill fill : {Fill::normal, Fill::ties, Fill::special}) {
      for (const auto weights : {ExpertWeights::renormalized, ExpertWeights::probabilities}) {
        check(name("route with replay", s), [&](Trial& trial) {
          const std::span<int32_t> replay = random_experts(trial, s);
          for (int64_t t = 0; t < s.tokens; t += 3) std::fill_n(replay.begin() + t * s.top_k, s.top_k, -1);
          const std::vector<int32_t> absent(replay.size(), -1);
          RouteArgs args;
          args.logits = trial.space.input("logits", DType::f32, s.tokens, s.experts, fill, 3);
          args.top_k = s.top_k;
          args.weights = weights;
          args.prob = trial.space.output("prob", DType::f32, s.tokens, s.experts, 1);
          args.expert = trial.space.ints("expert", absent);
          args.weight = trial.space.output("weight", DType::f32, s.tokens, s.top_k, 2);
          args.replay = replay;
          args.live = trial.space.ints("live", absent);
          trial.op.route(args, trial.exec());
        });
      }
    }
  }
}

TEST_P(Moe, RouteBackwardAndBalance) {
  for (const Shape& s : kShapes) {
    for (const auto weights : {ExpertWeights::renormalized, ExpertWeights::probabilities}) {
      for (const float balance : {0.0f, 0.01f}) {
        check(name("route_backward", s), [&](Trial& trial) {
          const Dispatched d = dispatched(trial, s, ref::table());
          RouteBackwardArgs args;
          args.prob = trial.space.input("prob", DType::f32, s.tokens, s.experts, Fill::positive, 3);
          args.expert = d.expert;
          args.weight = trial.space.input("weight", DType::f32, s.tokens, s.top_k, Fill::positive, 1);
          args.dweight = trial.space.input("dweight", DType::f32, s.tokens, s.top_k);
          args.weights = weights;
          args.balance = balance;
          args.groups = d.groups();
          args.dlogits = trial.space.output("dlogits", DType::f32, s.tokens, s.experts, 2);
          trial.op.route_backward(args, trial.exec());
          trial.op.router_balance({args.prob, args.groups, trial.space.number("loss")}, trial.exec());
        });
      }
    }
  }
}

TEST_P(Moe, DispatchPermuteCombine) {
  for (const Shape& s : kShapes) {
    for (const DType dtype : kStorage) {
      for (const int64_t cols : {1, 16, 33, 200}) {
        for (const bool in_place : {false, true}) {
          check(name("permute and combine", s), [&](Trial& trial) {
            const Dispatched d = dispatched(trial, s, trial.op);
            const int64_t rows = s.tokens * s.top_k;
            const TensorView x = trial.space.input("x", dtype, s.tokens, cols, Fill::finite, 3);
            trial.op.permute({x, d.slot_of, trial.space.output("packed", dtype, rows, cols, 1)},
                             trial.exec());
            const TensorView y = trial.space.input("y", dtype, rows, cols, Fill::normal, 2);
            const TensorView w = trial.space.input("w", DType::f32, s.tokens, s.top_k, Fill::positive, 1);
            trial.op.combine({y, d.row_of, w, trial.space.output("out", dtype, s.tokens, cols, 1)},
                             trial.exec());
            trial.op.combine({y, d.row_of, {}, trial.space.output("sum", dtype, s.tokens, cols)},
                             trial.exec());
            const TensorView dx = in_place ? y : trial.space.output("dx", dtype, rows, cols, 1);
            trial.op.combine_backward(
                {x, y, d.slot_of, w, dx, trial.space.output("dw", DType::f32, s.tokens, s.top_k, 1)},
                trial.exec());
          });
        }
      }
    }
  }
}

// --- the rules themselves, on the reference --------------------------------------------------------

TEST(MoeRules, TiesGoToTheLowestIndexAndNanNeverWins) {
  const auto chosen = [](std::vector<float> x, int64_t k) {
    std::vector<int32_t> out(static_cast<size_t>(k));
    ref::select_experts(x.data(), static_cast<int64_t>(x.size()), k, out.data());
    return out;
  };
  EXPECT_EQ(chosen({1, 3, 3, 2, 3}, 3), (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(chosen({0, -0.0f, 0}, 2), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(chosen({1, 2, 3, 4}, 4), (std::vector<int32_t>{3, 2, 1, 0}));
  EXPECT_EQ(chosen({5, std::nanf(""), 7, 6}, 2), (std::vector<int32_t>{0, 1}))
      << "no entry beats a NaN, none is lost";
}

/// One token, one layer: what a call returns by slot.
struct Routed {
  std::vector<int32_t> expert = std::vector<int32_t>(3, -7), live = std::vector<int32_t>(3, -7);
  std::vector<float> prob = std::vector<float>(5), weight = std::vector<float>(3);
};
Routed routed(std::vector<float> logits, const std::vector<int32_t>& replay) {
  Routed out;
  RouteArgs args;
  args.logits = {logits.data(), 1, 5};
  args.top_k = 3;
  args.prob = {out.prob.data(), 1, 5};
  args.expert = out.expert;
  args.weight = {out.weight.data(), 1, 3};
  args.replay = replay;
  args.live = out.live;
  ThreadPool pool(1);
  ops::route({&ref::table(), &pool, nullptr, {}}, args);
  return out;
}

TEST(MoeRules, ReplayFreezesTheSelectionAndNothingElse) {
  const std::vector<float> logits = {0, 1, 2, 3, 4};
  const Routed live = routed(logits, {}), same = routed(logits, {4, 3, 2}), other = routed(logits, {0, 4, 1});
  EXPECT_EQ(live.expert, (std::vector<int32_t>{4, 3, 2}));
  EXPECT_EQ(same.expert, live.expert);
  EXPECT_EQ(same.weight, live.weight) << "its own experts: not a bit changes";
  EXPECT_EQ(other.expert, (std::vector<int32_t>{0, 4, 1})) << "slots stand as recorded";
  EXPECT_EQ(other.live, live.expert);
  EXPECT_EQ(other.prob, live.prob) << "scores are those of all experts";
  const double total = std::exp(0.0) + std::exp(4.0) + std::exp(1.0);
  for (size_t i = 0; i < 3; ++i) {
    const double want = std::exp(static_cast<double>(logits[static_cast<size_t>(other.expert[i])])) / total;
    EXPECT_NEAR(static_cast<double>(other.weight[i]), want, 1e-6) << "renormalized over the replayed set";
  }
  EXPECT_EQ(routed(logits, {-1, -1, -1}).expert, live.expert) << "not recorded: live";
}

TEST(MoeRules, ReplayThatDoesNotFitIsRefused) {
  const std::vector<std::pair<std::vector<int32_t>, std::string>> cases = {
      {{0, 5, 1}, "token 0 is [0, 5, 1]: expert 5 of slot 1 is outside [0, 5)"},
      {{0, -2, 1}, "expert -2 of slot 1"},
      {{2, 1, 2}, "expert 2 stands twice"},
      {{2, -1, 3}, "some slots are -1 and some are not"},
      {{2, 1}, "replay has 2 entries, expected 3"},
  };
  for (const auto& [replay, part] : cases) {
    try {
      (void)routed({0, 1, 2, 3, 4}, replay);
      ADD_FAILURE() << part << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(MoeRules, DispatchIsStable) {
  const std::vector<int32_t> expert = {2, 0, 0, 2, 2, 3};  // 3 tokens, 2 slots
  std::vector<int32_t> offset(6), row_of(6), slot_of(6);
  ref::dispatch({expert, offset, row_of, slot_of});
  EXPECT_EQ(offset, (std::vector<int32_t>{0, 2, 2, 5, 6, 6}));
  EXPECT_EQ(slot_of, (std::vector<int32_t>{1, 2, 0, 3, 4, 5}));
  EXPECT_EQ(row_of, (std::vector<int32_t>{2, 0, 1, 3, 4, 5}));
}

// --- products by group ------------------------------------------------------------------------------

constexpr QuantSpec kBf16{FormatId::bf16}, kMxfp8{FormatId::mxfp8};
constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row}, kTensor{FormatId::nvfp4, OuterScale::tensor};
// Empty first, a single row, empty inside; the last is too large to share a region of the vector backend.
constexpr std::array<int32_t, 8> kOffsets = {0, 0, 1, 34, 34, 55, 70, 271};

struct Product {
  QuantSpec a, b;
};
constexpr std::array<Product, 4> kProducts = {
    {{kBf16, kBf16}, {kRow, kRow}, {kRow, kTensor}, {kMxfp8, kMxfp8}}};

QTensor quantized(Trial& trial, const char* label, const QuantSpec& spec, const TensorView& x,
                  Orientation along) {
  const bool rows = along == Orientation::rows;
  const QTensor q = trial.space.codes(label, spec, rows ? x.rows : x.cols, rows ? x.cols : x.rows);
  ref::table().quantize({x, along, q}, {});
  return q;
}

Context context(Trial& trial, const GemmPlan& plan, int64_t m) {
  return {&trial.op, &trial.pool, nullptr, trial.exec(plan.scratch(m, trial.pool.threads())).scratch};
}

/// Products of all groups in one call and one by one.
void run_groups(Trial& trial, const Product& p, int64_t n, int64_t k) {
  const Groups groups{kOffsets};
  const TensorView x = trial.space.input("x", DType::bf16, groups.total(), k);
  const Operand a =
      p.a.quantized() ? Operand::of(quantized(trial, "a", p.a, x, Orientation::rows)) : Operand::of(x);
  std::vector<Operand> b;
  for (int64_t g = 0; g < groups.count(); ++g) {
    const TensorView w = trial.space.input("w", DType::bf16, n, k);
    b.push_back(p.b.quantized() ? Operand::of(quantized(trial, "b", p.b, w, Orientation::rows))
                                : Operand::of(w));
  }
  const TensorView y = trial.space.output("y", DType::bf16, groups.total(), n);
  const TensorView each = trial.space.output("each", DType::bf16, groups.total(), n);
  const GemmPlan plan =
      plan_gemm(trial.op, {p.a.format, p.b.format, DType::bf16, n, k, Epilogue::minite, SumOrder::canonical},
                Policy{}, "test");
  const Context ctx = context(trial, plan, groups.total());
  ops::group_gemm(ctx, plan, {a, groups, b, y});
  for (int64_t g = 0; g < groups.count(); ++g) {
    const int64_t begin = groups.begin(g), rows = groups.rows(g);
    const Operand part = a.quantized() ? Operand::of(a.q.slice_rows(begin, rows))
                                       : Operand::of(a.dense.slice_rows(begin, rows));
    ops::gemm(ctx, plan, {part, b[static_cast<size_t>(g)], {}, each.slice_rows(begin, rows)});
  }
  if (trial.op.memory != nullptr) trial.op.memory->synchronize(nullptr);
  ASSERT_EQ(std::memcmp(y.data, each.data, static_cast<size_t>(y.size()) * 2), 0);
}

TEST_P(Moe, GroupGemmIsOneGemmAGroup) {
  // Neither N nor K fills a kernel's tile; 600 columns are walked in two steps.
  for (const auto& [n, k] : {std::array<int64_t, 2>{21, 50}, {300, 50}, {21, 600}}) {
    for (const Product& p : kProducts) {
      check(fmt::format("group_qgemm {} x {}, N={} K={}", to_string(p.a), to_string(p.b), n, k),
            [&, n = n, k = k](Trial& trial) { run_groups(trial, p, n, k); });
    }
  }
}

TEST_P(Moe, GroupWgradBlocksStartAtTheGroup) {
  constexpr int64_t kN = 21, kK = 34;
  const Groups groups{kOffsets};
  for (const QuantSpec& spec : {kBf16, kRow, kMxfp8}) {
    check(fmt::format("group_wgrad {}", to_string(spec)), [&](Trial& trial) {
      const TensorView dy = trial.space.input("dy", DType::bf16, groups.total(), kN);
      const TensorView x = trial.space.input("x", DType::bf16, groups.total(), kK);
      const TensorView dw = trial.space.input("dw", DType::f32, groups.count() * kN, kK);
      const auto operands = [&](const char* label, const TensorView& t) {
        std::vector<Operand> all;
        std::vector<QTensor> codes;
        for (int64_t g = 0; g < groups.count(); ++g) {
          const TensorView part = t.slice_rows(groups.begin(g), groups.rows(g));
          if (spec.quantized()) codes.push_back(trial.space.codes(label, spec, t.cols, part.rows));
          all.push_back(spec.quantized() ? Operand::of(codes.back())
                                         : Operand::of(part, Orientation::columns));
        }
        const Context ctx{&trial.op, &trial.pool, nullptr, {}};
        if (spec.quantized()) ops::group_quantize(ctx, {t, groups, Orientation::columns, codes});
        return all;
      };
      const auto a = operands("dy codes", dy), b = operands("x codes", x);
      const GemmPlan plan = plan_gemm(
          trial.op, {spec.format, spec.format, DType::f32, kK, 201, Epilogue::minite, SumOrder::canonical},
          Policy{}, "test");
      ops::group_wgrad(context(trial, plan, kN), plan, {a, b, dw});
    });
  }
}

}  // namespace
}  // namespace minite::conformance
