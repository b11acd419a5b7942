// Reports of other projects' users about checkpoints, each as a small folder and the right behaviour;
// docs/checkpoints.md has the table.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "checkpoints/fused.h"
#include "checkpoints/name_list.h"
#include "checkpoints/verify.h"
#include "formats/codecs.h"
#include "unit/checkpoints/small_model.h"

namespace minite::checkpoints {
namespace {

const Context kCtx = test_context();
const std::string kLayer = "model.layers.0.", kDown = kLayer + "mlp.down_proj";
constexpr auto kModelOpt = Container::modelopt;
constexpr auto kCompressed = Container::compressed_tensors;

/// dense_folder() converted, in memory, to be damaged.
HandFolder quantized_folder(Container to, bool activations = false) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  const ConvertOptions options = options_to(to);
  convert(kCtx, folder / "src", folder / "dst", activations ? with_input_amax(options) : options);
  return HandFolder::read(folder / "dst");
}
/// Why a folder is not opened.
std::string refused(const HandFolder& hand) {
  const TempFolder folder;
  hand.write(folder / "q");
  const Error error = error_of([&] { (void)open_quantized(folder / "q", OnFault::thrown); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
  return error.what();
}
std::string convert_error(const HandFolder& hand, ConvertOptions options) {
  const TempFolder folder;
  hand.write(folder / "q");
  return error_of([&] { convert(kCtx, folder / "q", folder / "dst", options); }).what();
}
float scalar(const HandFolder& folder, const std::string& name) {
  float x = 0;
  std::memcpy(&x, folder.tensors.at(name).bytes.data(), sizeof(x));
  return x;
}
std::vector<float> decoded(const HandFolder& hand, const std::string& module) {
  const TempFolder folder;
  hand.write(folder / "q");
  const QuantizedFolder q = open_quantized(folder / "q", OnFault::thrown);
  const StoredModule& m = q.modules.at(module);
  std::vector<float> values(static_cast<size_t>(m.rows * m.cols));
  decode_rows(kCtx, m, 0, TensorView(values.data(), m.rows, m.cols));
  return values;
}

TEST(Reports, NanScaleByteIsNamedWithItsPlace) {
  HandFolder q = quantized_folder(kModelOpt);
  q.tensors[kDown + ".weight_scale"].bytes[6 * 2 + 3] = '\x7f';  // 6 blocks a row
  for (const Container to : {kCompressed, Container::plain}) {
    const std::string text = convert_error(q, options_to(to));
    EXPECT_TRUE(holds(text, kDown + ".weight_scale has a NaN scale byte 0x7F at row 2, block 3")) << text;
  }
}

TEST(Reports, InfiniteOuterScaleOfUncalibratedInputIsNamed) {
  HandFolder q = quantized_folder(kCompressed, true);
  q.set_f32(kDown + ".input_global_scale", {std::numeric_limits<float>::infinity()}, {1});
  const std::string text = refused(q);
  EXPECT_TRUE(holds(text, "input_global_scale is inf")) << text;
}
TEST(Reports, InputThatCalibrationNeverSawGetsAFiniteScale) {
  const TempFolder folder;
  dense_folder().write(folder / "src");
  ConvertOptions options = with_input_amax(options_to(kCompressed));
  options.input_amax[kDown] = 0;
  convert(kCtx, folder / "src", folder / "dst", options);
  EXPECT_EQ(scalar(HandFolder::read(folder / "dst"), kDown + ".input_global_scale"), 2688.0f);
}

TEST(Reports, ReciprocalIsAppliedOnce) {
  const HandFolder modelopt = quantized_folder(kModelOpt);
  const TempFolder folder;
  modelopt.write(folder / "a");
  convert(kCtx, folder / "a", folder / "b", options_to(kCompressed));
  const HandFolder compressed = HandFolder::read(folder / "b");
  EXPECT_NEAR(
      scalar(compressed, kDown + ".weight_global_scale") * scalar(modelopt, kDown + ".weight_scale_2"), 1,
      1e-6);
  const std::vector<float> x = decoded(modelopt, kDown), y = decoded(compressed, kDown);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5f);
}

TEST(Reports, SwizzledScalesAreRefusedByShape) {
  HandFolder q = quantized_folder(kModelOpt);
  q.tensors[kDown + ".weight_scale"] = {"F8_E4M3", {128, 8}, std::string(1024, '\x38')};
  EXPECT_TRUE(holds(refused(q), "in rows, not swizzled"));
}

TEST(Reports, ScalesThatNobodyTakesAreRefused) {
  HandFolder q = quantized_folder(kCompressed);
  q.tensors.erase(kDown + ".weight_global_scale");
  EXPECT_TRUE(holds(refused(q), kDown + ".weight_packed has no"));
  q = quantized_folder(kCompressed);
  q.set_f32("model.layers.9.mlp.experts.0.up_proj.weight_global_scale", {3584}, {1});
  EXPECT_TRUE(holds(refused(q), "is a scale of nothing"));
}

TEST(Reports, UnequalOuterScalesOfAFusedPairAreRefusedFirst) {
  for (const Container from : {kModelOpt, kCompressed}) {
    HandFolder q = quantized_folder(from);
    const std::string name =
        kLayer + "mlp.up_proj" + (from == kModelOpt ? ".weight_scale_2" : ".weight_global_scale");
    q.set_f32(name, {scalar(q, name) * 2}, q.tensors[name].shape);
    const std::string text = convert_error(q, options_to(from == kModelOpt ? kCompressed : kModelOpt));
    for (const char* part : {"gate_proj", "up_proj", "--fused rescale", "--fused keep"})
      EXPECT_TRUE(holds(text, part)) << text;
  }
}

/// The group's largest amax rules; the other side's block scales take the ratio, once.
TEST(Reports, RescaledBlockScalesTakeTheRatio) {
  for (const Container from : {kModelOpt, kCompressed}) {
    HandFolder q = quantized_folder(from);
    const bool modelopt = from == kModelOpt;
    const std::string suffix = modelopt ? ".weight_scale_2" : ".weight_global_scale";
    const std::string up = kLayer + "mlp.up_proj", gate = kLayer + "mlp.gate_proj";
    const float own = scalar(q, up + suffix), large = modelopt ? own * 3.5f : own / 3.5f;
    q.set_f32(gate + suffix, {large}, q.tensors[gate + suffix].shape);
    const TempFolder folder;
    q.write(folder / "q");
    ConvertOptions options = options_to(modelopt ? kCompressed : kModelOpt);
    options.fused = FusedPolicy::rescale;
    const ConvertReport report = convert(kCtx, folder / "q", folder / "dst", options);
    ASSERT_EQ(report.rescaled.size(), 2u);
    const RescaleLoss &kept = report.rescaled[0], &changed = report.rescaled[1];
    EXPECT_EQ(kept.relative_l2(), 0) << "gate has the largest";
    EXPECT_NEAR(changed.ratio, 1 / 3.5, 1e-6);
    EXPECT_GT(changed.relative_l2(), 0);
    EXPECT_LT(changed.relative_l2(), 0.0625) << "at most one rounding of E4M3";
    const HandFolder out = HandFolder::read(folder / "dst");
    const std::string other = modelopt ? ".weight_global_scale" : ".weight_scale_2";
    EXPECT_EQ(scalar(out, up + other), scalar(out, gate + other));
    const Verification found = verify(kCtx, folder / "q", folder / "dst");
    for (const VerifiedTensor& tensor : found.tensors) {
      if (tensor.name != up + ".weight") continue;
      EXPECT_NEAR(tensor.error.relative_l2(), changed.relative_l2(), 1e-5);
    }
  }
}
TEST(Reports, UnderflowOfRescaledScalesIsCounted) {
  HandFolder q = quantized_folder(kModelOpt);
  const std::string up = kLayer + "mlp.up_proj", gate = kLayer + "mlp.gate_proj";
  q.set_f32(gate + ".weight_scale_2", {scalar(q, up + ".weight_scale_2") * 1e6f});
  const TempFolder folder;
  q.write(folder / "q");
  ConvertOptions options = options_to(kCompressed);
  options.fused = FusedPolicy::rescale;
  const ConvertReport report = convert(kCtx, folder / "q", folder / "dst", options);
  EXPECT_EQ(report.rescaled[1].underflows, report.rescaled[1].blocks) << "448 / 10^6 is below 2^-10";
  EXPECT_EQ(report.rescaled[1].relative_l2(), 1);
  options.fused = FusedPolicy::keep;
  EXPECT_TRUE(convert(kCtx, folder / "q", folder / "kept", options).rescaled.empty());
  EXPECT_NE(scalar(HandFolder::read(folder / "kept"), up + ".weight_global_scale"),
            scalar(HandFolder::read(folder / "kept"), gate + ".weight_global_scale"));
}
TEST(Reports, RescaledByteRoundsOnceToNearestEven) {
  EXPECT_EQ(E4M3::decode(0x7E), 448);
  for (int byte = 0; byte < 0x7F; ++byte) {
    EXPECT_EQ(E4M3::encode(E4M3::decode(static_cast<uint8_t>(byte))), byte);
  }
}

/// Also for experts without tokens: the pair has one amax, whatever each has.
TEST(Reports, FusedGroupsShareOneOuterScaleFromBf16) {
  HandFolder dense;
  dense.config["model_type"] = "qwen3_moe";
  for (int e = 0; e < 2; ++e) {
    const std::string expert = fmt::format("model.layers.0.mlp.experts.{}.", e);
    dense.tensors[expert + "gate_proj.weight"] = {
        "BF16", {16, 32}, raw(weight_values(16, 32, 1, e == 0 ? 1.0f : 0.0f))};
    dense.tensors[expert + "up_proj.weight"] = {"BF16", {16, 32}, raw(weight_values(16, 32, 2, 0.01f))};
  }
  dense.tensors["model.layers.0.mlp.gate.weight"] = {"BF16", {2, 32}, raw(weight_values(2, 32, 3))};
  const TempFolder folder;
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "dst", options_to(kModelOpt));
  const HandFolder out = HandFolder::read(folder / "dst");
  for (int e = 0; e < 2; ++e) {
    const std::string expert = fmt::format("model.layers.0.mlp.experts.{}.", e);
    EXPECT_EQ(scalar(out, expert + "gate_proj.weight_scale_2"),
              scalar(out, expert + "up_proj.weight_scale_2"));
  }
  EXPECT_NE(scalar(out, "model.layers.0.mlp.experts.0.up_proj.weight_scale_2"),
            scalar(out, "model.layers.0.mlp.experts.1.up_proj.weight_scale_2"))
      << "experts are not synchronized with each other";
  EXPECT_EQ(out.tensors.at("model.layers.0.mlp.gate.weight").dtype, "BF16");
  EXPECT_EQ(out.hf_quant_config["quantization"]["exclude_modules"], json{"model.layers.0.mlp.gate"})
      << "routers are left out by name";
}

TEST(Reports, ProjectionsOfOtherNamesAreGroupsAndCrossAttentionIsNot) {
  EXPECT_EQ(fused_name("blocks.0.attn.to_k"), "blocks.0.attn.to_qkv");
  EXPECT_EQ(fused_name("blocks.0.attn2.to_k"), "");
  EXPECT_EQ(fused_name("blocks.0.cross_attn.k_proj"), "");
  EXPECT_EQ(fused_name("l.mlp.experts.3.w3"), "l.mlp.experts.3.w13");
  EXPECT_EQ(fused_name("l.self_attn.kv_a_proj_with_mqa"), "l.self_attn.fused_qkv_a_proj");
  EXPECT_EQ(fused_name("l.mlp.down_proj"), "");
  const auto groups = fused_groups({{"a.k_proj", 64}, {"a.o_proj", 64}, {"a.q_proj", 64}, {"a.v_proj", 32}});
  EXPECT_EQ(groups, (std::vector<std::vector<size_t>>{{2, 0}, {1}, {3}})) << "v reads another input here";
}

/// weight_scale_2 of shape (3,): one for each part of qkv_proj, whose rows config.json tells.
TEST(Reports, FusedTensorWithAScaleAPart) {
  HandFolder q = quantized_folder(kModelOpt);
  const std::vector<std::string> parts = {kLayer + "self_attn.q_proj", kLayer + "self_attn.k_proj",
                                          kLayer + "self_attn.v_proj"};
  const std::string fused = kLayer + "self_attn.qkv_proj";
  std::vector<float> expected, scales = {1e-3f, 2e-3f, 4e-3f};
  HandFolder::Tensor codes = {"U8", {64, 32}, ""}, blocks = {"F8_E4M3", {64, 4}, ""};
  for (size_t i = 0; i < 3; ++i) {
    q.set_f32(parts[i] + ".weight_scale_2", {scales[i]});
    const std::vector<float> values = decoded(q, parts[i]);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  for (const std::string& part : parts) {
    codes.bytes += q.tensors.at(part + ".weight").bytes;
    blocks.bytes += q.tensors.at(part + ".weight_scale").bytes;
    for (const char* suffix : {".weight", ".weight_scale", ".weight_scale_2"}) q.tensors.erase(part + suffix);
  }
  q.tensors[fused + ".weight"] = codes;
  q.tensors[fused + ".weight_scale"] = blocks;
  q.set_f32(fused + ".weight_scale_2", scales, {3});
  EXPECT_EQ(decoded(q, fused), expected);
  EXPECT_TRUE(holds(convert_error(q, options_to(kCompressed)), "servers fuse these modules"));
  const TempFolder folder;
  q.write(folder / "q");
  ConvertOptions options = options_to(kCompressed);
  options.fused = FusedPolicy::rescale;
  convert(kCtx, folder / "q", folder / "dst", options);
  EXPECT_EQ(HandFolder::read(folder / "dst").tensors.at(fused + ".weight_global_scale").shape,
            std::vector<int64_t>{1});
  q.config.erase("num_attention_heads");
  EXPECT_TRUE(holds(refused(q), "has 3 values")) << "without the sizes nobody knows the parts";
}

TEST(Reports, Bf16LayerThatIsNotLeftOutIsNamed) {
  HandFolder q = quantized_folder(kModelOpt);
  for (const char* suffix : {".weight_scale", ".weight_scale_2"}) q.tensors.erase(kDown + suffix);
  q.tensors[kDown + ".weight"] = {"BF16", {64, 96}, raw(weight_values(64, 96, 1))};
  const std::string text = refused(q);
  EXPECT_TRUE(holds(text, kDown + ".weight is BF16, but the configuration quantizes")) << text;
  q.config["quantization_config"]["ignore"].push_back(kDown);
  const TempFolder folder;
  q.write(folder / "q");
  EXPECT_EQ(open_quantized(folder / "q", OnFault::thrown).modules.size(), 6u);
}
TEST(Reports, LayerInCodesThatIsLeftOutIsNamed) {
  HandFolder q = quantized_folder(kModelOpt);
  q.config["quantization_config"]["ignore"].push_back("*mlp*");
  EXPECT_TRUE(holds(refused(q), "'*mlp*' leaves it out")) << refused(q);
}
TEST(Reports, CodesWithoutAConfigurationAreNoNumbers) {
  HandFolder q = quantized_folder(kModelOpt);
  q.config.erase("quantization_config");
  q.hf_quant_config = nullptr;
  EXPECT_TRUE(holds(refused(q), "looks like codes of ModelOpt NVFP4"));
}

TEST(Reports, PatternsOfEachContainer) {
  const auto matches = [](Container container, const char* entry, const char* module) {
    return NameList(container, {entry}).matches(module);
  };
  EXPECT_TRUE(matches(kModelOpt, "vision_tower*", "vision_tower.layers.0.fc1"));
  EXPECT_TRUE(matches(kModelOpt, "vision_tower.*", "vision_tower"));
  EXPECT_TRUE(matches(kModelOpt, "vision_tower.*", "vision_tower.fc1"));
  EXPECT_FALSE(matches(kModelOpt, "vision_tower.*", "vision_tower2.fc1"));
  EXPECT_TRUE(matches(kModelOpt, "vision_tower", "vision_tower.fc1"));
  EXPECT_FALSE(matches(kModelOpt, "gate", "model.layers.0.mlp.gate_proj")) << "no substring";
  EXPECT_TRUE(matches(kCompressed, "re:.*router", "model.layers.0.router.proj"))
      << "from the start, not to the end";
  EXPECT_FALSE(matches(kCompressed, "re:router", "model.layers.0.router"));
  EXPECT_TRUE(matches(kCompressed, "Linear", "anything.at.all"));
  EXPECT_FALSE(matches(kCompressed, "*.mlp.*", "model.mlp.up")) << "compressed-tensors has no shell patterns";
  EXPECT_TRUE(matches(kCompressed, "visual.blocks.0.fc1.linear", "visual.blocks.0.fc1"));
  EXPECT_TRUE(matches(kCompressed, "l.0.self_attn.qkv_proj", "l.0.self_attn.k_proj"));
  EXPECT_EQ(error_of([&] { NameList(kCompressed, {"re:(("}); }).code(), ErrorCode::invalid_argument);
  const std::string name(64, 'a');
  EXPECT_EQ(error_of([&] { (void)NameList(kCompressed, {"re:(a+)+$(?<!a)"}).matches(name); }).code(),
            ErrorCode::resource)
      << "a pattern that does not end";
}

/// recipe.yaml does not count; what config.json lists does.
TEST(Reports, ConfigJsonIsTheListThatCounts) {
  const TempFolder folder;
  HandFolder q = quantized_folder(kCompressed);
  q.write(folder / "q");
  spill(folder / "q/recipe.yaml", "ignore: ['re:.*mlp.*']\n");
  EXPECT_EQ(open_quantized(folder / "q", OnFault::thrown).modules.size(), 7u);
}

/// Outer scale 1 and block scales below 2^-6: exact, and all 254 bytes.
TEST(Reports, SubnormalScalesAndEveryScaleByteDecodeExactly) {
  HandFolder q = quantized_folder(kModelOpt);
  const std::string o = kLayer + "self_attn.o_proj";  // [64, 32]: 128 blocks
  for (int begin : {0, 127}) {
    std::string codes, scales;
    for (int b = 0; b < 128; ++b) {
      const int byte = begin == 0 ? std::min(b, 0x7E) : 0x80 + std::min(b, 0x7E);
      scales += static_cast<char>(byte);
      codes += std::string(8, '\x72');  // 1 and 6
    }
    q.tensors[o + ".weight"].bytes = codes;
    q.tensors[o + ".weight_scale"].bytes = scales;
    q.set_f32(o + ".weight_scale_2", {1});
    const std::vector<float> values = decoded(q, o);
    for (size_t b = 0; b < 128; ++b) {
      const float d = E4M3::decode(static_cast<uint8_t>(scales[b]));
      ASSERT_EQ(values[16 * b], d) << b;
      ASSERT_EQ(values[16 * b + 1], 6 * d) << b;
    }
    if (begin == 0) {
      EXPECT_EQ(values[16], 0x1p-9f) << "byte 1";
    }
  }
}

TEST(Reports, InnerDimensionThatIsNoMultipleOfABlockIsRefused) {
  HandFolder dense = dense_folder();
  dense.tensors[kDown + ".weight"] = {"BF16", {512, 60}, raw(weight_values(512, 60, 1))};
  const std::string text = convert_error(dense, options_to(kModelOpt));
  EXPECT_TRUE(holds(text, "K = 60 is no multiple of the 16")) << text;
  EXPECT_TRUE(holds(text, "--ignore '" + kDown + "'")) << text;
  ConvertOptions options = options_to(kModelOpt);
  options.ignore = {kDown};
  const TempFolder folder;
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "dst", options);
  EXPECT_EQ(HandFolder::read(folder / "dst").tensors.at(kDown + ".weight").dtype, "BF16");
}
TEST(Reports, OneBlockAndOddRowsWork) {
  HandFolder dense;
  dense.tensors["a.weight"] = {"BF16", {33, 16}, raw(weight_values(33, 16, 1))};
  dense.tensors["b.weight"] = {"BF16", {1, 16}, raw(weight_values(1, 16, 2))};
  const TempFolder folder;
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "dst", options_to(kModelOpt));
  EXPECT_EQ(HandFolder::read(folder / "dst").tensors.at("a.weight_scale").shape,
            (std::vector<int64_t>{33, 1}));
  EXPECT_TRUE(verify(kCtx, folder / "src", folder / "dst").faults.empty());
}

/// Experts have input scales of their own; nobody takes one for all.
TEST(Reports, InputScalesOfExpertsStayTheirOwn) {
  HandFolder dense;
  ConvertOptions options = options_to(kModelOpt);
  options.activations = Activations::a4;
  for (int e = 0; e < 3; ++e) {
    const std::string name = fmt::format("l.mlp.experts.{}.down_proj", e);
    dense.tensors[name + ".weight"] = {"BF16", {16, 32}, raw(weight_values(16, 32, 1))};
    options.input_amax[name] = static_cast<float>(e + 1);
  }
  const TempFolder folder;
  dense.write(folder / "src");
  convert(kCtx, folder / "src", folder / "dst", options);
  convert(kCtx, folder / "dst", folder / "ct", options_to(kCompressed));
  for (int e = 0; e < 3; ++e)
    EXPECT_EQ(scalar(HandFolder::read(folder / "ct"),
                     fmt::format("l.mlp.experts.{}.down_proj.input_global_scale", e)),
              1.0f / (static_cast<float>(e + 1) / 2688.0f));
}

TEST(Reports, ElementsRoundToNearestEvenAndScalesUp) {
  EXPECT_EQ(E2M1::decode(E2M1::encode(-0.625f * E8M0::inverse(126))), -1.0f);
  EXPECT_EQ(E2M1::decode(E2M1::encode(std::bit_cast<float>(0x3F000003u) * E8M0::inverse(128))), 0.5f);
  const TempFolder folder;
  HandFolder dense;
  std::vector<bf16> values(32, bf16(7.0f));  // floor would clip 7 to 6
  dense.tensors["a.weight"] = {"BF16", {1, 32}, raw(values)};
  dense.write(folder / "src");
  ConvertOptions options = options_to(kCompressed, FormatId::mxfp4);
  options.spec.convention = Convention::rceil;
  convert(kCtx, folder / "src", folder / "dst", options);
  EXPECT_EQ(HandFolder::read(folder / "dst").tensors.at("a.weight_scale").bytes, std::string(1, '\x80'));
  EXPECT_EQ(json::parse(slurp(folder / "dst/conversion.json"))["quantized_as"], "mxfp4[rceil]")
      << "the mode is stated in the folder";
}

/// A checkpoint of a training run has no calibrated inputs.
TEST(Reports, FourBitActivationsNeedACalibration) {
  ConvertOptions options = options_to(kModelOpt);
  options.activations = Activations::a4;
  EXPECT_TRUE(holds(convert_error(dense_folder(), options), "--input-amax"));
  EXPECT_TRUE(holds(convert_error(quantized_folder(kModelOpt),
                                  [&] {
                                    ConvertOptions to = options_to(kCompressed);
                                    to.activations = Activations::a4;
                                    return to;
                                  }()),
                    "--activations a16"));
}

/// ModelOpt's W4A8 has amax / 448 under the same names; only the configuration says so.
TEST(Reports, AlgorithmsThatLookAlikeAreRefusedByName) {
  HandFolder q = quantized_folder(kModelOpt);
  q.config["quantization_config"]["quant_algo"] = "W4A8_NVFP4_FP8";
  const TempFolder folder;
  q.write(folder / "q");
  const Error error = error_of([&] { (void)open_quantized(folder / "q", OnFault::thrown); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(holds(error.what(), "W4A8_NVFP4_FP8"));
}

/// Wrong types everywhere in a configuration are errors of this project, with the place.
TEST(Reports, HostileConfigurationsAreNamed) {
  const HandFolder sound = quantized_folder(kCompressed);
  for (const char* path :
       {"/quantization_config", "/quantization_config/quant_method", "/quantization_config/ignore",
        "/quantization_config/config_groups", "/quantization_config/config_groups/group_0",
        "/quantization_config/config_groups/group_0/weights",
        "/quantization_config/config_groups/group_0/weights/num_bits",
        "/quantization_config/config_groups/group_0/targets"}) {
    for (const json& value :
         {json(7), json("x"), json::array({1, 2}), json::object({{"a", 1}}), json(-1e300)}) {
      HandFolder q = sound;
      q.config[json::json_pointer(path)] = value;
      const TempFolder folder;
      q.write(folder / "q");
      try {
        (void)open_quantized(folder / "q", OnFault::thrown);
      } catch (const Error&) {
        continue;  // any other exception ends the test
      }
      EXPECT_TRUE(std::string_view(path).ends_with("ignore") || std::string_view(path).ends_with("targets"))
          << path << value;
    }
  }
}

}  // namespace
}  // namespace minite::checkpoints
