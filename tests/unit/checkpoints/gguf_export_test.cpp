// GGUF files from folders: names, order of rows and codes, outer scales beside them.
#include "checkpoints/gguf_export.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/codecs.h"
#include "io/ggml_blocks.h"
#include "unit/checkpoints/small_model.h"

namespace minite::checkpoints {
namespace {

const Context kCtx = test_context();
const std::string kLayer = "model.layers.0.";

/// Widths that are multiples of 64.
HandFolder wide_folder(const char* model_type) {
  HandFolder folder;
  folder.config["model_type"] = model_type;
  folder.config["intermediate_size"] = 128;
  folder.config["num_attention_heads"] = 4;
  folder.config["num_key_value_heads"] = 2;
  uint32_t seed = 1;
  const auto add = [&](const std::string& name, int64_t rows, int64_t cols) {
    folder.tensors[name + ".weight"] = {"BF16", {rows, cols}, raw(weight_values(rows, cols, seed++))};
  };
  add(kLayer + "self_attn.q_proj", 64, 64);
  add(kLayer + "self_attn.k_proj", 32, 64);
  add(kLayer + "self_attn.v_proj", 32, 64);
  add(kLayer + "self_attn.o_proj", 64, 64);
  add(kLayer + "mlp.gate_proj", 128, 64);
  add(kLayer + "mlp.up_proj", 128, 64);
  add(kLayer + "mlp.down_proj", 64, 128);
  add("model.embed_tokens", 40, 64);
  folder.tensors["model.norm.weight"] = {"BF16", {64}, raw(std::vector<bf16>(64, bf16(1.5f)))};
  return folder;
}

std::vector<float> decoded(const io::GgufFile& file, const std::string& name) {
  const io::GgufTensor& t = file.tensor(name);
  std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()));
  io::decode_blocks(t.type, t.bytes, values);
  return values;
}
std::vector<float> of_module(const fs::path& folder, const std::string& module) {
  const QuantizedFolder q = open_quantized(folder, OnFault::thrown);
  const StoredModule& m = q.modules.at(module);
  std::vector<float> values(static_cast<size_t>(m.rows * m.cols));
  decode_rows(kCtx, m, 0, TensorView(values.data(), m.rows, m.cols));
  return values;
}

/// llama.cpp#22611: the permutation goes for codes and scales alike; other architectures have none.
TEST(GgufExport, RowsOfQueriesAndKeysArePermutedWithTheirScales) {
  for (const char* type : {"llama", "qwen3"}) {
    const TempFolder folder;
    wide_folder(type).write(folder / "src");
    convert(kCtx, folder / "src", folder / "q", options_to(Container::modelopt));
    for (const char* source : {"src", "q"}) {
      const fs::path target = folder / (std::string(source) + ".gguf");
      export_gguf(kCtx, folder / source, target, options_to(Container::modelopt), TokenizerPart::left_out);
      const io::GgufFile file(target);
      EXPECT_EQ(file.text("general.architecture"), type);
      for (const auto& [gguf, hf, heads] : {std::tuple{"blk.0.attn_q", "self_attn.q_proj", 4},
                                            {"blk.0.attn_k", "self_attn.k_proj", 2},
                                            {"blk.0.attn_v", "self_attn.v_proj", 0},
                                            {"blk.0.ffn_down", "mlp.down_proj", 0}}) {
        const std::vector<float> expected = of_module(folder / "q", kLayer + hf);
        const std::vector<float> blocks = decoded(file, gguf + std::string(".weight"));
        const float scale = decoded(file, gguf + std::string(".scale"))[0];
        const int64_t cols = file.tensor(gguf + std::string(".weight")).cols();
        const int64_t rows = file.tensor(gguf + std::string(".weight")).rows();
        for (int64_t r = 0; r < rows; ++r) {
          // The rule of the converter of llama.cpp: reshape (heads, 2, half), swap, reshape.
          const int64_t size = heads > 0 ? rows / heads : rows, h = r / size, i = r % size / 2, b = r % 2;
          const bool moved = heads > 0 && std::string_view(type) == std::string_view("llama");
          const int64_t from = moved ? h * size + b * (size / 2) + i : r;
          for (int64_t c = 0; c < cols; ++c)
            ASSERT_NEAR(blocks[static_cast<size_t>(r * cols + c)] * scale,
                        expected[static_cast<size_t>(from * cols + c)], 1e-6)
                << type << " " << gguf << " row " << r;
        }
      }
    }
    EXPECT_TRUE(slurp(folder / "src.gguf") == slurp(folder / "q.gguf"))
        << "codes and scales are passed on as they are";
  }
}

/// llama.cpp#23629: a file without the outer scales loads and is garbage.
TEST(GgufExport, OuterScalesAreBesideTheirTensors) {
  const TempFolder folder;
  HandFolder dense = wide_folder("qwen3");
  dense.write(folder / "src");
  ConvertOptions options = options_to(Container::modelopt);
  options.activations = Activations::a4;
  for (const auto& [name, tensor] : dense.tensors) options.input_amax[name.substr(0, name.size() - 7)] = 2.0f;
  export_gguf(kCtx, folder / "src", folder / "a.gguf", options, TokenizerPart::left_out);
  const io::GgufFile file(folder / "a.gguf");
  for (const auto& [name, tensor] : file.content().tensors) {
    if (tensor.type != io::GgufType::nvfp4) continue;
    const std::string stem = name.substr(0, name.size() - 7);
    EXPECT_EQ(file.tensor(stem + ".scale").type, io::GgufType::f32);
    EXPECT_EQ(decoded(file, stem + ".input_scale")[0], 2.0f / 2688.0f);
  }
  EXPECT_EQ(file.tensor("output_norm.weight").type, io::GgufType::f32);
  EXPECT_EQ(file.tensor("token_embd.weight").type, io::GgufType::bf16);
  EXPECT_EQ(file.integer("qwen3.attention.head_count_kv"), 2);
  EXPECT_EQ(file.integer("qwen3.attention.key_length"), 16);
  EXPECT_FLOAT_EQ(static_cast<float>(file.number("qwen3.rope.freq_base")), 1e6f);
}

TEST(GgufExport, ExpertsAreOneTensor) {
  const TempFolder folder;
  HandFolder dense = wide_folder("qwen3_moe");
  dense.config["num_experts"] = 3;
  dense.config["num_experts_per_tok"] = 2;
  dense.config["moe_intermediate_size"] = 64;
  for (int e = 0; e < 3; ++e) {
    for (const char* part : {"gate_proj", "up_proj", "down_proj"})
      dense.tensors[fmt::format("{}mlp.experts.{}.{}.weight", kLayer, e, part)] = {
          "BF16",
          {64, 64},
          raw(weight_values(64, 64, static_cast<uint32_t>(e + 7), static_cast<float>(e + 1)))};
  }
  dense.tensors[kLayer + "mlp.gate.weight"] = {"BF16", {3, 64}, raw(weight_values(3, 64, 5))};
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "q", options_to(Container::compressed_tensors));
  export_gguf(kCtx, folder / "q", folder / "a.gguf", options_to(Container::modelopt),
              TokenizerPart::left_out);
  const io::GgufFile file(folder / "a.gguf");
  const io::GgufTensor& up = file.tensor("blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up.shape, (std::vector<int64_t>{3, 64, 64}));
  EXPECT_EQ(file.tensor("blk.0.ffn_up_exps.scale").shape, std::vector<int64_t>{3});
  EXPECT_EQ(file.tensor("blk.0.ffn_gate_inp.weight").type, io::GgufType::f32);
  EXPECT_EQ(file.integer("qwen3moe.expert_used_count"), 2);
  const std::vector<float> expected = of_module(folder / "q", kLayer + "mlp.experts.2.up_proj"),
                           blocks = decoded(file, "blk.0.ffn_up_exps.weight");
  const float scale = decoded(file, "blk.0.ffn_up_exps.scale")[2];
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(blocks[2 * 64 * 64 + i] * scale, expected[i], 1e-5);

  dense.tensors.erase(kLayer + "mlp.experts.1.up_proj.weight");
  dense.write(folder / "hole");
  EXPECT_TRUE(holds(error_of([&] {
                      export_gguf(kCtx, folder / "hole", folder / "b.gguf", options_to(Container::modelopt),
                                  TokenizerPart::left_out);
                    }).what(),
                    "2 of 3 experts"));
}

TEST(GgufExport, Bf16AndWhatIsRefused) {
  const TempFolder folder;
  HandFolder dense = wide_folder("llama");
  dense.write(folder / "src");
  ConvertOptions plain;
  plain.spec.format = FormatId::bf16;
  export_gguf(kCtx, folder / "src", folder / "a.gguf", plain, TokenizerPart::left_out);
  const io::GgufFile file(folder / "a.gguf");
  EXPECT_EQ(file.tensor("blk.0.attn_q.weight").type, io::GgufType::bf16);
  EXPECT_FALSE(file.content().tensors.contains("blk.0.attn_q.scale"));

  const auto refused = [&](const HandFolder& hand, TokenizerPart tokenizer = TokenizerPart::left_out) {
    const TempFolder other;
    hand.write(other / "src");
    return std::string(error_of([&] {
                         export_gguf(kCtx, other / "src", other / "b.gguf", options_to(Container::modelopt),
                                     tokenizer);
                       }).what());
  };
  dense.tensors[kLayer + "mlp.down_proj.weight"] = {"BF16", {64, 96}, raw(weight_values(64, 96, 1))};
  EXPECT_TRUE(holds(refused(dense), "down_proj has K = 96, and NVFP4 blocks of GGUF hold 64"));
  dense = wide_folder("gemma");
  EXPECT_TRUE(holds(refused(dense), "model_type 'gemma' has no GGUF names"));
  dense = wide_folder("llama");
  EXPECT_TRUE(holds(refused(dense, TokenizerPart::required), "--no-tokenizer"));
  dense.tensors["model.rotary.weight"] = {"BF16", {4, 64}, raw(weight_values(4, 64, 1))};
  EXPECT_TRUE(holds(refused(dense), "has no name in a GGUF file"));
}

TEST(GgufExport, ByteLevelTokenizer) {
  const TempFolder folder;
  wide_folder("qwen3").write(folder / "src");
  json tokenizer = {
      {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}},
      {"added_tokens", {{{"id", 3}, {"content", "<end>"}, {"special", true}}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"use_regex", true}}}};
  spill(folder / "src/tokenizer.json", tokenizer.dump());
  spill(folder / "src/tokenizer_config.json", R"({"chat_template": "{{ x }}"})");
  export_gguf(kCtx, folder / "src", folder / "a.gguf", options_to(Container::modelopt),
              TokenizerPart::required);
  const io::GgufFile file(folder / "a.gguf");
  const auto tokens = file.texts("tokenizer.ggml.tokens");
  ASSERT_EQ(tokens.size(), 40u);
  EXPECT_EQ(tokens[2], "ab");
  EXPECT_EQ(tokens[3], "<end>");
  EXPECT_EQ(tokens[4], "[PAD4]");
  EXPECT_EQ(file.integers("tokenizer.ggml.token_type")[3], 3);
  EXPECT_EQ(file.texts("tokenizer.ggml.merges")[0], "a b");
  EXPECT_EQ(file.text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file.integer("tokenizer.ggml.eos_token_id"), 1);
  EXPECT_EQ(file.text("tokenizer.chat_template"), "{{ x }}");
  tokenizer["model"]["type"] = "Unigram";
  spill(folder / "src/tokenizer.json", tokenizer.dump());
  EXPECT_TRUE(holds(error_of([&] {
                      export_gguf(kCtx, folder / "src", folder / "b.gguf", options_to(Container::modelopt),
                                  TokenizerPart::required);
                    }).what(),
                    "no byte-level BPE"));
}

TEST(GgufExport, NamesAndRows) {
  EXPECT_EQ(gguf_name("model.layers.12.mlp.experts.7.up_proj").name, "blk.12.ffn_up_exps");
  EXPECT_EQ(gguf_name("model.layers.12.mlp.experts.7.up_proj").expert, 7);
  EXPECT_EQ(gguf_name("lm_head").name, "output");
  EXPECT_EQ(gguf_name("model.layers.x.mlp.up_proj").name, "");
  EXPECT_EQ(gguf_name("model.layers.1.mlp.experts.7.bias").name, "");
  std::vector<int64_t> rows;
  for (int64_t r = 0; r < 8; ++r) rows.push_back(llama_row(r, 8, 2));
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 2, 1, 3, 4, 6, 5, 7}));
}

}  // namespace
}  // namespace minite::checkpoints
