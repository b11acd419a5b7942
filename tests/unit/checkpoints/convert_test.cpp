// Folders made from BF16, decoded again, and renamed from one container to the other and back.
#include "checkpoints/convert.h"

#include <gtest/gtest.h>

#include <cstring>

#include "checkpoints/verify.h"
#include "core/memory.h"
#include "formats/codecs.h"
#include "unit/checkpoints/small_model.h"

namespace minite::checkpoints {
namespace {

const Context kCtx = test_context();
const std::string kLayer = "model.layers.0.";

float scalar(const HandFolder& folder, const std::string& name) {
  float x = 0;
  const std::string& bytes = folder.tensors.at(name).bytes;
  EXPECT_EQ(bytes.size(), 4u) << name;
  std::memcpy(&x, bytes.data(), sizeof(x));
  return x;
}

/// The codes, scales and stored global that ops make of stacked modules of dense_folder().
struct Expected {
  std::string codes, scales;
  float global = 0, reciprocal = 0;
};
std::vector<Expected> expected_of(const HandFolder& dense, const std::vector<std::string>& modules,
                                  const QuantSpec& spec) {
  std::string x;
  int64_t rows = 0, cols = 0;
  for (const std::string& m : modules) {
    const auto& t = dense.tensors.at(m + ".weight");
    x += t.bytes;
    rows += t.shape[0];
    cols = t.shape[1];
  }
  const Buffer memory(QTensor::bytes(spec, rows, cols));
  const QTensor q = QTensor::place(spec, rows, cols, memory.data());
  ops::quantize(kCtx, {TensorView(x.data(), DType::bf16, rows, cols), Orientation::rows, q, {}});
  std::vector<Expected> result;
  int64_t row = 0;
  for (const std::string& m : modules) {
    const QTensor part = q.slice_rows(row, dense.tensors.at(m + ".weight").shape[0]);
    row += part.rows;
    result.push_back(
        {{reinterpret_cast<char*>(part.codes), static_cast<size_t>(part.rows * part.code_stride())},
         {reinterpret_cast<char*>(part.block_scales), static_cast<size_t>(part.rows * part.scale_stride())},
         q.outer == nullptr ? 0 : q.outer[0],
         q.reciprocal == nullptr ? 0 : q.reciprocal[0]});
  }
  return result;
}
const std::vector<std::vector<std::string>> kUnits = {
    {kLayer + "self_attn.q_proj", kLayer + "self_attn.k_proj", kLayer + "self_attn.v_proj"},
    {kLayer + "mlp.gate_proj", kLayer + "mlp.up_proj"},
    {kLayer + "self_attn.o_proj"},
    {kLayer + "mlp.down_proj"}};

TEST(Convert, ModelOptHoldsTheGroupsBytes) {
  const TempFolder folder;
  const HandFolder dense = dense_folder();
  dense.write(folder / "src");
  const ConvertOptions options = with_input_amax(options_to(Container::modelopt));
  convert(kCtx, folder / "src", folder / "dst", options);
  const HandFolder out = HandFolder::read(folder / "dst");
  for (const auto& unit : kUnits) {
    const std::vector<Expected> parts = expected_of(dense, unit, options.spec);
    float amax = 0;
    for (const std::string& m : unit) amax = std::max(amax, options.input_amax.at(m));
    for (size_t i = 0; i < unit.size(); ++i) {
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight").bytes, parts[i].codes) << unit[i];
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight_scale").bytes, parts[i].scales) << unit[i];
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight_scale").dtype, "F8_E4M3");
      EXPECT_EQ(scalar(out, unit[i] + ".weight_scale_2"), parts[i].global);
      EXPECT_TRUE(out.tensors.at(unit[i] + ".weight_scale_2").shape.empty()) << "a scalar";
      EXPECT_EQ(scalar(out, unit[i] + ".input_scale"), amax / 2688.0f) << "the group's largest amax";
    }
  }
  EXPECT_EQ(out.tensors.at("lm_head.weight").dtype, "BF16");
  EXPECT_EQ(out.config["quantization_config"]["quant_method"], "modelopt");
  EXPECT_EQ(out.config["quantization_config"]["ignore"], json{"lm_head"});
  const json& quantization = out.hf_quant_config["quantization"];
  EXPECT_EQ(quantization["quant_algo"], "NVFP4");
  EXPECT_EQ(quantization["group_size"], 16);
  EXPECT_EQ(quantization["exclude_modules"], json{"lm_head"});
  EXPECT_TRUE(quantization.contains("kv_cache_quant_algo"));
}

TEST(Convert, CompressedTensorsHasBf16StatisticsAndReciprocals) {
  const TempFolder folder;
  const HandFolder dense = dense_folder();
  dense.write(folder / "src");
  const ConvertOptions options = options_to(Container::compressed_tensors);
  convert(kCtx, folder / "src", folder / "dst", options);
  const HandFolder out = HandFolder::read(folder / "dst");
  for (const auto& unit : kUnits) {
    const std::vector<Expected> parts = expected_of(dense, unit, options.spec);
    for (size_t i = 0; i < unit.size(); ++i) {
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight_packed").bytes, parts[i].codes) << unit[i];
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight_scale").bytes, parts[i].scales) << unit[i];
      const float g = scalar(out, unit[i] + ".weight_global_scale");
      EXPECT_EQ(g, parts[i].reciprocal);
      EXPECT_EQ(g, static_cast<float>(bf16(g))) << "the fingerprint of BF16 statistics";
      EXPECT_GT(g, 100.0f) << "a reciprocal is large";
      EXPECT_EQ(out.tensors.at(unit[i] + ".weight_global_scale").shape, (std::vector<int64_t>{1}));
      EXPECT_EQ(out.tensors.count(unit[i] + ".input_global_scale"), 0u);
    }
  }
  const json& section = out.config["quantization_config"];
  EXPECT_EQ(section["format"], "nvfp4-pack-quantized");
  EXPECT_EQ(section["config_groups"]["group_0"]["weights"]["strategy"], "tensor_group");
  EXPECT_TRUE(section["config_groups"]["group_0"]["input_activations"].is_null());
}

TEST(Convert, MxFormatsKeepTheirNames) {
  const TempFolder folder;
  const HandFolder dense = dense_folder();
  dense.write(folder / "src");
  struct Case {
    Container to;
    FormatId format;
    const char *codes, *dtype;
  };
  for (const Case& c : {Case{Container::modelopt, FormatId::mxfp8, ".weight", "F8_E4M3"},
                        Case{Container::compressed_tensors, FormatId::mxfp8, ".weight", "F8_E4M3"},
                        Case{Container::compressed_tensors, FormatId::mxfp4, ".weight_packed", "U8"}}) {
    const ConvertOptions options = options_to(c.to, c.format);
    convert(kCtx, folder / "src", folder / "dst", options);
    const HandFolder out = HandFolder::read(folder / "dst");
    const std::string m = kLayer + "mlp.down_proj";
    const Expected expected = expected_of(dense, {m}, options.spec)[0];
    EXPECT_EQ(out.tensors.at(m + c.codes).dtype, c.dtype);
    EXPECT_EQ(out.tensors.at(m + c.codes).bytes, expected.codes);
    EXPECT_EQ(out.tensors.at(m + ".weight_scale").dtype, "U8");
    EXPECT_EQ(out.tensors.at(m + ".weight_scale").bytes, expected.scales);
    const Verification found = verify(kCtx, folder / "src", folder / "dst");
    EXPECT_TRUE(found.faults.empty());
    EXPECT_LT(found.all.relative_l2(), c.format == FormatId::mxfp8 ? 0.04 : 0.2);
    fs::remove_all(folder / "dst");
  }
  EXPECT_TRUE(holds(error_of([&] {
                      convert(kCtx, folder / "src", folder / "dst",
                              options_to(Container::modelopt, FormatId::mxfp4));
                    }).what(),
                    "modelopt stores no mxfp4"));
}

TEST(Convert, ThereAndBackIsExact) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  for (const Container first : {Container::modelopt, Container::compressed_tensors}) {
    const Container second =
        first == Container::modelopt ? Container::compressed_tensors : Container::modelopt;
    convert(kCtx, folder / "src", folder / "a", with_input_amax(options_to(first)));
    const ConvertReport there = convert(kCtx, folder / "a", folder / "b", options_to(second));
    convert(kCtx, folder / "b", folder / "c", options_to(first));
    const HandFolder a = HandFolder::read(folder / "a"), b = HandFolder::read(folder / "b"),
                     c = HandFolder::read(folder / "c");
    ASSERT_EQ(a.tensors.size(), c.tensors.size());
    for (const auto& [name, tensor] : a.tensors) EXPECT_EQ(c.tensors.at(name).bytes, tensor.bytes) << name;
    const std::string m = kLayer + "mlp.down_proj";
    const bool modelopt = first == Container::modelopt;
    EXPECT_EQ(a.tensors.at(m + (modelopt ? ".weight" : ".weight_packed")).bytes,
              b.tensors.at(m + (modelopt ? ".weight_packed" : ".weight")).bytes)
        << "codes are the same bytes";
    EXPECT_EQ(a.tensors.at(m + ".weight_scale").bytes, b.tensors.at(m + ".weight_scale").bytes);
    EXPECT_EQ(there.from, std::string(find_layout(first, FormatId::nvfp4, OuterScale::tensor)->name));
    EXPECT_EQ(a.config["quantization_config"], c.config["quantization_config"]);
    const Verification found = verify(kCtx, folder / "a", folder / "b");
    EXPECT_TRUE(found.faults.empty());
    EXPECT_LT(found.all.relative_l2(), 1e-6);
    for (const char* name : {"a", "b", "c"}) fs::remove_all(folder / name);
  }
}

/// Without the kept originals a reciprocal of a reciprocal may be off by one step.
TEST(Convert, OriginalsAreWhatMakesItExact) {
  const TempFolder folder;
  HandFolder dense = dense_folder();
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "a", options_to(Container::modelopt));
  HandFolder a = HandFolder::read(folder / "a");
  float odd = 0.001f;
  while (1.0f / (1.0f / odd) == odd) odd = std::nextafterf(odd, 1.0f);
  for (const Matrix& m : layer_matrices()) {
    if (m.name != "lm_head") a.set_f32(m.name + ".weight_scale_2", {odd});
  }
  a.write(folder / "odd");
  const ConvertReport report =
      convert(kCtx, folder / "odd", folder / "b", options_to(Container::compressed_tensors));
  EXPECT_EQ(report.inexact_globals, 7);
  convert(kCtx, folder / "b", folder / "c", options_to(Container::modelopt));
  EXPECT_EQ(scalar(HandFolder::read(folder / "c"), kLayer + "mlp.down_proj.weight_scale_2"), odd);
  fs::remove(folder / "b/conversion.json");
  convert(kCtx, folder / "b", folder / "d", options_to(Container::modelopt));
  EXPECT_NE(scalar(HandFolder::read(folder / "d"), kLayer + "mlp.down_proj.weight_scale_2"), odd);
}

TEST(Convert, DecodesToBf16) {
  const TempFolder folder;
  const HandFolder dense = dense_folder();
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "q", options_to(Container::modelopt));
  convert(kCtx, folder / "q", folder / "dst", options_to(Container::plain));
  const HandFolder out = HandFolder::read(folder / "dst");
  EXPECT_EQ(out.tensors.size(), dense.tensors.size());
  EXPECT_FALSE(out.config.contains("quantization_config"));
  const HandFolder q = HandFolder::read(folder / "q");
  const std::string m = kLayer + "self_attn.o_proj";
  const auto& codes = q.tensors.at(m + ".weight").bytes;
  const auto& scales = q.tensors.at(m + ".weight_scale").bytes;
  const float s2 = scalar(q, m + ".weight_scale_2");
  for (size_t i = 0; i < 64 * 32; ++i) {
    const auto byte = static_cast<uint8_t>(codes[i / 2]);
    const float d = E4M3::decode(static_cast<uint8_t>(scales[i / 16])) * s2;
    const bf16 value(E2M1::decode(i % 2 == 0 ? byte & 15 : byte >> 4) * d);
    bf16 found;
    std::memcpy(&found, out.tensors.at(m + ".weight").bytes.data() + 2 * i, 2);
    ASSERT_EQ(found.bits, value.bits) << i;
  }
}

TEST(Convert, DecodeTensorByName) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  convert(kCtx, folder / "src", folder / "q", options_to(Container::compressed_tensors));
  convert(kCtx, folder / "q", folder / "plain", options_to(Container::plain));
  const QuantizedFolder q = open_quantized(folder / "q", OnFault::thrown);
  const HandFolder plain = HandFolder::read(folder / "plain");
  const auto shapes = decoded_shapes(q);
  EXPECT_EQ(shapes.size(), plain.tensors.size());
  for (const auto& [name, shape] : shapes) {
    const int64_t rows = shape.size() == 2 ? shape[0] : 1;
    std::vector<bf16> values(static_cast<size_t>(rows * shape.back()));
    decode_tensor(kCtx, q, name, TensorView(values.data(), rows, shape.back()));
    EXPECT_EQ(raw(values), plain.tensors.at(name).bytes) << name;
  }
}

TEST(Convert, BytesDoNotDependOnThreadsOrShards) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  ConvertOptions options = options_to(Container::modelopt);
  convert(kCtx, folder / "src", folder / "one", options);
  ThreadPool single(1);
  const Context alone{&backend("ref"), &single, nullptr, {}};
  convert(alone, folder / "src", folder / "same", options);
  EXPECT_EQ(contents(folder / "one"), contents(folder / "same"));
  options.shard_bytes = 4000;
  EXPECT_GT(convert(kCtx, folder / "src", folder / "many", options).shards, 3);
  const HandFolder one = HandFolder::read(folder / "one"), many = HandFolder::read(folder / "many");
  for (const auto& [name, tensor] : one.tensors) EXPECT_EQ(many.tensors.at(name).bytes, tensor.bytes) << name;
  EXPECT_EQ(one.tensors.size(), many.tensors.size());
}

/// An interruption between two shards, by a progress callback that throws.
TEST(Convert, GoesOnWhereItStopped) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  ConvertOptions options = options_to(Container::compressed_tensors);
  options.shard_bytes = 4000;
  convert(kCtx, folder / "src", folder / "whole", options);
  EXPECT_THROW(convert(kCtx, folder / "src", folder / "cut", options,
                       [](int64_t done, int64_t total) {
                         if (done > total / 2) throw Error(ErrorCode::io, "power cut");
                       }),
               Error);
  EXPECT_FALSE(fs::exists(folder / "cut"));
  ConvertOptions other = options;
  other.shard_bytes = 5000;
  EXPECT_TRUE(holds(error_of([&] { convert(kCtx, folder / "src", folder / "cut", other); }).what(),
                    "shard_bytes is 4000 there and 5000 here"));
  EXPECT_GT(convert(kCtx, folder / "src", folder / "cut", options).kept_shards, 0);
  EXPECT_EQ(contents(folder / "whole"), contents(folder / "cut"));
}

TEST(Convert, CopiesWhatALoaderNeedsAndSaysTheRest) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  spill(folder / "src/tokenizer.json", "{}");
  spill(folder / "src/generation_config.json", "{\"eos_token_id\": 1}");
  spill(folder / "src/notes.txt", "mine");
  const ConvertReport report = convert(kCtx, folder / "src", folder / "dst", options_to(Container::modelopt));
  EXPECT_EQ(report.files, (std::vector<std::string>{"generation_config.json", "tokenizer.json"}));
  EXPECT_EQ(report.left_files, std::vector<std::string>{"notes.txt"});
  EXPECT_EQ(slurp(folder / "dst/generation_config.json"), "{\"eos_token_id\": 1}");
}

TEST(Convert, EveryTensorHasAFate) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  const ConvertReport report =
      convert(kCtx, folder / "src", folder / "a", with_input_amax(options_to(Container::modelopt)));
  const auto fates = [](const fs::path& source, const ConvertReport& r) {
    std::map<std::string, std::string> found;
    for (const TensorFate& row : r.tensors) found[row.from] = to_string(row.fate);
    EXPECT_EQ(found.size(), HandFolder::read(source).tensors.size());
    EXPECT_EQ(found.size(), r.tensors.size());
    return found;
  };
  auto found = fates(folder / "src", report);
  EXPECT_EQ(found.at("lm_head.weight"), "copied");
  EXPECT_EQ(found.at(kLayer + "mlp.down_proj.weight"), "quantized");
  ConvertOptions options = options_to(Container::compressed_tensors);
  options.activations = Activations::a16;
  found = fates(folder / "a", convert(kCtx, folder / "a", folder / "b", options));
  EXPECT_EQ(found.at(kLayer + "mlp.down_proj.weight"), "renamed");
  EXPECT_EQ(found.at(kLayer + "mlp.down_proj.weight_scale"), "copied");
  EXPECT_EQ(found.at(kLayer + "mlp.down_proj.weight_scale_2"), "recomputed");
  EXPECT_EQ(found.at(kLayer + "mlp.down_proj.input_scale"), "dropped");
  EXPECT_EQ(HandFolder::read(folder / "b").tensors.count(kLayer + "mlp.down_proj.input_global_scale"), 0u);
}

TEST(Convert, ScalesOfKeysAndValuesChangeTheirNames) {
  const TempFolder folder;
  HandFolder dense = dense_folder();
  dense.set_f32(kLayer + "self_attn.k_proj.k_scale", {0.5f});
  dense.set_f32(kLayer + "self_attn.v_proj.v_scale", {0.25f});
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "a", options_to(Container::compressed_tensors));
  EXPECT_EQ(scalar(HandFolder::read(folder / "a"), kLayer + "self_attn.k_scale"), 0.5f);
  convert(kCtx, folder / "a", folder / "b", options_to(Container::modelopt));
  EXPECT_EQ(scalar(HandFolder::read(folder / "b"), kLayer + "self_attn.v_proj.v_scale"), 0.25f);
}

TEST(Convert, IgnoreTakesNamesPatternsAndRegexes) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  ConvertOptions options = options_to(Container::modelopt);
  options.ignore = {"*.self_attn.*", "re:.*down_proj$"};
  convert(kCtx, folder / "src", folder / "dst", options);
  const HandFolder out = HandFolder::read(folder / "dst");
  EXPECT_EQ(out.tensors.at(kLayer + "self_attn.q_proj.weight").dtype, "BF16");
  EXPECT_EQ(out.tensors.at(kLayer + "mlp.down_proj.weight").dtype, "BF16");
  EXPECT_EQ(out.tensors.at(kLayer + "mlp.up_proj.weight").dtype, "U8");
  EXPECT_EQ(out.hf_quant_config["quantization"]["exclude_modules"].size(), 6u);
  options.ignore = {"*"};
  EXPECT_TRUE(holds(error_of([&] { convert(kCtx, folder / "src", folder / "none", options); }).what(),
                    "nothing is left to quantize"));
}

/// A recipe's weights: tiles, and one outer scale a row, which other loaders must refuse by name.
TEST(Convert, RecipeSpecsGiveTheSamplersBytes) {
  const TempFolder folder;
  const HandFolder dense = dense_folder();
  dense.write(folder / "src");
  for (const QuantSpec& spec :
       {QuantSpec{.format = FormatId::nvfp4, .outer = OuterScale::expert},
        QuantSpec{.format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = BlockShape::tile},
        QuantSpec{.format = FormatId::nvfp4, .outer = OuterScale::row},
        QuantSpec{.format = FormatId::nvfp4,
        .outer = OuterScale::row,
        .search = ScaleSearch::four_six_mae,
        .scale_max = 256}}) {
    ConvertOptions options = options_to(Container::modelopt);
    options.spec = spec;
    convert(kCtx, folder / "src", folder / "dst", options);
    const HandFolder out = HandFolder::read(folder / "dst");
    for (const auto& unit : kUnits) {
      const std::vector<Expected> parts = expected_of(dense, unit, spec);
      for (size_t i = 0; i < unit.size(); ++i) {
        EXPECT_EQ(out.tensors.at(unit[i] + ".weight").bytes, parts[i].codes) << to_string(spec) << unit[i];
        EXPECT_EQ(out.tensors.at(unit[i] + ".weight_scale").bytes, parts[i].scales) << to_string(spec);
      }
    }
    const bool rows = spec.outer == OuterScale::row;
    EXPECT_EQ(out.hf_quant_config["quantization"]["quant_algo"],
              rows ? "MINITE_W4A16_NVFP4_ROW" : "W4A16_NVFP4");
    const Verification found = verify(kCtx, folder / "src", folder / "dst");
    EXPECT_TRUE(found.faults.empty());
    EXPECT_LT(found.all.relative_l2(), 0.12) << to_string(spec);
    fs::remove_all(folder / "dst");
  }
  ConvertOptions options = options_to(Container::compressed_tensors);
  options.spec = {.format = FormatId::nvfp4, .outer = OuterScale::row};
  EXPECT_TRUE(holds(error_of([&] { convert(kCtx, folder / "src", folder / "dst", options); }).what(),
                    "with an outer scale a row"));
}

TEST(Verify, FindsWhatIsMissingOrOther) {
  const TempFolder folder;
  HandFolder dense = dense_folder();
  dense.write(folder / "src");
  EXPECT_TRUE(verify(kCtx, folder / "src", folder / "src").faults.empty());
  dense.tensors.erase("lm_head.weight");
  dense.tensors["model.norm.weight"].shape = {8, 8};
  dense.tensors["extra.weight"] = {"BF16", {1}, "ab"};
  dense.write(folder / "dst");
  const Verification found = verify(kCtx, folder / "src", folder / "dst");
  ASSERT_EQ(found.faults.size(), 3u);
  EXPECT_EQ(found.faults[0].tensor, "lm_head.weight");
  EXPECT_EQ(found.faults[1].tensor, "model.norm.weight");
  EXPECT_EQ(found.faults[2].tensor, "extra.weight");
}

}  // namespace
}  // namespace minite::checkpoints
