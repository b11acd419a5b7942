// Operands by columns as a probe is told of them: the codes are those of the value beside them, of every
// module that quantizes them for a backward product and of no other.
#include <gtest/gtest.h>

#include <map>

#include "learn/learner.h"
#include "ops/ops.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;

/// Makes the codes again from the value, and counts operands by point and tokens by module and expert.
class Again : public Probe {
 public:
  std::map<Point, int> told;
  std::map<int64_t, int64_t> gradient_rows;  ///< by expert
  int64_t experts_rows = 0;                  ///< of the modules of experts

  void value(const Tap& at, const TensorView& value) override {
    if (at.point == Point::grad_output && at.module.starts_with("experts.")) experts_rows += value.rows;
  }
  void columns(const Tap& at, const TensorView& value, const QTensor& codes) override {
    SCOPED_TRACE(std::string(at.module) + " " + std::string(to_string(at.point)));
    ++told[at.point];
    if (at.point == Point::grad_output && at.module.starts_with("experts."))
      gradient_rows[at.expert] += value.rows;
    EXPECT_EQ(at.expert >= 0, at.module.starts_with("experts."));
    QuantSpec spec = codes.spec;
    ASSERT_EQ(codes.rows, value.cols);
    ASSERT_EQ(codes.cols, spec.stored_cols(value.rows));
    spec.rounding = Rounding::nearest;
    const Buffer memory(QTensor::bytes(spec, codes.rows, codes.cols));
    const QTensor q = QTensor::place(spec, codes.rows, codes.cols, memory.data());
    ThreadPool pool(1);
    ops::quantize({&fast_table(), &pool, nullptr, {}}, {value, Orientation::columns, q, {}});
    const auto same = [](const uint8_t* a, const uint8_t* b, int64_t bytes) {
      return std::equal(a, a + bytes, b);
    };
    EXPECT_TRUE(same(q.block_scales, codes.block_scales, q.rows * q.scale_stride()));
    if (codes.spec.rounding == Rounding::nearest) {
      EXPECT_TRUE(same(q.codes, codes.codes, q.rows * q.code_stride()));
    }
  }
};

/// What a step of `recipe` shows.
Again shown(const ModelConfig& config, const std::string& recipe) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 1);
  Sides sides(weights, {.recipe = recipe, .learner = {64, 48}, .policy = {Policy::Kind::fastest, {}}});
  Again probe;
  sides.learner.set_probe(&probe);
  const std::vector<Sequence> batch = {{random_tokens(30, config.vocab_size, 2, 0), 5},
                                       {random_tokens(19, config.vocab_size, 2, 1), 3}};
  (void)sides.learner.accumulate(batch, 1.0f, Learner::EntropyGradient::none, [](const MicroBatch& m) {
    std::fill(m.dlogp.begin(), m.dlogp.end(), -1.0f);
  });
  return probe;
}

TEST(Columns, AreThoseOfEveryLinearModuleThatQuantizesThem) {
  const ModelConfig config = tiny_config();
  const auto modules = static_cast<int>(4 * config.num_hidden_layers);
  for (const char* recipe : {"nvfp4_te", "nvfp4_per_token", "nvfp4_2d", "mxfp8"}) {
    SCOPED_TRACE(recipe);
    const Again probe = shown(config, recipe);
    for (const Point point : {Point::input, Point::weight, Point::grad_output})
      EXPECT_EQ(probe.told.at(point), modules) << to_string(point);
  }
  EXPECT_TRUE(shown(config, "bf16").told.empty());
  EXPECT_TRUE(shown(config, "nvfp4_w4a16").told.empty());
}

TEST(Columns, OfExpertsAreTheirOwn) {
  const Again probe = shown(tiny_experts(), "nvfp4_per_token");
  int64_t rows = 0;
  for (const auto& [expert, count] : probe.gradient_rows) rows += count;
  EXPECT_GT(probe.gradient_rows.size(), 1u);
  EXPECT_EQ(rows, probe.experts_rows);
}

}  // namespace
}  // namespace minite
