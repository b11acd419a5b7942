// Causes besides the first: what no earlier value can explain is listed, and consequences are not.
#include "align_pair.h"
#include "diagnostics/align_page.h"

namespace minite::diagnostics {
namespace {

std::vector<std::string> classes(const Comparison& c) {
  std::vector<std::string> all;
  for (const Cause& cause : c.also) all.push_back(cause.cause);
  return all;
}

using Names = std::vector<std::string>;

/// Two layers, so that there are weights behind the first divergence.
struct Layers : Pair {
  Layers() {
    for (HandCapture* side : {&a, &b}) {
      side->m.model["num_hidden_layers"] = 2;
      side->values("qkv", "output", 1, {1, 2, 3}, 1);
      side->m.weights.digests = {{"layers.0.qkv", {"q"}},
                                 {"layers.0.experts.down", {"x", "y", "z"}},
                                 {"layers.1.qkv", {"r"}},
                                 {"layers.1.o", {"s"}}};
    }
  }
  /// B's qkv of layer 0 is wrong, and everything behind it.
  void wrong_from_the_start() {
    b.values("qkv", "output", 2, {1, 0, 0, 2.5f, 3, 0});
    b.values("router", "output", 2, {1, 2, 1, 3, 1, 2});
    b.values("experts.down", "output", 1, {10, 11, 12.5f, 13.5f, 14, 15});
    b.values("combine", "output", 1, {1, 2.5f, 3});
    b.values("qkv", "output", 1, {1, 2.5f, 3}, 1);
    b.values("logprob", "output", 1, {-0.5f, -1.75f, -2.5f}, -1);
  }
};

TEST(AlignAlso, ConsequencesAreNoCauses) {
  Layers p;
  p.wrong_from_the_start();
  const Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "execution");
  EXPECT_TRUE(c.also.empty()) << c.also[0].evidence;
  // Rows whose router saw other values may go elsewhere.
  p.b.experts({0, 1, 1, 0, 0, 2}, {0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(p.compare().also.empty());
}

TEST(AlignAlso, OtherWeightsInALaterLayer) {
  Layers p;
  p.wrong_from_the_start();
  p.b.m.weights.digests["layers.1.qkv"] = {"R"};
  p.b.m.weights.digests["layers.1.o"] = {"S"};
  const Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "execution");
  ASSERT_EQ(classes(c), Names{"weights"});
  EXPECT_EQ(c.also[0].layer, 1);
  EXPECT_EQ(c.also[0].module, "qkv");
  EXPECT_NE(c.also[0].evidence.find("1 of 1 parts of layers.1.qkv differ in memory. The same at layers.1.o."),
            std::string::npos)
      << c.also[0].evidence;
}

TEST(AlignAlso, OneStaleVersionIsOneCause) {
  Layers p;
  p.b.m.weights.digests = {{"layers.0.qkv", {"Q"}},
                           {"layers.0.experts.down", {"x", "y", "z"}},
                           {"layers.1.qkv", {"R"}},
                           {"layers.1.o", {"S"}}};
  p.b.m.weights.version = 3;
  Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "weights");
  EXPECT_TRUE(c.also.empty());
  EXPECT_NE(c.cause->evidence.find("The same at layers.1.qkv, layers.1.o."), std::string::npos)
      << c.cause->evidence;
  // Without a version that explains them, weights of another layer are another cause.
  p.b.m.weights.version = 0;
  c = p.compare();
  EXPECT_EQ(classes(c), Names{"weights"});
}

TEST(AlignAlso, ExpertsInOtherPlacesBesideOtherWeights) {
  Layers p;
  p.b.m.weights.digests["layers.0.qkv"] = {"Q"};
  p.b.m.weights.digests["layers.0.experts.down"] = {"y", "x", "z"};
  const Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "weights");
  ASSERT_EQ(classes(c), Names{"permutation"});
  EXPECT_NE(c.also[0].evidence.find("experts 0, 1"), std::string::npos);
}

TEST(AlignAlso, FormatsOfAnotherKindThanTheFirst) {
  Layers p;
  p.b.codes("qkv", "input.codes", {3, 1}, {1, 2, 3}, "row", "mxfp4");
  for (HandCapture* side : {&p.a, &p.b})
    side->codes("experts.down", "input.codes", {6, 1}, {1, 2, 3, 4, 5, 6}, side == &p.b ? "tensor" : "row");
  Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "format");
  ASSERT_EQ(classes(c), Names{"scale domain"});
  EXPECT_EQ(c.also[0].module, "experts.down");
  EXPECT_EQ(c.also[0].evidence.find("everything before"), std::string::npos) << "nothing is said of before";
  // The same pair of formats is the same cause, shown at more places.
  p.b.codes("experts.down", "input.codes", {6, 1}, {1, 2, 3, 4, 5, 6}, "row", "mxfp4");
  c = p.compare();
  EXPECT_TRUE(c.also.empty());
  EXPECT_NE(c.cause->evidence.find("The same at layers.0.experts.down."), std::string::npos);
}

TEST(AlignAlso, KeysAndValues) {
  Layers p;
  for (HandCapture* side : {&p.a, &p.b}) side->values("attn", "output", 1, {1, 2, 3});
  p.b.m.contract.kv_format = "fp8";
  p.b.values("attn", "output", 1, {1, 2, 3.5f});
  Comparison c = p.compare();
  EXPECT_EQ(c.cause->cause, "format");
  EXPECT_TRUE(c.also.empty()) << "it is the first cause itself";
  p.wrong_from_the_start();
  c = p.compare();
  EXPECT_EQ(c.cause->cause, "execution");
  ASSERT_EQ(classes(c), Names{"format"});
  EXPECT_NE(c.also[0].evidence.find("kept as bf16 at A and fp8 at B"), std::string::npos);
}

TEST(AlignAlso, CodesOfEqualWeights) {
  Layers p;
  p.wrong_from_the_start();
  for (HandCapture* side : {&p.a, &p.b}) {
    side->codes("experts.down", "weight.codes", {3, 1, 1},
                {1, 2, static_cast<uint8_t>(side == &p.b ? 4 : 3)});
  }
  Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"conversion"});
  EXPECT_NE(c.also[0].evidence.find("1 of 6 codes"), std::string::npos) << c.also[0].evidence;
  // Codes of weights that differ follow from the weights.
  p.b.m.weights.digests["layers.0.experts.down"] = {"x", "y", "Z"};
  c = p.compare();
  EXPECT_EQ(classes(c), Names{"weights"});
}

TEST(AlignAlso, RoutingThatEqualOutputsOfTheRouterDoNotExplain) {
  Layers p;
  p.wrong_from_the_start();                             // row 1 reaches the router with other values
  p.b.experts({0, 2, 1, 0, 0, 2}, {0, 1, 2, 3, 4, 5});  // rows 0 and 1 go elsewhere
  Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"routing"});
  EXPECT_NE(c.also[0].evidence.find("1 of the rows have equal outputs"), std::string::npos)
      << c.also[0].evidence;
  // Under replay the router's outputs decide nothing.
  p.b.experts({0, 1, 1, 0, 0, 2}, {0, 1, 2, 3, 4, 5});  // row 1 alone
  EXPECT_TRUE(p.compare().also.empty());
  p.a.m.contract.replay = p.b.m.contract.replay = "R3";
  EXPECT_EQ(classes(p.compare()), Names{"routing"});
}

TEST(AlignAlso, LogProbsOverEqualLogits) {
  Layers p;
  p.wrong_from_the_start();  // the log-prob of scored row 1 moves
  const auto digests = [](HandCapture& c, int64_t second) {
    auto about = c.about("logprob");
    about.name = "lm_head.output.digest", about.module = "lm_head", about.point = "output.digest";
    c.add<int64_t>(about, io::StoredType::i64, {3}, {1, second, 3});
  };
  digests(p.a, 2);
  digests(p.b, 9);
  EXPECT_TRUE(p.compare().also.empty()) << "its logits moved too";
  digests(p.b, 2);
  const Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"semantic"});
  EXPECT_NE(c.also[0].evidence.find("1 of 3 tokens with equal logits"), std::string::npos);
}

TEST(AlignAlso, TokensThatOneSideScores) {
  Layers p;
  p.wrong_from_the_start();
  auto scored = kScored;
  scored.push_back({1, 0, 2, 0});
  p.b.rows("scored", scored).values("logprob", "output", 1, {-0.5f, -1.75f, -2.5f, -9.0f}, -1);
  const Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"semantic"});
  EXPECT_NE(c.also[0].evidence.find("A scores 0 tokens and B 1"), std::string::npos);
}

/// A linear layer behind the first divergence, whose rows 0 and 2 reach it as they should.
struct Behind : Layers {
  Behind() {
    for (HandCapture* side : {&a, &b}) {
      side->values("attn_norm", "input", 1, {1, 2, 3}, 1);
      side->values("qkv", "input", 1, {1, 2, 3}, 1);
      auto codes = side->about("layers.0.qkv.input.codes");
      codes.name = "layers.1.qkv.input.codes", codes.layer = 1;
      side->add<uint8_t>(codes, io::StoredType::u8, {3, 1}, {1, 2, 3});
    }
    wrong_from_the_start();
    b.values("attn_norm", "input", 1, {1, 2.5f, 3}, 1);
    b.values("qkv", "input", 1, {1, 2.5f, 3}, 1);
    set_codes({1, 9, 3});
  }
  void set_codes(const std::vector<uint8_t>& x) {
    b.add<uint8_t>(b.about("layers.1.qkv.input.codes"), io::StoredType::u8, {3, 1}, x);
  }
};

TEST(AlignAlso, RowsThatPartAnewAreExecutionOrConversion) {
  Behind p;
  EXPECT_TRUE(p.compare().also.empty()) << "row 1 came wrong and goes wrong";
  p.b.values("qkv", "output", 1, {1, 2.5f, 4}, 1);  // row 2 goes wrong here
  Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"execution"});
  EXPECT_EQ(c.also[0].layer, 1);
  EXPECT_NE(c.also[0].evidence.find("1 of 3 rows of layers.1.qkv.output"), std::string::npos)
      << c.also[0].evidence;
  p.set_codes({1, 9, 4});  // already in its codes
  c = p.compare();
  ASSERT_EQ(classes(c), Names{"conversion"});
  // Codes are made before the norm's output is rounded: a norm that read something else explains them.
  p.b.values("attn_norm", "input", 1, {1, 2.5f, 3.25f}, 1);
  EXPECT_TRUE(p.compare().also.empty());
  // Other weights explain the output.
  Behind weights;
  weights.b.values("qkv", "output", 1, {1, 2.5f, 4}, 1);
  weights.b.m.weights.digests["layers.1.qkv"] = {"R"};
  EXPECT_EQ(classes(weights.compare()), Names{"weights"});
}

TEST(AlignAlso, AResidualSumThatPartsAnew) {
  Behind p;
  for (HandCapture* side : {&p.a, &p.b}) {
    side->values("attn_norm", "input", 1, {1, 2, 3}).values("o", "output", 1, {1, 1, 1});
    side->values("mlp_norm", "input", 1, {2, 3, 4});
  }
  EXPECT_TRUE(p.compare().also.empty());
  p.b.values("mlp_norm", "input", 1, {2, 3, 5});
  const Comparison c = p.compare();
  ASSERT_EQ(classes(c), Names{"execution"});
  EXPECT_EQ(c.also[0].module, "mlp_norm");
  p.b.values("o", "output", 1, {1, 1, 2});
  EXPECT_TRUE(p.compare().also.empty());
}

TEST(AlignAlso, IsShownOnThePageAndEscaped) {
  Layers p;
  p.wrong_from_the_start();
  for (HandCapture* side : {&p.a, &p.b}) side->m.weights.digests["layers.1.<o>"] = {side == &p.b ? "S" : "s"};
  const std::string page = render_comparison(p.compare());
  EXPECT_NE(page.find("Also differs"), std::string::npos);
  EXPECT_NE(page.find("layers.1.&lt;o&gt;"), std::string::npos);
  EXPECT_EQ(page.find("<o>"), std::string::npos);
  Layers single;
  single.wrong_from_the_start();
  EXPECT_EQ(render_comparison(single.compare()).find("Also differs"), std::string::npos);
}

TEST(AlignResidual, AWrongSumShowsWhereItArises) {
  Pair p;
  for (HandCapture* side : {&p.a, &p.b}) {
    side->values("o", "output", 1, {1, 2, 3});
    side->values("mlp_norm", "input", 1, {4, 5, 6});
    side->values("mlp_norm", "output", 1, {0.4f, 0.5f, 0.6f});
  }
  p.b.values("mlp_norm", "input", 1, {4, 5.5f, 6});
  p.b.values("mlp_norm", "output", 1, {0.4f, 0.55f, 0.6f});
  p.expect("execution", "layers.0.mlp_norm.input", "the residual stream went wrong");
  const auto steps = waterfall(p.compare());
  const auto at = std::ranges::find(steps, "layers.0.mlp_norm.input", &WaterfallStep::name);
  ASSERT_NE(at, steps.end());
  EXPECT_EQ((at - 1)->name, "layers.0.o.output");
  EXPECT_EQ((at - 1)->relative_l2, 0.0);
  EXPECT_GT(at->relative_l2, 0.0);
}

TEST(AlignResidual, CapturesFromBeforeItWasAPointStillCompare) {
  Pair p;
  p.a.values("mlp_norm", "input", 1, {4, 5, 6}).values("final_norm", "input", 1, {1, 2, 3}, -1);
  const Comparison c = p.compare();
  EXPECT_TRUE(c.same());
  EXPECT_EQ(c.not_compared, (std::vector<std::string>{"final_norm.input", "layers.0.mlp_norm.input"}));
  // A side that holds some of them and lacks one is damaged.
  p.b.values("final_norm", "input", 1, {1, 2, 3}, -1);
  EXPECT_THROW((void)p.compare(), Error);
}

}  // namespace
}  // namespace minite::diagnostics
