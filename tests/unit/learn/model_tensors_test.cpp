// Weights in shards.
#include "learn/model_tensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "learn/checkpoint.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace minite {
namespace {
using namespace test_support;
using nlohmann::json;

/// A tiny model's folder, cut into two shards; returns the index.
json write_shards(const TempFolder& folder, const Weights& weights) {
  save_model(folder.path(), weights);
  const std::string memory = slurp(folder / "model.safetensors");
  const io::SafetensorsContent whole =
      io::parse_safetensors({reinterpret_cast<const std::byte*>(memory.data()), memory.size()}, "whole");
  std::array<io::TensorMap, 2> parts;
  json index = {{"metadata", json::object()}, {"weight_map", json::object()}};
  const std::array<std::string, 2> names = {"model-00001-of-00002.safetensors",
                                            "model-00002-of-00002.safetensors"};
  size_t i = 0;
  for (const auto& [name, info] : whole.tensors) {
    index["weight_map"][name] = names[i % 2];
    parts[i++ % 2][name] = info;
  }
  for (size_t part = 0; part < 2; ++part) io::write_safetensors(folder / names[part], parts[part]);
  spill(folder / "model.safetensors.index.json", index.dump());
  std::filesystem::remove(folder / "model.safetensors");
  return index;
}

TEST(ModelTensors, ShardsLoadAsTheWhole) {
  const TempFolder folder;
  Weights weights(tiny_llama(), DType::bf16, Purpose::inference),
      loaded(tiny_llama(), DType::bf16, Purpose::inference);
  fill_strong(weights, 3);
  (void)write_shards(folder, weights);
  load_model(folder.path(), loaded);
  for (const Parameter& p : weights.parameters())
    EXPECT_EQ(bytes_of(p.weight), bytes_of(loaded.at(p.spec.name).weight)) << p.spec.name;
}

TEST(ModelTensors, IndexAndShardsThatDisagreeAreNamed) {
  const TempFolder folder;
  Weights weights(tiny_llama(), DType::bf16, Purpose::inference);
  const json good = write_shards(folder, weights);
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& parts, const json& index) {
    spill(folder / "model.safetensors.index.json", index.dump());
    expect_error(code, parts, [&] { (void)ModelTensors(folder.path()); });
  };
  json index = good;
  index["weight_map"]["model.norm.weight"] = "../model.safetensors";
  refuse(ErrorCode::corrupt_data, {"model.norm.weight", "../model.safetensors", "no name of a file"}, index);
  index["weight_map"]["model.norm.weight"] = 3;
  refuse(ErrorCode::corrupt_data, {"model.norm.weight", "no name of a file"}, index);
  index = good;
  index["weight_map"].erase("model.norm.weight");
  refuse(ErrorCode::corrupt_data, {"holds model.norm.weight", "index.json"}, index);
  index = good;
  index["weight_map"]["model.extra.weight"] = good["weight_map"]["model.norm.weight"];
  refuse(ErrorCode::corrupt_data, {"model.extra.weight is not in"}, index);
  refuse(ErrorCode::corrupt_data, {"weight_map"}, json::array());
  index = good;
  index["weight_map"]["model.norm.weight"] = "model-00003-of-00002.safetensors";
  refuse(ErrorCode::corrupt_data, {"holds model.norm.weight"}, index);
  std::filesystem::remove(folder / "model-00002-of-00002.safetensors");
  refuse(ErrorCode::not_found, {"model-00002-of-00002.safetensors"}, good);
}

TEST(ModelTensors, GenerationConfigAddsWhatEndsASequence) {
  const TempFolder folder;
  ModelConfig c = tiny_llama();
  c.eos_token_id = 3;
  spill(folder / "config.json", to_json(c));
  spill(folder / "generation_config.json", R"({"eos_token_id": [3, 5, 9], "temperature": 0.6})");
  const ModelConfig read = load_model_config(folder.path());
  EXPECT_EQ(read.eos_token_id, 3);
  EXPECT_EQ(read.stop_token_ids, (std::vector<int32_t>{5, 9}));
  const ModelConfig again = parse_model_config(to_json(read), "again");
  EXPECT_EQ(again.stop_token_ids, read.stop_token_ids);
  spill(folder / "generation_config.json", R"({"eos_token_id": 4000})");
  expect_error(ErrorCode::invalid_argument, {"generation_config.json", "eos_token_id=4000"},
               [&] { (void)load_model_config(folder.path()); });
}

}  // namespace
}  // namespace minite
