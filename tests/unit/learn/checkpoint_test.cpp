#include "learn/checkpoint.h"

#include <gtest/gtest.h>

#include "io/safetensors.h"
#include "support/edit_checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;

/// Weights after a fill and with moments that are no zeros.
Weights trained(const ModelConfig& config, uint64_t seed) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, seed);
  for (const Parameter& p : weights.parameters()) {
    for (int64_t i = 0; i < p.m.size(); ++i) {
      p.m.as<float>()[i] = 1e-3f * static_cast<float>(i % 97 - 48);
      p.v.as<float>()[i] = 1e-5f * static_cast<float>(i % 89 + 1);
    }
  }
  return weights;
}

TEST(Checkpoint, ModelAndTrainerComeBackBitForBit) {
  for (const ModelConfig& original :
       {tiny_config(24, false), tiny_config(24, true), tiny_experts(24), tiny_llama(24)}) {
    const TempFolder folder;
    const Weights saved = trained(original, 1);
    save_model(folder.path(), saved);
    save_trainer(folder.path(), saved, {"triage", 17, 123, 9});
    const ModelConfig config = load_model_config(folder.path());
    EXPECT_EQ(to_json(config), to_json(saved.config()));
    Weights loaded(config, DType::bf16, Purpose::training);
    load_model(folder.path(), loaded);
    for (const Parameter& p : saved.parameters()) {
      const Parameter& q = loaded.at(p.spec.name);
      EXPECT_EQ(bytes_of(p.weight), bytes_of(q.weight)) << p.spec.name;
      for (int64_t i = 0; i < p.weight.size(); ++i) {
        ASSERT_EQ(q.master.as<float>()[i], static_cast<float>(p.weight.as<bf16>()[i])) << p.spec.name;
      }
    }
    const int64_t version = loaded.version();
    const TrainerState state = load_trainer(folder.path(), loaded);
    EXPECT_GT(loaded.version(), version) << "weights that depend on a version must be made again";
    EXPECT_EQ(state.stage, "triage");
    EXPECT_EQ(state.step, 17);
    EXPECT_EQ(state.global_step, 123);
    EXPECT_EQ(state.update, 9);
    for (const Parameter& p : saved.parameters()) {
      const Parameter& q = loaded.at(p.spec.name);
      EXPECT_EQ(bytes_of(p.master), bytes_of(q.master)) << p.spec.name;
      EXPECT_EQ(bytes_of(p.m), bytes_of(q.m)) << p.spec.name;
      EXPECT_EQ(bytes_of(p.v), bytes_of(q.v)) << p.spec.name;
      EXPECT_EQ(bytes_of(p.weight), bytes_of(q.weight)) << p.spec.name;
    }
  }
}

TEST(Checkpoint, FilesDependOnTheWeightsAlone) {
  const TempFolder one, two;
  save_model(one.path(), trained(tiny_config(), 2));
  save_model(two.path(), trained(tiny_config(), 2));
  EXPECT_EQ(slurp(one / "model.safetensors"), slurp(two / "model.safetensors"));
}

TEST(Checkpoint, FusedTensorsAreTakenApart) {
  const TempFolder folder;
  const ModelConfig config = tiny_config(24, true);
  const Weights weights = trained(config, 3);
  save_model(folder.path(), weights);
  const io::SafetensorsFile file(folder / "model.safetensors");
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(file.at("model.layers.1.self_attn.q_proj.weight").shape, (Shape{96, 64}));
  EXPECT_EQ(file.at("model.layers.1.self_attn.v_proj.weight").shape, (Shape{48, 64}));
  EXPECT_EQ(file.at("model.layers.1.mlp.up_proj.weight").shape, (Shape{96, 64}));
  EXPECT_EQ(file.at("model.layers.0.input_layernorm.weight").shape, (Shape{64}));
  EXPECT_FALSE(file.tensors().contains("lm_head.weight"));
  // up_proj is the second half of gate_up.
  const auto& up = file.at("model.layers.1.mlp.up_proj.weight");
  const TensorView half = weights.at("layers.1.gate_up").weight.slice_rows(96, 96);
  EXPECT_EQ(std::memcmp(up.bytes.data(), half.data, up.bytes.size()), 0);
}

TEST(Checkpoint, ExpertsAreTakenApart) {
  const TempFolder folder;
  const Weights weights = trained(tiny_experts(), 3);
  save_model(folder.path(), weights);
  const io::SafetensorsFile file(folder / "model.safetensors");
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(file.at("model.layers.0.mlp.gate.weight").shape, (Shape{6, 64}));
  EXPECT_EQ(file.at("model.layers.1.mlp.experts.5.down_proj.weight").shape, (Shape{64, 32}));
  const auto& up = file.at("model.layers.1.mlp.experts.4.up_proj.weight");
  EXPECT_EQ(up.shape, (Shape{32, 64}));
  const TensorView part = weights.at("layers.1.experts.gate_up").weight.slice_rows(4 * 64 + 32, 32);
  EXPECT_EQ(std::memcmp(up.bytes.data(), part.data, up.bytes.size()), 0);
}

TEST(Checkpoint, AnotherShapeIsNamed) {
  const TempFolder folder;
  save_model(folder.path(), trained(tiny_config(), 4));
  save_trainer(folder.path(), trained(tiny_config(), 4), {});
  ModelConfig wider = tiny_config();
  wider.intermediate_size = 128;
  Weights weights(wider, DType::bf16, Purpose::training);
  expect_error(ErrorCode::invalid_argument,
               {"model.safetensors", "model.layers.0.mlp.gate_proj.weight", "[96, 64]", "[128, 64]"},
               [&] { load_model(folder.path(), weights); });
  expect_error(ErrorCode::invalid_argument,
               {"trainer.safetensors", "master.layers.0.gate_up", "[192, 64]", "[256, 64]"},
               [&] { (void)load_trainer(folder.path(), weights); });
}

TEST(Checkpoint, ExpertsThatDoNotFitAreNamed) {
  const std::string last = "model.layers.1.mlp.experts.5.up_proj.weight";
  const std::string surplus = "model.layers.1.mlp.experts.6.up_proj.weight";
  const Weights six = trained(tiny_experts(), 8);
  for (const int64_t count : {5, 7}) {
    const TempFolder folder;
    save_model(folder.path(), six);
    ModelConfig other = tiny_experts();
    other.num_experts = count;
    Weights weights(other, DType::bf16, Purpose::training);
    expect_error(ErrorCode::invalid_argument,
                 {"model.layers.0.mlp.gate.weight", "[6, 64]", fmt::format("[{}, 64]", count)},
                 [&] { load_model(folder.path(), weights); });
  }
  Weights weights(tiny_experts(), DType::bf16, Purpose::training);
  const TempFolder more, fewer;
  save_model(more.path(), six);
  edit_tensors(more.path(), [&](io::TensorMap& t) { t[surplus] = t.at(last); });
  expect_error(ErrorCode::invalid_argument,
               {"model.safetensors", surplus, "has no place", "57 tensors", "58"},
               [&] { load_model(more.path(), weights); });
  save_model(fewer.path(), six);
  edit_tensors(fewer.path(), [&](io::TensorMap& t) { t.erase(last); });
  expect_error(ErrorCode::not_found, {"model.safetensors", "has no tensor \"" + last},
               [&] { load_model(fewer.path(), weights); });
}

TEST(Checkpoint, TensorsThatNoParameterReadsAreNamed) {
  const TempFolder folder;
  save_model(folder.path(), trained(tiny_config(32, true), 9));
  Weights tied(tiny_config(32, true), DType::bf16, Purpose::training);
  const auto add_head = [](io::TensorMap& t) { t["lm_head.weight"] = t.at("model.embed_tokens.weight"); };
  edit_tensors(folder.path(), add_head);
  EXPECT_NO_THROW(load_model(folder.path(), tied)) << "a tied head stored again";
  edit_tensor(folder.path(), "lm_head.weight", [](EditedTensor& t) { t.bytes[3] ^= std::byte{1}; });
  expect_error(ErrorCode::invalid_argument, {"lm_head.weight", "has no place"},
               [&] { load_model(folder.path(), tied); });
}

TEST(Checkpoint, AnotherTypeIsNamed) {
  const TempFolder folder;
  Weights weights = trained(tiny_config(), 5);
  const std::vector<float> wide(40 * 64);
  io::write_safetensors(
      folder / "model.safetensors",
      {{"model.embed_tokens.weight", {io::StoredType::f32, {40, 64}, std::as_bytes(std::span(wide))}}});
  expect_error(ErrorCode::invalid_argument, {"model.embed_tokens.weight", "F32", "BF16"},
               [&] { load_model(folder.path(), weights); });
}

TEST(Checkpoint, AMissingTensorIsNamed) {
  const TempFolder folder;
  save_model(folder.path(), trained(tiny_config(32, true), 6));
  Weights untied(tiny_config(32, false), DType::bf16, Purpose::training);
  expect_error(ErrorCode::not_found, {"lm_head.weight"}, [&] { load_model(folder.path(), untied); });
  save_trainer(folder.path(), trained(tiny_config(32, true), 6), {});
  expect_error(ErrorCode::not_found, {"lm_head"}, [&] { (void)load_trainer(folder.path(), untied); });
}

TEST(Checkpoint, MissingAndCutFilesAreErrors) {
  const TempFolder folder;
  Weights weights = trained(tiny_config(), 7);
  expect_error(ErrorCode::not_found, {"config.json"}, [&] { (void)load_model_config(folder.path()); });
  expect_error(ErrorCode::not_found, {"model.safetensors"}, [&] { load_model(folder.path(), weights); });
  expect_error(ErrorCode::not_found, {"trainer.safetensors"},
               [&] { (void)load_trainer(folder.path(), weights); });
  save_model(folder.path(), weights);
  const std::string whole = slurp(folder / "model.safetensors");
  spill(folder / "model.safetensors", whole.substr(0, whole.size() - 1));
  expect_error(ErrorCode::corrupt_data, {"model.safetensors"}, [&] { load_model(folder.path(), weights); });
}

/// The trainer's file with other metadata.
void rewrite(const TempFolder& folder, const io::Metadata& metadata) {
  const std::string copy = slurp(folder / "trainer.safetensors");
  const auto content = io::parse_safetensors(std::as_bytes(std::span(copy)), "copy");
  io::write_safetensors(folder / "trainer.safetensors", content.tensors, metadata);
}

TEST(Checkpoint, DamagedTrainerMetadataIsNamed) {
  const TempFolder folder;
  Weights weights = trained(tiny_config(), 8);
  save_trainer(folder.path(), weights, {});
  const io::Metadata good = {{"stage", "sft"}, {"step", "1"}, {"global_step", "2"}, {"update", "3"}};
  const auto load = [&] { (void)load_trainer(folder.path(), weights); };
  for (const auto& [key, value] : good) {
    io::Metadata missing = good;
    missing.erase(key);
    rewrite(folder, missing);
    expect_error(ErrorCode::corrupt_data, {"trainer.safetensors", "'" + key + "'"}, load);
  }
  for (const char* text : {"", "12x", "x12", "1.5", "99999999999999999999", " 3"}) {
    io::Metadata damaged = good;
    damaged["global_step"] = text;
    rewrite(folder, damaged);
    expect_error(ErrorCode::corrupt_data, {"trainer.safetensors", "'global_step'", text}, load);
  }
  rewrite(folder, good);
  EXPECT_EQ(load_trainer(folder.path(), weights).update, 3);
}

TEST(Checkpoint, OnlyBf16WeightsAreExported) {
  const TempFolder folder;
  const Weights weights(tiny_config(), DType::f64, Purpose::training);
  expect_error(ErrorCode::invalid_argument, {"f64", "bf16"}, [&] { save_model(folder.path(), weights); });
}

}  // namespace
}  // namespace minite
