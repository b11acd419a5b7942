// minite inspect: what is listed, each fault by its tensor and place, and that sound files have none.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/gguf.h"
#include "support/run_command.h"
#include "support/tensor_file.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::raw;
using test_support::run_minite;
using test_support::slurp;
using test_support::small_values;
using test_support::spill;
using test_support::TempFolder;
using test_support::TensorFile;
using Words = std::vector<std::string>;

std::string bytes(size_t count, int value) { return std::string(count, static_cast<char>(value)); }

/// A sound NVFP4 weight [4, 32] as ModelOpt stores it.
TensorFile modelopt() {
  TensorFile file;
  file.add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
      .f32("l.weight_scale_2", {}, {0.5f});
  return file;
}

/// The faults that --check names, "TENSOR: what"; the exit code must agree.
Words faults_of(const std::filesystem::path& path) {
  const CommandResult result = run_minite({"inspect", path.string(), "--check", "--json"});
  const json document = json::parse(result.out);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(document["checked"], true);
  EXPECT_EQ(result.exit_code, document["faults"].empty() ? 0 : 1);
  Words faults;
  for (const json& fault : document["faults"])
    faults.push_back(fault["tensor"].get<std::string>() + ": " + fault["what"].get<std::string>());
  return faults;
}

void expect_fault(const std::filesystem::path& path, const std::string& tensor, const Words& parts) {
  const Words faults = faults_of(path);
  ASSERT_EQ(faults.size(), 1u) << tensor << ": " << (faults.empty() ? "no fault" : faults.back());
  EXPECT_TRUE(faults[0].starts_with(tensor + ": ")) << faults[0];
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(faults[0], part)) << part << "\nnot in\n" << faults[0];
  const CommandResult text = run_minite({"inspect", path.string(), "--check"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_TRUE(holds(text.out, "fault: ")) << text.out;
}

TEST(InspectVerb, ListsTensorsAndTotals) {
  const TempFolder folder;
  TensorFile()
      .f32("a", {2, 3}, small_values(6))
      .add("ids", "I64", {2}, raw<int64_t>({1, 2}))
      .write(folder / "f.safetensors");
  const CommandResult result = run_minite({"inspect", (folder / "f.safetensors").string(), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["kind"], "safetensors file");
  ASSERT_EQ(document["tensors"].size(), 2u);
  EXPECT_EQ(document["tensors"][0]["name"], "a");
  EXPECT_EQ(document["tensors"][0]["shape"], (json{2, 3}));
  EXPECT_EQ(document["totals"]["bytes"], 40);
  EXPECT_EQ(document["totals"]["by_dtype"]["I64"]["elements"], 2);
  EXPECT_EQ(document["checked"], false);
  const std::string text = run_minite({"inspect", (folder / "f.safetensors").string(), "--check"}).out;
  EXPECT_TRUE(holds(text, "no faults")) << text;
}

/// What `quantize` writes is recognised, whole, in every format.
TEST(InspectVerb, KnowsWhatQuantizeWrites) {
  const TempFolder folder;
  TensorFile()
      .f32("w", {6, 48}, small_values(288))
      .f32("moe", {2, 6, 32}, small_values(384))
      .write(folder / "in");
  const std::string out = (folder / "out.safetensors").string();
  for (const Words& options : {Words{"nvfp4", "--outer", "tensor"},
                               {"nvfp4", "--outer", "none"},
                               {"mxfp8"},
                               {"nvfp4", "--outer", "row", "--dequantize"},
                               {"sim_e2m3"}}) {
    Words all = {"quantize", (folder / "in").string(), "-o", out, "--columnwise", "--format"};
    all.insert(all.end(), options.begin(), options.end());
    ASSERT_EQ(run_minite(all).exit_code, 0);
    EXPECT_EQ(faults_of(out), Words{}) << options[0];
    const json document = json::parse(run_minite({"inspect", out, "--json"}).out);
    ASSERT_EQ(document["quantized"].size(), 4u) << options[0];
    EXPECT_EQ(document["quantized"][0]["name"], "moe");
    EXPECT_EQ(document["quantized"][0]["format"], options[0]);
    EXPECT_EQ(document["quantized"][0]["shape"], (json{2, 6, 32}));
    EXPECT_EQ(document["quantized"][0]["stored_as"], "minite");
  }
}

TEST(InspectVerb, KnowsTheNamesOfOthers) {
  const TempFolder folder;
  TensorFile file = modelopt();
  file.add("c.weight_packed", "U8", {4, 16}, bytes(64, 0x21))
      .add("c.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
      .f32("c.weight_global_scale", {1}, {2.0f})
      .add("m.weight_packed", "U8", {4, 16}, bytes(64, 0x21))
      .add("m.weight_scale", "U8", {4, 1}, bytes(4, 127))
      .add("x.weight", "F8_E4M3", {4, 64}, bytes(256, 0x38))
      .add("x.weight_scale", "U8", {4, 2}, bytes(8, 127))
      .add("g_blocks", "U8", {2, 4, 2, 16}, bytes(256, 0x21))
      .add("g_scales", "U8", {2, 4, 2}, bytes(16, 127))
      .write(folder / "f.safetensors");
  EXPECT_EQ(faults_of(folder / "f.safetensors"), Words{});
  const json document =
      json::parse(run_minite({"inspect", (folder / "f.safetensors").string(), "--json"}).out);
  std::map<std::string, std::pair<std::string, json>> found;
  for (const json& row : document["quantized"]) found[row["name"]] = {row["stored_as"], row["shape"]};
  EXPECT_EQ(found.size(), 5u);
  EXPECT_EQ(found["l"], (std::pair<std::string, json>{"ModelOpt NVFP4", {4, 32}}));
  EXPECT_EQ(found["c"].first, "compressed-tensors NVFP4");
  EXPECT_EQ(found["m"].first, "compressed-tensors MXFP4");
  EXPECT_EQ(found["x"].second, (json{4, 64}));
  EXPECT_EQ(found["g"], (std::pair<std::string, json>{"GPT-OSS MXFP4", {2, 4, 64}}));
}

/// An NVFP4 weight [4, 32] as torchao flattens it; `scales` F8_E4M3 of `shape`.
TensorFile torchao(const std::vector<int64_t>& shape, const std::string& scales, float outer = 0.5f,
                   float activation = 0.25f) {
  TensorFile file;
  file.add("l.weight_qdata", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", shape, scales)
      .f32("l.weight_per_tensor_scale", {}, {outer})
      .f32("l.weight_act_per_tensor_scale", {}, {activation});
  return file;
}

TEST(InspectVerb, KnowsTorchaosNames) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  const auto quantized = [&] {
    EXPECT_EQ(faults_of(path), Words{});
    const json document = json::parse(run_minite({"inspect", path.string(), "--json"}).out);
    EXPECT_EQ(document["quantized"].size(), 1u);
    return document["quantized"][0];
  };
  torchao({4, 2}, bytes(8, 0x38)).write(path);
  const json row = quantized();
  EXPECT_EQ(row["name"], "l.weight");
  EXPECT_EQ(row["stored_as"], "torchao NVFP4");
  EXPECT_EQ(row["format"], "nvfp4");
  EXPECT_EQ(row["shape"], (json{4, 32}));
  EXPECT_EQ(row["outer_scales"], 1);
  // 4 rows of 2 scales fill one tile of 128 x 4.
  torchao({32, 16}, bytes(8, 0x38) + bytes(504, 0)).write(path);
  EXPECT_EQ(quantized()["shape"], (json{4, 32}));
  // Experts, one outer scale each; and a tensor without outer scales.
  TensorFile()
      .add("e_qdata", "U8", {2, 3, 16}, bytes(96, 0x21))
      .add("e_scale", "F8_E4M3", {2, 3, 2}, bytes(12, 0x38))
      .f32("e_per_tensor_scale", {2, 1, 1}, {0.5f, 0.25f})
      .write(path);
  EXPECT_EQ(quantized()["outer_scales"], 2);
  TensorFile()
      .add("w_qdata", "U8", {1, 8}, bytes(8, 0x21))
      .add("w_scale", "F8_E4M3", {1, 1}, bytes(1, 0x38))
      .write(path);
  EXPECT_EQ(quantized()["outer_scales"], 0);
}

TEST(InspectVerb, FaultsOfTorchaosTensors) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  torchao({4, 2}, bytes(5, 0x38) + bytes(1, 0x7F) + bytes(2, 0x38)).write(path);
  expect_fault(path, "l.weight_scale", {"1 NaN scale bytes", "[2, 1]"});
  torchao({4, 2}, bytes(8, 0)).write(path);
  expect_fault(path, "l.weight_scale", {"scales of 0 only"});
  torchao({2, 4}, bytes(8, 0x38)).write(path);
  expect_fault(path, "l.weight_scale", {"is [2, 4]", "need [4, 2]"});
  torchao({4, 2}, bytes(8, 0x38), 0.0f).write(path);
  expect_fault(path, "l.weight_per_tensor_scale", {"not above 0"});
  torchao({4, 2}, bytes(8, 0x38), 0.5f, -1.0f).write(path);
  expect_fault(path, "l.weight_act_per_tensor_scale", {"not above 0"});
  TensorFile().add("l.weight_qdata", "U8", {4, 16}, bytes(64, 0x21)).write(path);
  expect_fault(path, "l.weight_qdata", {"has no l.weight_scale"});
  TensorFile().f32("l.weight_per_tensor_scale", {}, {1}).write(path);
  expect_fault(path, "l.weight_per_tensor_scale", {"scale without codes"});
  TensorFile().f32("l.weight_act_per_tensor_scale", {}, {1}).write(path);
  expect_fault(path, "l.weight_act_per_tensor_scale", {"scale without codes"});
}

/// Some blocks of zeros are no fault, and neither is a tensor without blocks.
TEST(InspectVerb, ZeroScalesAmongOthersAreSound) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(7, 0) + bytes(1, 0x38))
      .f32("l.weight_scale_2", {}, {0.5f})
      .add("none.weight", "U8", {0, 16}, "")
      .add("none.weight_scale", "F8_E4M3", {0, 2}, "")
      .f32("none.weight_scale_2", {}, {0.5f})
      .write(path);
  EXPECT_EQ(faults_of(path), Words{});
}

TEST(InspectVerb, FaultsOfScales) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  std::string scales = bytes(8, 0x38);
  scales[5] = 0x7F;
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, scales)
      .f32("l.weight_scale_2", {}, {0.5f})
      .write(path);
  expect_fault(path, "l.weight_scale", {"1 NaN scale bytes", "[2, 1]"});
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0))
      .f32("l.weight_scale_2", {}, {0.5f})
      .write(path);
  expect_fault(path, "l.weight_scale", {"scales of 0 only"});
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
      .write(path);
  expect_fault(path, "l.weight", {"has no l.weight_scale_2"});
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .f32("l.weight_scale_2", {}, {0.5f})
      .write(path);
  expect_fault(path, "l.weight_scale_2", {"scale without codes"});
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {2, 4}, bytes(8, 0x38))
      .f32("l.weight_scale_2", {}, {0.5f})
      .write(path);
  expect_fault(path, "l.weight_scale", {"is [2, 4]", "[4, 16] in blocks of 16 need [4, 2]"});
  TensorFile()
      .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
      .f32("l.weight_scale_2", {3}, {1, 1, 1})
      .write(path);
  expect_fault(path, "l.weight_scale_2", {"F32 [3]", "one a row of [4, 32]"});
  for (const float value : {0.0f, -1.0f}) {
    TensorFile()
        .add("l.weight", "U8", {4, 16}, bytes(64, 0x21))
        .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
        .f32("l.weight_scale_2", {}, {value})
        .write(path);
    expect_fault(path, "l.weight_scale_2", {"not above 0"});
  }
  TensorFile()
      .add("m.weight_packed", "U8", {4, 16}, bytes(64, 0x21))
      .add("m.weight_scale", "U8", {4, 1}, bytes(4, 0xFF))
      .write(path);
  expect_fault(path, "m.weight_scale", {"4 NaN scale bytes"});
  TensorFile().add("m.weight_packed", "U8", {4, 16}, bytes(64, 0x21)).write(path);
  expect_fault(path, "m.weight_packed", {"has no m.weight_scale"});
}

TEST(InspectVerb, FaultsOfValues) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  auto x = small_values(12);
  x[7] = NAN;
  x[9] = INFINITY;
  TensorFile().f32("w", {3, 4}, x).write(path);
  expect_fault(path, "w", {"2 values that are NaN or infinite", "[1, 3]"});
  TensorFile().add("h", "F16", {2}, raw<uint16_t>({0x3C00, 0xFC00})).write(path);
  expect_fault(path, "h", {"1 values", "[1]"});
  TensorFile().add("b", "BF16", {2}, raw<uint16_t>({0x7FC0, 0x3F80})).write(path);
  expect_fault(path, "b", {"[0]"});
  TensorFile().add("d", "F64", {1}, raw<double>({NAN})).write(path);
  expect_fault(path, "d", {"[0]"});
  TensorFile().add("e", "F8_E4M3", {2}, raw<uint8_t>({0xFF, 0x7E})).write(path);
  expect_fault(path, "e", {"1 values"});
  EXPECT_EQ(run_minite({"inspect", path.string()}).exit_code, 0) << "without --check nothing fails";
}

TEST(InspectVerb, DamagedFiles) {
  const TempFolder folder;
  const auto path = folder / "f.safetensors";
  const std::string good = TensorFile().f32("w", {2, 2}, {1, 2, 3, 4}).bytes();
  const auto damaged = [&](const std::string& file, const Words& parts) {
    spill(path, file);
    expect_fault(path, "", parts);
    const CommandResult plain = run_minite({"inspect", path.string()});
    EXPECT_EQ(plain.exit_code, 2) << "bad input";
    EXPECT_EQ(plain.out, "");
  };
  damaged(good.substr(0, good.size() - 1), {"f.safetensors is cut short"});
  std::string header =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  damaged(length + header + "abcdef", {"\"b\"", "begins at byte 2", "overlap"});
  damaged("no tensors here", {"f.safetensors"});
}

TEST(InspectVerb, FoldersAndShards) {
  const TempFolder folder;
  const std::string a = "model-00001-of-00002.safetensors", b = "model-00002-of-00002.safetensors";
  // The scale of l.weight is in the other shard.
  TensorFile().add("l.weight", "U8", {4, 16}, bytes(64, 0x21)).write(folder / a);
  TensorFile()
      .add("l.weight_scale", "F8_E4M3", {4, 2}, bytes(8, 0x38))
      .f32("l.weight_scale_2", {}, {0.5f})
      .write(folder / b);
  json map = {{"l.weight", a}, {"l.weight_scale", b}, {"l.weight_scale_2", b}};
  const auto index = [&] {
    spill(folder / "model.safetensors.index.json", json{{"weight_map", map}}.dump());
  };
  index();
  spill(folder / "config.json",
        R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "W4A16_NVFP4"}})");
  EXPECT_EQ(faults_of(folder.path()), Words{});
  const json document = json::parse(run_minite({"inspect", folder.path().string(), "--json"}).out);
  EXPECT_EQ(document["kind"], "sharded folder");
  EXPECT_EQ(document["configured_as"], "modelopt W4A16_NVFP4");
  EXPECT_EQ(document["quantized"].size(), 1u);

  map["l.bias"] = a;
  index();
  expect_fault(folder.path(), "l.bias", {"should be in " + a, "in no shard"});
  map.erase("l.bias");
  map["l.weight_scale_2"] = a;
  index();
  expect_fault(folder.path(), "l.weight_scale_2", {"should be in " + a, "is in " + b});
  map.erase("l.weight_scale_2");
  index();
  expect_fault(folder.path(), "l.weight_scale_2", {"not in the index"});
  map["l.weight_scale_2"] = b;
  map["other"] = "model-00003.safetensors";
  index();
  const Words faults = faults_of(folder.path());
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_TRUE(holds(faults[0], "model-00003.safetensors, which is missing")) << faults[0];
}

TEST(InspectVerb, BadPathsNameTheRemedy) {
  const TempFolder folder;
  const auto refused = [&](const std::string& path, const Words& parts) {
    for (const bool check : {false, true}) {
      Words all = {"inspect", path};
      if (check) all.emplace_back("--check");
      const CommandResult result = run_minite(all);
      EXPECT_EQ(result.exit_code, 2) << path;
      EXPECT_EQ(result.out, "");
      for (const std::string& part : parts)
        EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
    }
  };
  refused((folder / "none.safetensors").string(), {"none.safetensors", "No such file"});
  refused(folder.path().string(), {"holds no .safetensors file"});
  spill(folder / "m.gguf", "GGUF\3");
  refused((folder / "m.gguf").string(), {"m.gguf", "the file is cut short"});
}

TEST(InspectVerb, AGgufFileInAFolderIsNamed) {
  const TempFolder folder;
  modelopt().write(folder / "a.safetensors");
  spill(folder / "m.gguf", "GGUF\3");
  const CommandResult result = run_minite({"inspect", folder.path().string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(holds(result.err, "m.gguf is a GGUF file among others")) << result.err;
  EXPECT_TRUE(holds(result.err, "minite inspect " + (folder / "m.gguf").string())) << result.err;
}

/// One NVFP4 weight of 64 elements with its scale bytes, a sidecar and a norm.
void write_gguf(const std::filesystem::path& path, const std::string& scales, bool second, float norm) {
  io::GgufValues values;
  values.put_text("general.architecture", "llama");
  const std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 8};
  values.put_integers("tokenizer.ggml.token_type", io::GgufValueType::i32, ids);
  std::vector<io::GgufTensorShape> shapes = {{"blk.0.attn_q.weight", io::GgufType::nvfp4, {1, 64}},
                                             {"blk.0.attn_q.scale", io::GgufType::f32, {1}},
                                             {"output_norm.weight", io::GgufType::f32, {1}}};
  if (second) shapes.push_back({"blk.0.attn_k.weight", io::GgufType::nvfp4, {1, 64}});
  io::GgufWriter writer(path, values, shapes);
  const std::string block = scales + bytes(32, 0x21);
  const float one = 1;
  writer.put("blk.0.attn_q.weight", std::as_bytes(std::span(block)));
  writer.put("blk.0.attn_q.scale", std::as_bytes(std::span(&one, 1)));
  writer.put("output_norm.weight", std::as_bytes(std::span(&norm, 1)));
  if (second) writer.put("blk.0.attn_k.weight", std::as_bytes(std::span(block)));
  writer.commit();
}

TEST(InspectVerb, ListsGgufFiles) {
  const TempFolder folder;
  write_gguf(folder / "m.gguf", bytes(4, 0x38), false, 1.0f);
  const CommandResult text = run_minite({"inspect", (folder / "m.gguf").string(), "--check"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"GGUF file", "general.architecture", "llama", "[1, 2, 3, 4, 5, 6, ... 8 in all]",
                           "blk.0.attn_q.weight", "nvfp4", "[1, 64]", "36", "no faults"})
    EXPECT_TRUE(holds(text.out, part)) << part << "\nnot in\n" << text.out;
  const json document = json::parse(run_minite({"inspect", (folder / "m.gguf").string(), "--json"}).out);
  EXPECT_EQ(document["values"]["tokenizer.ggml.token_type"].size(), 8u);
  EXPECT_EQ(document["tensors"][0]["type"], "nvfp4");
  EXPECT_EQ(document["checked"], false);
}

TEST(InspectVerb, NamesTheFaultsOfGgufFiles) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "m.gguf";
  write_gguf(path, std::string("\x38\x7F\x38\x38", 4), false, 1.0f);
  expect_fault(path, "blk.0.attn_q.weight", {"1 scale bytes 0x7F", "NaN in E4M3 and 0 in ggml"});
  write_gguf(path, bytes(4, 0), false, 1.0f);
  expect_fault(path, "blk.0.attn_q.weight", {"all zero"});
  write_gguf(path, bytes(4, 0x38), true, 1.0f);
  expect_fault(path, "blk.0.attn_k.weight", {"without blk.0.attn_k.scale", "lost"});
  write_gguf(path, bytes(4, 0x38), false, NAN);
  expect_fault(path, "output_norm.weight", {"1 values that are not finite"});
}

}  // namespace
}  // namespace minite
