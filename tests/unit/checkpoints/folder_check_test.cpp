// Faults that are found in a folder by anyone.
#include "checkpoints/folder_check.h"

#include <gtest/gtest.h>

#include <cstring>

#include "unit/checkpoints/small_model.h"

namespace minite::checkpoints {
namespace {

const std::string kDown = "model.layers.0.mlp.down_proj", kUp = "model.layers.0.mlp.up_proj";

HandFolder quantized(Container to) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  convert(test_context(), folder / "src", folder / "dst", with_input_amax(options_to(to)));
  return HandFolder::read(folder / "dst");
}
std::vector<Fault> faults_of(const HandFolder& hand) {
  const TempFolder folder;
  hand.write(folder / "q");
  return check_folder(folder / "q");
}
/// The only fault of a folder, "TENSOR WHAT".
std::string only_fault(const HandFolder& hand) {
  const std::vector<Fault> faults = faults_of(hand);
  EXPECT_EQ(faults.size(), 1u);
  return faults.empty() ? "" : faults.front().tensor + " " + faults.front().what;
}

TEST(FolderCheck, SoundFoldersHaveNoFault) {
  EXPECT_TRUE(faults_of(dense_folder()).empty());
  EXPECT_TRUE(faults_of(quantized(Container::modelopt)).empty());
  EXPECT_TRUE(faults_of(quantized(Container::compressed_tensors)).empty());
  const TempFolder empty;
  EXPECT_TRUE(check_folder(empty.path()).empty());
}

TEST(FolderCheck, WrongReciprocalsAreToldByMagnitude) {
  HandFolder q = quantized(Container::modelopt);
  q.set_f32(kDown + ".weight_scale_2", {3584});
  EXPECT_TRUE(holds(only_fault(q), kDown + ".weight_scale_2 is 3584")) << only_fault(q);
  EXPECT_TRUE(holds(only_fault(q), "its reciprocal"));
  q = quantized(Container::compressed_tensors);
  q.set_f32(kDown + ".weight_global_scale", {1.0f / 3584}, {1});
  EXPECT_TRUE(holds(only_fault(q), "looks like amax / 2688")) << only_fault(q);
  q = quantized(Container::compressed_tensors);
  q.set_f32(kDown + ".input_global_scale", {1.0f / 776}, {1});
  EXPECT_TRUE(holds(only_fault(q), "input_global_scale"));
}

TEST(FolderCheck, UnequalScalesOfAFusedGroup) {
  HandFolder q = quantized(Container::modelopt);
  q.set_f32(kUp + ".weight_scale_2", {0.5f});
  const std::string text = only_fault(q);
  EXPECT_TRUE(holds(text, "fuse into model.layers.0.mlp.gate_up_proj")) << text;
  EXPECT_TRUE(holds(text, kUp + " 0.5")) << text;
  q = quantized(Container::modelopt);
  q.set_f32("model.layers.0.self_attn.k_proj.input_scale", {0.25f});
  EXPECT_TRUE(holds(only_fault(q), "qkv_proj"));
}

TEST(FolderCheck, ConfigurationAndTensorsDisagree) {
  HandFolder q = quantized(Container::compressed_tensors);
  q.config["quantization_config"]["ignore"].push_back("re:.*down_proj");
  EXPECT_TRUE(holds(only_fault(q), "leaves it out")) << only_fault(q);
  q = quantized(Container::compressed_tensors);
  q.tensors.erase(kDown + ".weight_scale");
  EXPECT_TRUE(holds(only_fault(q), "has no " + kDown + ".weight_scale")) << only_fault(q);
  q = quantized(Container::modelopt);
  q.hf_quant_config["quantization"]["quant_algo"] = "W4A16_NVFP4";
  EXPECT_TRUE(holds(only_fault(q), "says modelopt W4A16_NVFP4, and config.json says modelopt NVFP4"));
  q = quantized(Container::modelopt);
  q.hf_quant_config["quantization"]["exclude_modules"].push_back("more");
  EXPECT_TRUE(holds(only_fault(q), "exclude_modules"));
  q = quantized(Container::modelopt);
  q.config["quantization_config"]["quant_method"] = "gptq";
  EXPECT_TRUE(holds(only_fault(q), "quant_method 'gptq' is not read"));
}

TEST(FolderCheck, MissingInputScaleOfFourBitActivations) {
  HandFolder q = quantized(Container::modelopt);
  q.tensors.erase(kDown + ".input_scale");
  EXPECT_TRUE(holds(only_fault(q), "has no " + kDown + ".input_scale, which NVFP4 needs"));
}

TEST(FolderCheck, InnerDimensionOfCodes) {
  HandFolder q = quantized(Container::modelopt);
  q.tensors[kDown + ".weight"] = {"U8", {64, 30}, std::string(64 * 30, '\0')};
  EXPECT_TRUE(holds(only_fault(q), "K = 60, which is no multiple of the 16")) << only_fault(q);
}

}  // namespace
}  // namespace minite::checkpoints
