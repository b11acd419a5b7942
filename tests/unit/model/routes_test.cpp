// Routes as a plain value: what a recording may hold, and how two of them are compared.
#include "minite/routes.h"

#include "support/expect_error.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using test_support::expect_error;

/// 6 experts, 3 a token, 2 layers.
ModelConfig model() { return test_support::tiny_experts(); }

Routes recorded(const std::vector<int32_t>& expert) {
  Routes r(static_cast<int64_t>(expert.size()) / 6, 2, 3);
  r.expert = expert;
  return r;
}

TEST(Routes, WhatWasNotRecordedIsMinusOne) {
  const Routes r(4, 2, 3);
  EXPECT_EQ(r.tokens(), 4);
  EXPECT_EQ(r.expert, std::vector<int32_t>(24, -1)) << "0 would be an expert";
  const std::vector<Routes> all = {r};
  EXPECT_NO_THROW(validate_routes(all, std::vector<int64_t>{4}, model()));
}

TEST(Routes, EveryFaultNamesItsPlace) {
  struct Case {
    std::vector<int32_t> expert;
    std::vector<std::string> parts;
  };
  const std::vector<int32_t> good = {0, 1, 2, 3, 4, 5};
  for (const Case& c : std::vector<Case>{
           {{0, 1, 2, 3, 4, 6}, {"sample 1, token 0, layer 1", "expert 6 of slot 2", "[0, 6)"}},
           {{0, 1, 2, 3, -3, 5}, {"sample 1, token 0, layer 1", "expert -3 of slot 1"}},
           {{0, 1, 2, 3, 4, 5, 0, 1, 0, 3, 4, 5}, {"sample 1, token 1, layer 0", "expert 0 stands twice"}},
           {{-1, 1, 2, 3, 4, 5}, {"sample 1, token 0, layer 0", "[-1, 1, 2]", "some slots are -1"}},
       }) {
    const std::vector<Routes> all = {recorded(good), recorded(c.expert)};
    const std::vector<int64_t> tokens = {1, all[1].tokens()};
    expect_error(ErrorCode::invalid_argument, c.parts, [&] { validate_routes(all, tokens, model()); });
  }
}

TEST(Routes, ShapesMustFitTheModelAndTheTokens) {
  const std::vector<Routes> one = {recorded({0, 1, 2, 3, 4, 5})};
  const std::vector<int64_t> tokens = {1}, more = {2}, two = {1, 1};
  EXPECT_NO_THROW(validate_routes(one, tokens, model()));
  const auto refuse = [&](const std::vector<int64_t>& n, const ModelConfig& c,
                          const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts, [&] { validate_routes(one, n, c); });
  };
  refuse(more, model(), {"sample 0", "6 experts for 2 tokens", "one row a token"});
  refuse(two, model(), {"1 samples recorded, 2 to replay"});
  ModelConfig deeper = model(), wider = model(), dense = test_support::tiny_config();
  deeper.num_hidden_layers = 3;
  wider.num_experts_per_tok = 2;
  refuse(tokens, deeper, {"2 layers of 3 experts", "num_hidden_layers=3"});
  refuse(tokens, wider, {"2 layers of 3 experts", "num_experts_per_tok=2"});
  refuse(tokens, dense, {"num_experts=0"});
  std::vector<Routes> weighed = one;
  weighed[0].weight = {1.0f};
  expect_error(ErrorCode::invalid_argument, {"1 weights for 6 experts"},
               [&] { validate_routes(weighed, tokens, model()); });
}

// Replaying experts is not all: experts, their order and their weights are told apart.
TEST(Routes, ComparisonSeparatesExpertsOrderAndWeights) {
  Routes a = recorded({0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, -1, -1, -1, 3, 4, 5});
  Routes b = recorded({0, 1, 3, 4, 3, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  const RouteDifference plain = compare_routes(a, b);
  EXPECT_EQ(plain.rows, 5) << "the unrecorded row is left out";
  EXPECT_EQ(plain.experts, 1);
  EXPECT_EQ(plain.order, 1);
  EXPECT_EQ(plain.weights, 0) << "no weights recorded";
  a.weight.assign(18, 0.25f), b.weight.assign(18, 0.25f);
  b.weight[0] = 9.0f;     // other experts: not compared
  b.weight[7] = 0.75f;    // token 1, layer 0
  b.weight[16] = 0.125f;  // token 2, layer 1
  RouteDifference d = compare_routes(a, b);
  EXPECT_EQ(d.weights, 9);
  EXPECT_DOUBLE_EQ(d.weight_abs_sum, 0.625);
  EXPECT_DOUBLE_EQ(d.weight_abs_max, 0.5);
  d += plain;
  EXPECT_EQ(d.rows, 10);
  EXPECT_EQ(d.experts, 2);
  EXPECT_DOUBLE_EQ(d.weight_abs_max, 0.5);
  expect_error(ErrorCode::invalid_argument, {"3 tokens, 2 layers", "1 tokens, 2 layers"}, [&] {
    (void)compare_routes(a, recorded({0, 1, 2, 3, 4, 5}));
  });
}

// An engine that returns a stale buffer repeats one row for many tokens.
TEST(Routes, ALongRepeatIsSeen) {
  std::vector<int32_t> expert;
  for (int token = 0; token < 67; ++token) expert.insert(expert.end(), {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(longest_repeat(recorded(expert)), 67);
  expert[33 * 6] = 5;  // another row in between
  EXPECT_EQ(longest_repeat(recorded(expert)), 33);
  EXPECT_EQ(longest_repeat(Routes(5, 2, 3)), 0) << "nothing recorded, nothing repeated";
}

}  // namespace
}  // namespace minite
