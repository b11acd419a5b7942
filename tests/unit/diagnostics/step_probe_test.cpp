// A probe that is told of a step by hand: what it sums up, what it leaves out, what it dumps.
#include "diagnostics/step_probe.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "io/safetensors.h"
#include "ops/ops.h"
#include "support/temp_folder.h"

namespace minite::diagnostics {
namespace {

using nlohmann::json;
using test_support::TempFolder;

class StepProbeTest : public testing::Test {
 protected:
  StepProbe make(const std::string& features) {
    return {parse_probe_rules("a: {transformer_engine: {" + features + "}}", "rules"), context_};
  }
  static std::vector<json> lines(StepProbe& probe) {
    std::vector<json> all;
    for (const std::string& text : probe.finish()) all.push_back(json::parse("{" + text + "}"));
    return all;
  }
  static TensorView view(std::vector<float>& x, int64_t rows) {
    return {x.data(), rows, static_cast<int64_t>(x.size()) / rows};
  }

  ThreadPool pool_{1};
  Context context_{&backend("ref"), &pool_, nullptr, {}};
  TempFolder folder_;
};

TEST_F(StepProbeTest, ListensInItsStepsToItsSidesOnly) {
  StepProbe probe = make("LogTensorStats: {freq: 3, sides: learner, tensors: [output]}");
  probe.begin(2, folder_ / "dumps");
  EXPECT_EQ(probe.side(Side::learner), nullptr);
  probe.begin(4, folder_ / "dumps");
  EXPECT_NE(probe.side(Side::learner), nullptr);
  EXPECT_EQ(probe.side(Side::sampler), nullptr);
  EXPECT_TRUE(probe.finish().empty());
  EXPECT_EQ(probe.side(Side::learner), nullptr);
  // Gradients of weights need nobody to listen.
  StepProbe gradients = make("LogTensorStats: {tensors: [wgrad]}");
  gradients.begin(1, folder_ / "dumps");
  EXPECT_EQ(gradients.side(Side::learner), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "dumps"));
}

TEST_F(StepProbeTest, ActivationsAddUpWeightsAreTakenOnce) {
  StepProbe probe = make("LogTensorStats: {stats: [max, l1_norm]}");
  probe.begin(1, folder_ / "dumps");
  std::vector<float> first = {1, 2}, second = {-3, 5, 7, 1}, weight = {4, 4};
  Probe& learner = *probe.side(Side::learner);
  for (auto* x : {&first, &second}) {
    learner.value({0, "qkv", Point::input}, view(*x, 1));
    learner.value({0, "qkv", Point::weight}, view(weight, 1));
  }
  const auto all = lines(probe);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0], json::parse(R"({"side":"learner","rank":0,"layer":0,"module":"qkv","tensor":"activation",
      "expert":null,"count":6,"max":7.0,"l1_norm":19.0})"));
  EXPECT_EQ(all[1]["tensor"], "weight");
  EXPECT_EQ(all[1]["count"], 2);
}

TEST_F(StepProbeTest, CodesGoWithTheValueBeforeThem) {
  StepProbe probe =
      make("LogNvfp4TensorStats: {tensors: [activation], stats: [zero_scale_blocks, scale_histogram]}");
  probe.begin(1, folder_ / "dumps");
  std::vector<float> x(32, 0.0f);
  x[0] = 6;
  const QuantSpec spec{.format = FormatId::nvfp4};
  const Buffer memory(QTensor::bytes(spec, 1, 32));
  const QTensor q = QTensor::place(spec, 1, 32, memory.data());
  ops::quantize(context_, {view(x, 1), Orientation::rows, q, {}});
  Probe& learner = *probe.side(Side::learner);
  learner.value({0, "qkv", Point::input}, view(x, 1));
  learner.codes({0, "qkv", Point::input}, q);
  learner.codes({0, "o", Point::input}, q);  // no value came before
  const auto all = lines(probe);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["zero_scale_blocks"], 1);
  EXPECT_EQ(all[0]["scale_histogram"], json::parse("[[0,1],[56,1]]"));
  EXPECT_FALSE(all[0].contains("max"));
}

TEST_F(StepProbeTest, PackedRowsBelongToTheirExpert) {
  StepProbe probe = make("LogTensorStats: {tensors: [activation, wgrad], stats: [max]}");
  probe.begin(1, folder_ / "dumps");
  // Two tokens, two experts each, of four: rows are sorted by expert.
  const std::vector<int32_t> expert = {3, 0, 3, 1}, slot_of = {1, 3, 0, 2};
  std::vector<float> x = {1, 1, 2, 2, 3, 3, 4, 4};
  Probe& learner = *probe.side(Side::learner);
  learner.experts(5, {expert, slot_of, 2});
  learner.value({5, "experts.down", Point::input}, view(x, 4));
  probe.gradient("layers.5.experts.down", view(x, 4), 2);
  const auto all = lines(probe);
  ASSERT_EQ(all.size(), 5u);
  const auto line = [&](size_t i) {
    return std::tuple(all[i]["tensor"].get<std::string>(), all[i]["expert"].get<int>(),
                      all[i]["count"].get<int>(), all[i]["max"].get<double>());
  };
  EXPECT_EQ(line(0), std::tuple("activation", 0, 2, 1.0));
  EXPECT_EQ(line(1), std::tuple("activation", 1, 2, 2.0));
  EXPECT_EQ(line(2), std::tuple("activation", 3, 4, 4.0));
  EXPECT_EQ(line(3), std::tuple("wgrad", 0, 4, 2.0));
  EXPECT_EQ(line(4), std::tuple("wgrad", 1, 4, 4.0));
  EXPECT_EQ(all[0]["layer"], 5);
  EXPECT_EQ(all[0]["module"], "experts.down");
}

TEST_F(StepProbeTest, OperandsByColumnsHaveTheirOwnNamesAndAreAskedFor) {
  std::vector<float> x(64, 0.25f), w(64, 1.0f);
  const QuantSpec spec{.format = FormatId::mxfp8};
  const Buffer memory(QTensor::bytes(spec, 2, 32));
  const QTensor q = QTensor::place(spec, 2, 32, memory.data());
  ops::quantize(context_, {view(x, 32), Orientation::columns, q, {}});
  const auto show = [&](StepProbe& probe) {
    probe.begin(1, folder_ / "dumps");
    Probe& learner = *probe.side(Side::learner);
    for (int pass = 0; pass < 2; ++pass) {
      // Between a gradient and its codes along the rows, as a module does.
      learner.value({0, "qkv", Point::grad_output}, view(x, 2));
      learner.columns({0, "qkv", Point::grad_output}, view(x, 32), q);
      learner.columns({0, "qkv", Point::input}, view(x, 32), q);
      learner.codes({0, "qkv", Point::grad_output}, q);
      learner.columns({0, "qkv", Point::weight, 3}, view(w, 32), q);
    }
    return lines(probe);
  };
  StepProbe usual = make("LogTensorStats: {stats: [max, underflows%]}");
  auto all = show(usual);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["tensor"], "gradient");
  EXPECT_TRUE(all[0].contains("underflows%")) << "operands in between take nothing from the codes";
  StepProbe operands = make("LogTensorStats: {tensors: operands, stats: [max, scale_histogram]}");
  all = show(operands);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], json::parse(R"({"side":"learner","rank":0,"layer":0,"module":"qkv",
      "tensor":"activation_wgrad","expert":null,"count":128,"max":0.25,"scale_histogram":[[117,4]]})"));
  EXPECT_EQ(all[1]["tensor"], "weight_dgrad");
  EXPECT_EQ(all[1]["expert"], 3);
  EXPECT_EQ(all[1]["count"], 64) << "a weight counts once";
  EXPECT_EQ(all[2]["tensor"], "gradient_wgrad");
  StepProbe one = make("LogNvfp4TensorStats: {tensors: gradient_wgrad}");
  all = show(one);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0].contains("max"));
}

TEST_F(StepProbeTest, LogitsOfTheBackwardPassDoNotCountAgain) {
  StepProbe probe = make("LogTensorStats: {tensors: output}");
  probe.begin(1, folder_ / "dumps");
  std::vector<float> logits = {1, 2, 3, 4};
  const std::vector<int32_t> scored = {0, 1, 2, 3};
  Probe& learner = *probe.side(Side::learner);
  learner.batch({});
  learner.scored(scored);
  for (int part = 0; part < 4; ++part) learner.value({-1, "lm_head"}, view(logits, 2));
  EXPECT_EQ(lines(probe).at(0)["count"], 8);
}

TEST_F(StepProbeTest, DumpsHoldValuesCodesAndRows) {
  StepProbe probe = make("DumpTensors: {tensors: [activation, wgrad]}");
  probe.begin(7, folder_ / "dumps");
  std::vector<float> x(64, 0.5f), grad = {1, 2};
  x[33] = 6;
  const QuantSpec spec{.format = FormatId::nvfp4, .outer = OuterScale::row};
  const Buffer memory(QTensor::bytes(spec, 2, 32));
  const QTensor q = QTensor::place(spec, 2, 32, memory.data());
  ops::quantize(context_, {view(x, 2), Orientation::rows, q, {}});
  const std::vector<int32_t> token = {11, 12}, pos = {0, 1};
  const std::vector<int64_t> request = {3, 3};
  Probe& learner = *probe.side(Side::learner);
  for (int pass = 0; pass < 2; ++pass) {
    learner.batch({token, pos, request});
    learner.value({0, "qkv", Point::input}, view(x, 2));
    learner.codes({0, "qkv", Point::input}, q);
  }
  probe.gradient("lm_head", view(grad, 1), 1);
  EXPECT_TRUE(probe.finish().empty());  // a dump is no statistic

  const auto folder = folder_ / "dumps/step_000007";
  const json manifest = json::parse(test_support::slurp(folder / "manifest.json"));
  EXPECT_EQ(manifest["step"], 7);
  ASSERT_EQ(manifest["files"].size(), 3u);
  EXPECT_EQ(manifest["files"][0]["file"], "learner_pass_00000.safetensors");
  EXPECT_EQ(manifest["files"][2]["file"], "learner_gradients.safetensors");
  EXPECT_EQ(manifest["files"][0]["tensors"][1]["spec"], "nvfp4[te,outer=row]");
  const io::SafetensorsFile file(folder / "learner_pass_00001.safetensors");
  EXPECT_EQ(file.at("layers.0.qkv.activation").shape, (std::vector<int64_t>{2, 32}));
  EXPECT_EQ(0, std::memcmp(file.at("layers.0.qkv.activation").bytes.data(), x.data(), 256));
  EXPECT_EQ(0, std::memcmp(file.at("layers.0.qkv.activation.codes").bytes.data(), q.codes, 32));
  EXPECT_EQ(file.at("layers.0.qkv.activation.outer_scale").shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(0, std::memcmp(file.at("rows.token").bytes.data(), token.data(), 8));
}

}  // namespace
}  // namespace minite::diagnostics
