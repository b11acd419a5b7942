// The scales of FP8 keys and values travel with checkpoints; what cannot be a scale is refused by name.
#include "learn/kv_scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "learn/checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;

constexpr const char* kKey = "model.layers.1.self_attn.k_proj.k_scale";
constexpr const char* kValue = "model.layers.0.self_attn.v_proj.v_scale";
constexpr const char* kOtherKey = "model.layers.1.self_attn.k_scale";

/// A tensor to put into a checkpoint, with its bytes.
struct Extra {
  std::string name;
  io::StoredType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};
Extra f32(const std::string& name, float x, std::vector<int64_t> shape = {1}) {
  const auto* p = reinterpret_cast<const std::byte*>(&x);
  return {name, io::StoredType::f32, std::move(shape), {p, p + 4}};
}
Extra narrow(const std::string& name, float x) {
  const bf16 value(x);
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  return {name, io::StoredType::bf16, {}, {p, p + 2}};
}

/// Saves a model, adds `extras` and loads the scales again.
std::vector<KvScale> scales_with(const std::vector<Extra>& extras) {
  const TempFolder folder;
  Weights weights(tiny_config(), DType::bf16, Purpose::inference);
  fill_strong(weights, 1);
  save_model(folder.path(), weights);
  const std::filesystem::path path = folder / "model.safetensors";
  const std::string memory = slurp(path);
  auto content =
      io::parse_safetensors({reinterpret_cast<const std::byte*>(memory.data()), memory.size()}, "x");
  for (const Extra& e : extras) content.tensors[e.name] = {e.type, e.shape, e.bytes};
  io::write_safetensors(path, content.tensors, content.metadata);
  load_model(folder.path(), weights);
  return weights.kv_scales();
}

TEST(KvScales, DefaultToOneAndAreNotWritten) {
  EXPECT_EQ(scales_with({}), (std::vector<KvScale>{{}, {}}));
  const TempFolder folder;
  Weights weights(tiny_config(), DType::bf16, Purpose::training);
  save_model(folder.path(), weights);
  save_trainer(folder.path(), weights, {});
  const io::SafetensorsFile model(folder / "model.safetensors"), trainer(folder / "trainer.safetensors");
  EXPECT_FALSE(model.tensors().contains(kKey));
  EXPECT_FALSE(trainer.tensors().contains("kv_scale"));
}

TEST(KvScales, BothNamesAndBothTypesAreRead) {
  const auto scales = scales_with({f32(kKey, 0.37f), f32(kValue, 1e-3f, {})});
  EXPECT_EQ(scales, (std::vector<KvScale>{{1.0f, 1e-3f}, {0.37f, 1.0f}}));
  EXPECT_EQ(scales_with({narrow(kOtherKey, 0.25f)}), (std::vector<KvScale>{{}, {0.25f, 1.0f}}));
  EXPECT_EQ(scales_with({f32(kKey, 0.25f), narrow(kOtherKey, 0.25f)}),
            (std::vector<KvScale>{{}, {0.25f, 1.0f}}));
}

TEST(KvScales, WhatCannotBeAScaleIsRefusedByName) {
  const auto refused = [](const std::vector<Extra>& extras, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::invalid_argument, parts, [&] { (void)scales_with(extras); });
  };
  for (const float bad : {0.0f, -0.5f, INFINITY, NAN}) {
    refused({f32(kKey, bad)}, {"model.safetensors", kKey, "positive and finite"});
    refused({narrow(kOtherKey, bad)}, {kOtherKey, "positive and finite"});
  }
  refused({f32(kKey, 0.5f), f32(kOtherKey, 0.25f)}, {kKey, "0.5", kOtherKey, "0.25"});
  refused({{kValue, io::StoredType::f32, {2}, std::vector<std::byte>(8)}}, {kValue, "F32 [2]"});
  refused({{kValue, io::StoredType::f64, {1}, std::vector<std::byte>(8)}},
          {kValue, "F64 [1]", "F32 or BF16"});
}

TEST(KvScales, AreKeptByBothFilesOfACheckpoint) {
  for (const ModelConfig& config : {tiny_config(24, true), tiny_experts()}) {
    const TempFolder folder;
    Weights saved(config, DType::bf16, Purpose::training);
    fill_strong(saved, 2);
    saved.set_kv_scales(uneven_kv_scales(config));
    save_model(folder.path(), saved);
    save_trainer(folder.path(), saved, {});
    const io::SafetensorsFile file(folder / "model.safetensors");
    EXPECT_EQ(file.at(kKey).type, io::StoredType::f32);
    EXPECT_EQ(file.at(kKey).shape, (std::vector<int64_t>{1}));
    Weights loaded(config, DType::bf16, Purpose::training), resumed(config, DType::bf16, Purpose::training);
    load_model(folder.path(), loaded);
    (void)load_trainer(folder.path(), resumed);
    EXPECT_EQ(loaded.kv_scales(), saved.kv_scales());
    EXPECT_EQ(resumed.kv_scales(), saved.kv_scales());
  }
}

TEST(KvScales, OfATrainerFileAreChecked) {
  const TempFolder folder;
  Weights weights(tiny_config(), DType::bf16, Purpose::training);
  weights.set_kv_scales({{1.0f, 0.5f}, {1.0f, -2.0f}});
  save_trainer(folder.path(), weights, {});
  expect_error(ErrorCode::invalid_argument, {"trainer.safetensors", "kv_scale", "-2"},
               [&] { (void)load_trainer(folder.path(), weights); });
  ModelConfig deeper = tiny_config();
  deeper.num_hidden_layers = 3;
  const io::SafetensorsFile file(folder / "trainer.safetensors");
  Weights other(deeper, DType::bf16, Purpose::training);
  expect_error(ErrorCode::invalid_argument, {"kv_scale", "[2, 2]", "[3, 2]"},
               [&] { load_trainer_kv_scales(file, other); });
}

/// The sampler's cache, of which the stores take every byte.
TEST(KvScales, AnFp8CacheTakesHalfTheMemoryOfBf16) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::inference);
  weights.set_kv_scales(uneven_kv_scales(config));
  WeightCache cache(weights);
  const auto resolved = resolve("bf16", {}, linear_modules(config), 2);
  const Network wide(weights, cache, resolved, ref::table(), Policy{});
  const Network narrow_kv(weights, cache, resolved, ref::table(), Policy{}, KvFormat::fp8);
  const int64_t elements = 2 * 5 * 64 * 2 * config.num_key_value_heads * config.head_dim;
  EXPECT_EQ(wide.kv_bytes(5), 2 * elements);
  EXPECT_EQ(narrow_kv.kv_bytes(5), elements);
  const std::vector<int64_t> first = {0};
  std::byte memory{};
  const KvSet a = wide.kv_set(&memory, 5, first), b = narrow_kv.kv_set(&memory, 5, first);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(a.layers[layer].scale, KvScale{});
    EXPECT_EQ(b.layers[layer].scale, weights.kv_scales()[layer]);
  }
}

}  // namespace
}  // namespace minite
