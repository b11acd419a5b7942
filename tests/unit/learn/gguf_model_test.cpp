// GGUF files as models: every weight has the bits that the folder has, whatever its names and order.
#include "learn/gguf_model.h"

#include <gtest/gtest.h>

#include "io/ggml_blocks.h"
#include "learn/checkpoint.h"
#include "model/rope.h"
#include "support/expect_error.h"
#include "support/tiny_gguf.h"

namespace minite {
namespace {
using namespace test_support;
using io::GgufType;
using io::GgufValues;

std::string bytes_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

/// A tiny model for the tokenizer of tiny_bpe.h.
ModelConfig with_vocabulary(ModelConfig c) {
  c.vocab_size = 264;
  c.bos_token_id = 260;
  c.eos_token_id = 261;
  return c;
}
Weights strong(const ModelConfig& config) {
  Weights weights(config, DType::bf16, Purpose::inference);
  fill_strong(weights, 5);
  return weights;
}

struct Case {
  ModelConfig config;
  std::string architecture;
};
std::vector<Case> cases() {
  return {{with_vocabulary(tiny_llama(24)), "llama"},
          {with_vocabulary(tiny_llama(32, true)), "llama"},
          {with_vocabulary(tiny_config(32)), "qwen3"},
          {with_vocabulary(tiny_experts(32, true)), "qwen3moe"}};
}

TEST(GgufModel, EveryArchitectureLoadsBitForBit) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.architecture);
    const TempFolder folder;
    const Weights weights = strong(one.config);
    gguf_image(weights).write(folder / "m.gguf", one.config, one.architecture);
    const ModelConfig config = load_model_config(folder / "m.gguf");
    EXPECT_EQ(to_json(config), to_json(one.config));
    require_fit(*io::load_tokenizer(folder / "m.gguf"), config, folder / "m.gguf");
    Weights loaded(config, DType::bf16, Purpose::inference);
    load_model(folder / "m.gguf", loaded);
    for (const Parameter& p : weights.parameters())
      EXPECT_EQ(bytes_of(p.weight), bytes_of(loaded.at(p.spec.name).weight)) << p.spec.name;
  }
}

class GgufEdit : public testing::Test {
 protected:
  const ModelConfig config_ = with_vocabulary(tiny_llama(32, true));
  const Weights weights_ = strong(config_);
  GgufImage image_ = gguf_image(weights_);
  TempFolder folder_;

  std::filesystem::path write() const {
    image_.write(folder_ / "m.gguf", config_, "llama");
    return folder_ / "m.gguf";
  }
  void refuse(ErrorCode code, const std::vector<std::string>& parts) const {
    expect_error(code, parts, [&] {
      Weights loaded(load_model_config(write()), DType::bf16, Purpose::inference);
      load_model(folder_ / "m.gguf", loaded);
    });
  }
  /// The matrix `name` as blocks of `type`: codes 1, 2, 3 ..., scale bytes of 1.
  void make_nvfp4(const std::string& name) {
    GgufImage::Tensor& t = image_.tensors.at(name);
    t.type = GgufType::nvfp4;
    t.bytes.clear();
    const int64_t count = t.shape[0] * t.shape[1];
    for (int64_t block = 0; block < count / 64; ++block) {
      t.bytes += std::string(4, '\x38');  // E4M3 1
      for (int i = 0; i < 32; ++i) t.bytes += static_cast<char>((block * 37 + i * 11) & 0xFF);
    }
  }
  std::vector<float> values(const std::string& name) const {
    const learn::GgufModel model(write());
    const learn::GgufModelTensor& t = model.tensors().at(name);
    std::vector<bf16> narrow(static_cast<size_t>(t.rows * t.cols));
    model.read(name, narrow);
    return {narrow.begin(), narrow.end()};
  }
};

TEST_F(GgufEdit, BlocksAreDecodedAndRoundedOnce) {
  GgufImage::Tensor& t = image_.tensors.at("blk.0.ffn_down.weight");
  const std::vector<float> source = values("model.layers.0.mlp.down_proj.weight");
  for (const GgufType type : {GgufType::q8_0, GgufType::q4_1, GgufType::q4_0, GgufType::f16, GgufType::f32}) {
    const io::GgufTypeRow& row = io::gguf_type(type);
    std::vector<std::byte> bytes(source.size() / static_cast<size_t>(row.block) *
                                 static_cast<size_t>(row.bytes));
    io::encode_blocks(type, source, bytes);
    t.type = type;
    t.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::vector<float> wanted(source.size());
    io::decode_blocks(type, bytes, wanted);
    for (float& x : wanted) x = bf16(x);
    EXPECT_EQ(values("model.layers.0.mlp.down_proj.weight"), wanted) << row.name;
  }
}

TEST_F(GgufEdit, TheSidecarScalesItsTensor) {
  make_nvfp4("blk.1.ffn_up.weight");
  image_.tensors["blk.1.ffn_up.scale"] = {GgufType::f32, {1}, bytes_of_floats({1.0f})};
  image_.tensors["blk.1.ffn_up.input_scale"] = {GgufType::f32, {1}, bytes_of_floats({3.0f})};
  const std::vector<float> once = values("model.layers.1.mlp.up_proj.weight");
  image_.tensors["blk.1.ffn_up.scale"].bytes = bytes_of_floats({0.375f});
  const std::vector<float> scaled = values("model.layers.1.mlp.up_proj.weight");
  for (size_t i = 0; i < once.size(); ++i) ASSERT_EQ(scaled[i], bf16(once[i] * 0.375f)) << i;
  EXPECT_NE(once, scaled);
  image_.tensors["blk.1.ffn_up.scale"] = {GgufType::f32, {2}, bytes_of_floats({1.0f, 1.0f})};
  refuse(ErrorCode::invalid_argument, {"blk.1.ffn_up.scale has 2 elements"});
}

TEST_F(GgufEdit, Nvfp4WithoutItsScaleIsRefused) {
  make_nvfp4("blk.0.attn_q.weight");
  refuse(ErrorCode::unsupported, {"blk.0.attn_q.weight", "NVFP4 without its blk.0.attn_q.scale"});
  image_.more_values = [](GgufValues& v) { v.put_boolean(learn::kNvfp4UnitScaleKey, true); };
  EXPECT_EQ(values("model.layers.0.self_attn.q_proj.weight").size(), 128u * 64u);
}

TEST_F(GgufEdit, WhatDoesNotFitIsNamed) {
  const GgufImage good = image_;
  image_.tensors["blk.0.attn_q.bias"] = {GgufType::f32, {128}, std::string(512, '\0')};
  refuse(ErrorCode::unsupported, {"blk.0.attn_q.bias", "llama"});
  image_ = good;
  image_.tensors["blk.7.attn_norm.weight"] = image_.tensors.at("blk.0.attn_norm.weight");
  refuse(ErrorCode::invalid_argument, {"blk.7.attn_norm.weight", "no place"});
  image_ = good;
  image_.tensors.erase("blk.1.ffn_gate.weight");
  refuse(ErrorCode::not_found, {"m.gguf", "model.layers.1.mlp.gate_proj.weight"});
  image_ = good;
  std::swap(image_.tensors.at("blk.0.ffn_up.weight"), image_.tensors.at("blk.0.ffn_down.weight"));
  refuse(ErrorCode::invalid_argument, {"blk.0.ffn_up.weight is [64, 96], the model needs [96, 64]"});
  image_ = good;
  image_.more_values = [](GgufValues& v) { v.put_text("llama.rope.scaling.type", "yarn"); };
  refuse(ErrorCode::unsupported, {"llama.rope.scaling.type", "yarn"});
  image_ = good;
  image_.more_values = [](GgufValues& v) { v.put_integer("llama.expert_count", io::GgufValueType::u32, 8); };
  refuse(ErrorCode::unsupported, {"llama.expert_count=8"});
  image_ = good;
  image_.write(folder_ / "other.gguf", config_, "gemma3");
  expect_error(ErrorCode::unsupported, {"general.architecture", "'gemma3'", "llama, qwen3, qwen3moe"},
               [&] { (void)load_model_config(folder_ / "other.gguf"); });
}

TEST_F(GgufEdit, RotaryFactorsAreThoseOfLlama) {
  ModelConfig c = config_;
  c.max_position_embeddings = 131072;
  const RopeScaling scaling{8, 1, 4, 8192};
  std::vector<float> factors;
  for (const double f : rope_factors(c.rope_theta, 16, scaling)) factors.push_back(static_cast<float>(f));
  image_.tensors["rope_freqs.weight"] = {GgufType::f32, {16}, bytes_of_floats(factors)};
  image_.write(folder_ / "m.gguf", c, "llama");
  const RopeScaling found = load_model_config(folder_ / "m.gguf").rope_scaling;
  EXPECT_EQ(found.factor, 8);
  EXPECT_EQ(found.original_max_position_embeddings, 8192);
  factors[3] *= 1.5f;
  image_.tensors["rope_freqs.weight"].bytes = bytes_of_floats(factors);
  image_.write(folder_ / "m.gguf", c, "llama");
  expect_error(ErrorCode::unsupported, {"rope_freqs.weight"},
               [&] { (void)load_model_config(folder_ / "m.gguf"); });
}

TEST_F(GgufEdit, EndOfTurnEndsASequence) {
  image_.more_values = [](GgufValues& v) {
    v.put_integer("tokenizer.ggml.eot_token_id", io::GgufValueType::u32, 7);
  };
  const ModelConfig c = load_model_config(write());
  EXPECT_TRUE(c.ends_sequence(7));
  EXPECT_TRUE(c.ends_sequence(261));
  EXPECT_FALSE(c.ends_sequence(8));
}

}  // namespace
}  // namespace minite
