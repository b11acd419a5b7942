// What convert --recipe stores of a run's BF16 weights are the codes and scales that its engine computes
// with.
#include <gtest/gtest.h>

#include "learn/checkpoint.h"
#include "minite/recipe.h"
#include "model/weights.h"
#include "support/tiny_model.h"
#include "unit/checkpoints/small_model.h"

namespace minite::checkpoints {
namespace {

std::string bytes(const uint8_t* data, int64_t count) {
  return {reinterpret_cast<const char*>(data), static_cast<size_t>(count)};
}

/// The codes of `modules` one below the other are those of a quantization unit of the engine.
void expect_unit(const HandFolder& file, const std::vector<std::string>& modules, const QTensor& unit) {
  std::string codes, scales;
  for (const std::string& module : modules) {
    codes += file.tensors.at(module + ".weight").bytes;
    scales += file.tensors.at(module + ".weight_scale").bytes;
  }
  EXPECT_TRUE(codes == bytes(unit.codes, unit.rows * unit.code_stride())) << modules[0];
  EXPECT_TRUE(scales == bytes(unit.block_scales, unit.rows * unit.scale_stride())) << modules[0];
}

TEST(EngineBytes, ConvertedRecipesEqualTheWeightsOfTheSampler) {
  const Context ctx = test_context();
  Weights weights(test_support::tiny_experts(), DType::bf16, Purpose::inference);
  weights.initialize(3);
  const TempFolder folder;
  fs::create_directories(folder / "run");
  save_model(folder / "run", weights);
  for (const char* recipe : {"nvfp4_per_token", "nvfp4_cursor2_cutlass_v2", "nvfp4_per_tensor", "nvfp4_te",
                             "nvfp4_2d", "nvfp4_per_token_4over6", "nvfp4_w4a16"}) {
    const QLinearParams params = get_qlinear_params(recipe);
    WeightCache cache(weights);
    const LinearWeights qkv = cache.add("layers.0.qkv", params), o = cache.add("layers.1.o", params);
    const std::vector<LinearWeights> experts = cache.add_units("layers.1.experts.gate_up", params);
    cache.refresh(ctx);
    ConvertOptions options = options_to(Container::modelopt);
    options.spec = params.fprop.b;
    convert(ctx, folder / "run", folder / "out", options);
    const HandFolder file = HandFolder::read(folder / "out");
    const std::string first = "model.layers.0.self_attn.", second = "model.layers.1.";
    SCOPED_TRACE(recipe);
    expect_unit(file, {first + "q_proj", first + "k_proj", first + "v_proj"}, qkv.fprop);
    expect_unit(file, {second + "self_attn.o_proj"}, o.fprop);
    for (size_t e = 0; e < experts.size(); ++e) {
      const std::string expert = fmt::format("{}mlp.experts.{}.", second, e);
      expect_unit(file, {expert + "gate_proj", expert + "up_proj"}, experts[e].fprop);
    }
    fs::remove_all(folder / "out");
  }
}

}  // namespace
}  // namespace minite::checkpoints
