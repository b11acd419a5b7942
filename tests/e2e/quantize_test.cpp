// minite quantize: names, types and shapes of the parts, bytes of the golden vectors, numbers against brute
// force, and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "minite/tensor.h"
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
using test_support::TempFolder;
using test_support::TensorFile;
using test_support::values_of;
using Words = std::vector<std::string>;
using Shape = std::vector<int64_t>;

const std::string kGolden = MINITE_SOURCE_DIR "/tests/golden/transformer_engine.safetensors";

/// Quantizes folder/in into folder/`out` with `more`; expects success.
CommandResult quantize(const TempFolder& folder, const Words& more, const std::string& out = "out") {
  Words all = {"quantize", (folder / "in").string(), "-o", (folder / out).string()};
  all.insert(all.end(), more.begin(), more.end());
  CommandResult result = run_minite(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result;
}

/// Rows of the JSON report by tensor.
std::map<std::string, json> rows_of(const CommandResult& result) {
  std::map<std::string, json> rows;
  const json document = json::parse(result.out);
  for (const json& row : document["tensors"]) rows[row["name"]] = row;
  return rows;
}

TEST(QuantizeVerb, PartsOfMatricesAndExperts) {
  const TempFolder folder;
  TensorFile()
      .f32("w", {5, 33}, small_values(165))
      .f32("moe", {2, 3, 17}, small_values(102))
      .write(folder / "in");
  quantize(folder, {"--format", "nvfp4", "--outer", "row", "--columnwise", "--dequantize"});
  const io::SafetensorsFile file(folder / "out");
  const std::map<std::string, Shape> expected = {{"w.codes", {5, 17}},
                                                 {"w.block_scales", {5, 3}},
                                                 {"w.outer_scale", {5}},
                                                 {"w.amax", {5}},
                                                 {"w.dequantized", {5, 33}},
                                                 {"w.columnwise.codes", {33, 3}},
                                                 {"w.columnwise.block_scales", {33, 1}},
                                                 {"w.columnwise.outer_scale", {33}},
                                                 {"w.columnwise.amax", {33}},
                                                 {"w.columnwise.dequantized", {33, 5}},
                                                 {"moe.codes", {2, 3, 9}},
                                                 {"moe.block_scales", {2, 3, 2}},
                                                 {"moe.outer_scale", {6}},
                                                 {"moe.amax", {6}},
                                                 {"moe.dequantized", {2, 3, 17}},
                                                 {"moe.columnwise.codes", {2, 17, 2}},
                                                 {"moe.columnwise.block_scales", {2, 17, 1}},
                                                 {"moe.columnwise.outer_scale", {34}},
                                                 {"moe.columnwise.amax", {34}},
                                                 {"moe.columnwise.dequantized", {2, 17, 3}}};
  ASSERT_EQ(file.tensors().size(), expected.size());
  for (const auto& [name, shape] : expected) {
    EXPECT_EQ(file.at(name).shape, shape) << name;
    const bool bytes = name.ends_with("codes") || name.ends_with("block_scales");
    EXPECT_EQ(file.at(name).type, bytes ? io::StoredType::u8 : io::StoredType::f32) << name;
  }
  EXPECT_EQ(file.metadata().at("minite.spec"), "nvfp4[te,outer=row]");
  EXPECT_EQ(json::parse(file.metadata().at("minite.tensors"))["w"]["shape"], (Shape{5, 33}));
}

TEST(QuantizeVerb, OuterScalesOfEachDomain) {
  const TempFolder folder;
  TensorFile()
      .f32("moe", {2, 4, 32}, small_values(256))
      .f32("w", {3, 16}, small_values(48))
      .write(folder / "in");
  const std::vector<std::pair<std::string, std::pair<Shape, Shape>>> domains = {
      {"tensor", {{1}, {1}}}, {"expert", {{2}, {1}}}, {"row", {{8}, {3}}}};
  for (const auto& [outer, shapes] : domains) {
    quantize(folder, {"--format", "nvfp4", "--outer", outer, "--columnwise"});
    const io::SafetensorsFile file(folder / "out");
    EXPECT_EQ(file.at("moe.outer_scale").shape, shapes.first) << outer;
    EXPECT_EQ(file.at("w.outer_scale").shape, shapes.second) << outer;
    const auto amax = values_of<float>(file.at("moe.amax")),
               scale = values_of<float>(file.at("moe.outer_scale"));
    for (size_t i = 0; i < amax.size(); ++i)
      EXPECT_EQ(scale[i], 1.0f / (2688.0f / amax[i])) << "the decode multiplier that the encoder used";
  }
  quantize(folder, {"--format", "nvfp4", "--outer", "none"});
  EXPECT_EQ(io::SafetensorsFile(folder / "out").tensors().count("w.outer_scale"), 0u);
  quantize(folder, {"--format", "mxfp8"});
  const io::SafetensorsFile mx(folder / "out");
  EXPECT_EQ(mx.at("w.codes").shape, (Shape{3, 16}));
  EXPECT_EQ(mx.at("w.block_scales").shape, (Shape{3, 1}));
  EXPECT_EQ(mx.tensors().size(), 4u);
}

/// A scale of an expert, and of a whole tensor, is what each expert, or all rows as one matrix, would get.
TEST(QuantizeVerb, ExpertsAreMatricesOfTheirOwn) {
  const TempFolder folder;
  const auto a = small_values(96, 1), b = small_values(96, 2);
  auto both = a;
  both.insert(both.end(), b.begin(), b.end());
  TensorFile()
      .f32("a", {3, 32}, a)
      .f32("b", {3, 32}, b)
      .f32("both", {2, 3, 32}, both)
      .f32("flat", {6, 32}, both)
      .write(folder / "in");
  for (const char* outer : {"expert", "tensor", "row"}) {
    quantize(folder, {"--format", "nvfp4", "--outer", outer, "--columnwise"});
    const io::SafetensorsFile file(folder / "out");
    const auto bytes = [&](const std::string& name) { return values_of<uint8_t>(file.at(name)); };
    for (const std::string part : {"codes", "block_scales", "amax"}) {
      auto joined = bytes("a." + part);
      const auto second = bytes("b." + part);
      joined.insert(joined.end(), second.begin(), second.end());
      const bool shared = std::string(outer) == "tensor";
      EXPECT_EQ(bytes("both." + part), shared ? bytes("flat." + part) : joined) << outer << " " << part;
    }
    if (std::string(outer) == "tensor") continue;
    auto joined = bytes("a.columnwise.codes");
    const auto second = bytes("b.columnwise.codes");
    joined.insert(joined.end(), second.begin(), second.end());
    EXPECT_EQ(bytes("both.columnwise.codes"), joined) << outer;
  }
}

TEST(QuantizeVerb, EveryFloatTypeGivesTheSameCodes) {
  const TempFolder folder;
  const auto x = small_values(96);
  std::vector<uint16_t> half, brain;
  std::vector<double> wide(x.begin(), x.end());
  for (const float value : x) {
    brain.push_back(bf16(value).bits);
    half.push_back(test_support::half_bits(value));
  }
  TensorFile()
      .add("f64", "F64", {3, 32}, raw(wide))
      .f32("f32", {3, 32}, x)
      .add("f16", "F16", {3, 32}, raw(half))
      .add("bf16", "BF16", {3, 32}, raw(brain))
      .write(folder / "in");
  quantize(folder, {"--format", "nvfp4", "--columnwise", "--dequantize"});
  const io::SafetensorsFile file(folder / "out");
  for (const std::string part : {".codes", ".block_scales", ".amax", ".columnwise.codes", ".dequantized"}) {
    const auto expected = values_of<uint8_t>(file.at("f32" + part));
    for (const char* type : {"f64", "f16", "bf16"})
      EXPECT_EQ(values_of<uint8_t>(file.at(type + part)), expected) << type << part;
  }
}

/// compressed-tensors takes 2688 / amax in the dtype of the weight: 1/5 is rounded before and after.
TEST(QuantizeVerb, StatisticsHaveTheWeightsDtype) {
  const TempFolder folder;
  auto x = small_values(32);
  x[3] = 5.0f;
  std::vector<uint16_t> half, brain;
  for (const float value : x) {
    half.push_back(test_support::half_bits(value));
    brain.push_back(bf16(value).bits);
  }
  TensorFile()
      .f32("f32", {1, 32}, x)
      .add("f16", "F16", {1, 32}, raw(half))
      .add("bf16", "BF16", {1, 32}, raw(brain))
      .add("moe", "F16", {2, 1, 16}, raw(half))
      .write(folder / "in");
  quantize(folder, {"--format", "nvfp4", "--convention", "compressed-tensors", "--columnwise"});
  const io::SafetensorsFile file(folder / "out");
  const auto outer = [&](const std::string& name) {
    return values_of<float>(file.at(name + "outer_scale"))[0];
  };
  const std::map<std::string, float> globals = {
      {"f32", 1.0f / 5.0f * 2688.0f}, {"f16", 537.5f}, {"bf16", 540.0f}, {"moe", 537.5f}};
  for (const auto& [name, global] : globals) {
    EXPECT_EQ(outer(name + "."), 1.0f / global) << name;
    EXPECT_EQ(outer(name + ".columnwise."), 1.0f / global) << name;
  }
  quantize(folder, {"--format", "nvfp4", "--convention", "compressed-tensors-f32"});
  EXPECT_EQ(values_of<float>(io::SafetensorsFile(folder / "out").at("f16.outer_scale"))[0],
            1.0f / globals.at("f32"));
}

TEST(QuantizeVerb, RoundedDoublesAreSaidSo) {
  const TempFolder folder;
  TensorFile().add("w", "F64", {1, 16}, raw(std::vector<double>(16, 0.1))).write(folder / "in");
  EXPECT_TRUE(
      holds(quantize(folder, {"--format", "nvfp4"}).out, "16 of 16 F64 values are not exact in FP32"));
  EXPECT_EQ(rows_of(quantize(folder, {"--format", "nvfp4", "--json"}))["w"]["rounded_to_f32"], 16);
}

TEST(QuantizeVerb, WhatIsNotAFloatMatrixIsCopiedAndListed) {
  const TempFolder folder;
  TensorFile()
      .add("ids", "I64", {2, 2}, raw<int64_t>({1, 2, 3, 4}))
      .f32("bias", {3}, {1, 2, 3})
      .f32("scalar", {}, {7})
      .f32("conv", {1, 1, 1, 2}, {8, 9})
      .add("fp8", "F8_E4M3", {1, 2}, "ab")
      .f32("w", {1, 16}, small_values(16))
      .write(folder / "in");
  const CommandResult text = quantize(folder, {"--format", "mxfp8"});
  const io::SafetensorsFile file(folder / "out"), input(folder / "in");
  for (const char* name : {"ids", "bias", "scalar", "conv", "fp8"}) {
    EXPECT_EQ(values_of<uint8_t>(file.at(name)), values_of<uint8_t>(input.at(name))) << name;
    EXPECT_EQ(file.at(name).shape, input.at(name).shape) << name;
    EXPECT_TRUE(holds(text.out, std::string(name) + ": copied through")) << text.out;
  }
  EXPECT_EQ(file.tensors().count("w"), 0u);
  const json document = json::parse(quantize(folder, {"--format", "mxfp8", "--json"}).out);
  EXPECT_EQ(document["copied"].size(), 5u);
  EXPECT_EQ(document["tensors"].size(), 1u);
}

TEST(QuantizeVerb, EmptyOneRowAndOneBlock) {
  const TempFolder folder;
  TensorFile()
      .add("no_rows", "BF16", {0, 16}, "")
      .f32("no_cols", {4, 0}, {})
      .f32("no_experts", {0, 4, 16}, {})
      .f32("one", {1, 1}, {0.5f})
      .f32("block", {1, 16}, small_values(16))
      .f32("zeros", {2, 16}, std::vector<float>(32, 0.0f))
      .write(folder / "in");
  for (const char* outer : {"none", "tensor", "expert", "row"}) {
    const auto rows = rows_of(
        quantize(folder, {"--format", "nvfp4", "--outer", outer, "--columnwise", "--dequantize", "--json"}));
    const io::SafetensorsFile file(folder / "out");
    EXPECT_EQ(file.at("no_rows.codes").shape, (Shape{0, 8}));
    EXPECT_EQ(file.at("no_cols.codes").shape, (Shape{4, 0}));
    EXPECT_EQ(file.at("no_experts.codes").shape, (Shape{0, 4, 8}));
    EXPECT_NEAR(values_of<float>(file.at("one.dequantized"))[0], 0.5f, 0.02f);
    EXPECT_EQ(values_of<float>(file.at("zeros.dequantized")), std::vector<float>(32, 0.0f));
    EXPECT_EQ(rows.at("zeros")["zero_scale_blocks"], 2);
    EXPECT_EQ(rows.at("no_rows")["blocks"], 0);
    if (std::string(outer) != "none") {
      EXPECT_EQ(rows.at("one")["relative_l2"], 0.0);
      EXPECT_EQ(rows.at("one")["snr_db_nonfinite"], "inf");
      for (const float scale : values_of<float>(file.at("no_cols.outer_scale"))) EXPECT_EQ(scale, 1.0f);
    }
  }
}

TEST(QuantizeVerb, PaddingIsSaid) {
  const TempFolder folder;
  TensorFile()
      .f32("w", {4, 33}, small_values(132))
      .f32("whole", {32, 64}, small_values(2048))
      .write(folder / "in");
  const std::string text = quantize(folder, {"--format", "nvfp4", "--columnwise"}).out;
  EXPECT_TRUE(holds(text, "w: K=33 is not a multiple of 16: the last block of a row is padded with zeros"));
  EXPECT_TRUE(holds(text, "w columnwise: M=4 is not a multiple of 16"));
  EXPECT_FALSE(holds(text, "whole: ")) << text;
  EXPECT_FALSE(holds(text, "rotation")) << text;
  EXPECT_TRUE(
      holds(quantize(folder, {"--format", "nvfp4", "--columnwise", "--rht"}).out,
            "w columnwise: M=4 is not a multiple of 16: the last block of a row is padded with zeros, and "
            "stored whole after the rotation"));
  const auto rows = rows_of(quantize(folder, {"--format", "mxfp8", "--json"}));
  EXPECT_TRUE(holds(rows.at("w")["padding"], "K=33 is not a multiple of 32"));
  EXPECT_EQ(rows.at("whole")["padding"], "");
}

TEST(QuantizeVerb, BytesDependOnTheArgumentsOnly) {
  const TempFolder folder;
  TensorFile()
      .f32("w", {70, 130}, small_values(9100))
      .f32("moe", {3, 16, 32}, small_values(1536))
      .write(folder / "in");
  const Words options = {"--format", "nvfp4",      "--outer", "expert", "--columnwise",
                         "--rht",    "--rounding", "sr",      "--seed", "9"};
  const auto with = [&](const Words& more) {
    Words all = options;
    all.insert(all.end(), more.begin(), more.end());
    quantize(folder, all);
    return slurp(folder / "out");
  };
  const std::string once = with({});
  EXPECT_EQ(with({"--threads", "1"}), once);
  EXPECT_EQ(with({"--threads", "3"}), once);
  EXPECT_EQ(with({"--backend", "ref"}), once);
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists();
  EXPECT_EQ(entries, 2u) << "temporary files are left";
}

TEST(QuantizeVerb, StochasticRoundingFollowsTheSeed) {
  const TempFolder folder;
  TensorFile()
      .f32("a", {64, 64}, small_values(4096))
      .f32("b", {64, 64}, small_values(4096))
      .write(folder / "in");
  const auto codes = [&](const Words& more, const std::string& name) {
    Words all = {"--format", "nvfp4", "--dequantize"};
    all.insert(all.end(), more.begin(), more.end());
    quantize(folder, all);
    return values_of<uint8_t>(io::SafetensorsFile(folder / "out").at(name + ".codes"));
  };
  const auto nearest = codes({}, "a"), one = codes({"--rounding", "sr", "--seed", "1"}, "a");
  EXPECT_NE(one, nearest);
  EXPECT_EQ(codes({"--rounding", "sr", "--seed", "1"}, "a"), one);
  EXPECT_NE(codes({"--rounding", "sr", "--seed", "2"}, "a"), one);
  EXPECT_NE(codes({"--rounding", "sr", "--seed", "1"}, "b"), one) << "tensors draw their own bits";
  // Unbiased: the mean of the decoded values over seeds comes closer to x than nearest rounding does.
  std::vector<double> sum(4096, 0.0);
  constexpr int kSeeds = 32;
  for (int seed = 0; seed < kSeeds; ++seed) {
    (void)codes({"--rounding", "sr", "--seed", std::to_string(seed)}, "a");
    const auto decoded = values_of<float>(io::SafetensorsFile(folder / "out").at("a.dequantized"));
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{decoded[i]};
  }
  (void)codes({}, "a");
  const auto rounded = values_of<float>(io::SafetensorsFile(folder / "out").at("a.dequantized"));
  const auto x = small_values(4096);
  double mean_error = 0, nearest_error = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    mean_error += std::pow(sum[i] / kSeeds - double{x[i]}, 2);
    nearest_error += std::pow(double{rounded[i]} - double{x[i]}, 2);
  }
  EXPECT_LT(mean_error, 0.5 * nearest_error);
}

TEST(QuantizeVerb, RotationActsOnTheColumnwiseHalfOnly) {
  const TempFolder folder;
  TensorFile().f32("w", {40, 32}, small_values(1280)).write(folder / "in");
  quantize(folder, {"--format", "nvfp4", "--columnwise"}, "plain");
  const json row = rows_of(quantize(folder, {"--format", "nvfp4", "--columnwise", "--rht", "--json"}))["w"];
  const io::SafetensorsFile plain(folder / "plain"), rotated(folder / "out");
  EXPECT_EQ(values_of<uint8_t>(plain.at("w.codes")), values_of<uint8_t>(rotated.at("w.codes")));
  EXPECT_EQ(rotated.at("w.columnwise.codes").shape, (Shape{32, 24})) << "40 rows fill 3 groups of 16";
  EXPECT_EQ(rotated.metadata().at("minite.columnwise.spec"), "nvfp4[te,outer=tensor,rht]");
  // Rotated back, the values are close to w again.
  EXPECT_LT(row["columnwise"]["relative_l2"].get<double>(), 0.15);
  EXPECT_GT(row["columnwise"]["relative_l2"].get<double>(), 0.01);
  EXPECT_TRUE(row["columnwise"]["saturated"].is_null());
}

/// The report's numbers, computed again from the stored values.
TEST(QuantizeVerb, NumbersAgreeWithBruteForce) {
  const TempFolder folder;
  auto x = small_values(70 * 48);
  for (size_t i = 0; i < 480; ++i) x[i] *= 0x1p-20f;  // blocks whose scale underflows
  x[1000] = INFINITY;
  TensorFile().f32("w", {70, 48}, x).write(folder / "in");
  for (const Words& options : {Words{"nvfp4", "--outer", "row"},
                               {"nvfp4", "--outer", "none"},
                               {"mxfp8"},
                               {"sim_e2m2"},
                               {"sim_e5m1_e8m0"},
                               {"nvfp4", "--scale-search", "4over6-mse"}}) {
    Words all = {"--dequantize", "--json", "--format"};
    all.insert(all.end(), options.begin(), options.end());
    const json row = rows_of(quantize(folder, all))["w"];
    const auto decoded = values_of<float>(io::SafetensorsFile(folder / "out").at("w.dequantized"));
    double signal = 0, noise = 0, absolute = 0;
    int64_t infinite = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      infinite += std::isfinite(decoded[i]) ? 0 : 1;
      if (!std::isfinite(x[i])) continue;
      const double d = double{decoded[i]} - double{x[i]};
      signal += double{x[i]} * double{x[i]};
      noise += d * d;
      absolute += std::fabs(d);
    }
    EXPECT_EQ(row["nonfinite"], 1) << options[0];
    EXPECT_EQ(row["nonfinite_decoded"], infinite) << options[0];
    if (std::isnan(noise)) {
      EXPECT_EQ(row["snr_db_nonfinite"], "nan") << options[0];
      continue;
    }
    EXPECT_EQ(row["relative_l2"].get<double>(), std::sqrt(noise / signal)) << options[0];
    EXPECT_NEAR(row["snr_db"].get<double>(), 20 * std::log10(std::sqrt(signal / noise)), 1e-9) << options[0];
    EXPECT_EQ(row["mae"].get<double>(), absolute / static_cast<double>(x.size() - 1)) << options[0];
  }
}

// --- golden vectors --------------------------------------------------------------------------------

struct Family {
  std::string name;
  Words options;
};
std::vector<Family> families() {
  std::vector<Family> all = {
      {"mxfp8_1d", {"--format", "mxfp8", "--mx-scale", "rceil"}},
      {"mxfp8_2d", {"--format", "mxfp8", "--block", "2d"}},
  };
  const std::vector<Family> bases = {{"tensor1d", {"--format", "nvfp4"}},
                                     {"tensor2d", {"--format", "nvfp4", "--block", "2d"}},
                                     {"row1d", {"--format", "nvfp4", "--outer", "row"}}};
  for (const Family& base : bases) {
    all.push_back(base);
    for (const std::string mode : {"mae", "mse"}) {
      for (const std::string max : {"448", "256"}) {
        Family family{base.name + "_4o6_" + mode + "_" + max, base.options};
        family.options.insert(family.options.end(), {"--scale-search", "4over6-" + mode, "--scale-max", max});
        all.push_back(std::move(family));
      }
    }
  }
  return all;
}

/// Whether bytes agree; E4M3 has two NaNs, of which the reference writes either (tests/golden/README.md).
bool same_bytes(const std::vector<uint8_t>& want, const std::vector<uint8_t>& got) {
  if (want.size() < got.size()) return false;  // the reference may pad rows
  for (size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = (want[i] & 0x7F) == 0x7F && (got[i] & 0x7F) == 0x7F;
    if (want[i] != got[i] && !both_nan) return false;
  }
  return true;
}
bool same_floats(const std::vector<float>& want, const std::vector<float>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (want[i] != got[i] && !(std::isnan(want[i]) && std::isnan(got[i]))) return false;
  }
  return want.size() == got.size();
}

TEST(QuantizeVerb, GoldenVectorsOfTransformerEngine) {
  const TempFolder folder;
  const io::SafetensorsFile golden(kGolden);
  TensorFile inputs;
  for (const auto& [name, tensor] : golden.tensors()) {
    if (!name.starts_with("inputs/") && !name.starts_with("nonfinite/inputs/")) continue;
    // FP32 inputs with NaN are stored as bit patterns.
    const bool bits = tensor.type == io::StoredType::u32;
    inputs.add(name, bits ? "F32" : std::string(io::stored_type(tensor.type).name), tensor.shape,
               {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  }
  inputs.write(folder / "in");
  int compared = 0;
  for (const Family& family : families()) {
    Words options = family.options;
    options.insert(options.end(), {"--columnwise", "--dequantize"});
    quantize(folder, options);
    SCOPED_TRACE(family.name);
    const io::SafetensorsFile out(folder / "out");
    for (const auto& [key, want] : golden.tensors()) {
      const bool nonfinite = key.starts_with("nonfinite/");
      const std::string start = std::string(nonfinite ? "nonfinite/" : "") + family.name + "/";
      if (!key.starts_with(start)) continue;
      const std::string tail = key.substr(start.size()), field = tail.substr(tail.rfind('/') + 1);
      const std::map<std::string, std::string> parts = {
          {"codes", "codes"}, {"scale", "block_scales"}, {"amax", "amax"}, {"deq", "dequantized"}};
      const bool columns = field.ends_with("_t");
      const auto part = parts.find(columns ? field.substr(0, field.size() - 2) : field);
      if (part == parts.end()) continue;
      const io::TensorInfo& got =
          out.at((nonfinite ? "nonfinite/inputs/" : "inputs/") + tail.substr(0, tail.rfind('/')) +
                 (columns ? ".columnwise." : ".") + part->second);
      const bool equal = got.type == io::StoredType::u8
                             ? same_bytes(values_of<uint8_t>(want), values_of<uint8_t>(got))
                             : same_floats(values_of<float>(want), values_of<float>(got));
      EXPECT_TRUE(equal) << key;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

// --- refused ---------------------------------------------------------------------------------------

void expect_refused(const TempFolder& folder, const Words& more, const Words& parts) {
  Words all = {"quantize", (folder / "in").string(), "-o", (folder / "out").string()};
  all.insert(all.end(), more.begin(), more.end());
  const CommandResult result = run_minite(all);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(QuantizeVerb, BadOptionsNameTheRemedy) {
  const TempFolder folder;
  TensorFile().f32("w", {2, 16}, small_values(32)).write(folder / "in");
  expect_refused(folder, {}, {"--format"});
  expect_refused(folder, {"--format", "nvpf4"}, {"nvpf4", "did you mean 'nvfp4'?"});
  expect_refused(folder, {"--format", "bf16"}, {"bf16 has no codes", "minite formats"});
  expect_refused(folder, {"--format", "nvfp4", "--outer", "rows"}, {"--outer rows", "did you mean 'row'?"});
  expect_refused(folder, {"--format", "mxfp8", "--outer", "row"}, {"mxfp8 has no outer scale"});
  expect_refused(folder, {"--format", "nvfp4", "--block", "3d"}, {"--block 3d", "1d, 2d"});
  expect_refused(folder, {"--format", "nvfp4", "--block", "2d", "--outer", "row"},
                 {"outer=row contradicts 2d"});
  expect_refused(folder, {"--format", "nvfp4", "--rounding", "up"}, {"--rounding up", "rne, sr"});
  expect_refused(folder, {"--format", "mxfp8", "--rounding", "sr"}, {"mxfp8 does not know", "sr"});
  expect_refused(folder, {"--format", "nvfp4", "--scale-search", "4over6"},
                 {"--scale-search 4over6", "4over6-mae"});
  expect_refused(folder, {"--format", "nvfp4", "--scale-search", "4over6-mae", "--rounding", "sr"},
                 {"contradicts sr"});
  expect_refused(folder, {"--format", "nvfp4", "--scale-max", "300"}, {"--scale-max 300", "448 or 256"});
  expect_refused(folder, {"--format", "nvfp4", "--convention", "nvidia"},
                 {"unknown convention 'nvidia'", "minite formats --conventions"});
  expect_refused(folder, {"--format", "mxfp8", "--convention", "floor", "--mx-scale", "ceil"},
                 {"--convention floor", "contradicts --mx-scale ceil"});
  expect_refused(folder, {"--format", "nvfp4", "--mx-scale", "rceil"}, {"--mx-scale rceil", "not of nvfp4"});
  expect_refused(folder, {"--format", "mxfp8", "--mx-scale", "up"}, {"--mx-scale up", "rceil"});
  expect_refused(folder, {"--format", "nvfp4", "--rht"}, {"--rht", "--columnwise"});
  expect_refused(folder, {"--format", "nvfp4", "--rht", "--columnwise", "--block", "2d"},
                 {"rht contradicts 2d"});
  expect_refused(folder, {"--format", "nvfp4", "--backend", "smid"}, {"did you mean 'simd'?"});
}

TEST(QuantizeVerb, BadFilesNameThePlace) {
  const TempFolder folder;
  expect_refused(folder, {"--format", "nvfp4"}, {"in", "No such file"});
  const std::string good = TensorFile().f32("w", {2, 16}, small_values(32)).bytes();
  test_support::spill(folder / "in", good.substr(0, good.size() - 3));
  expect_refused(folder, {"--format", "nvfp4"}, {"in", "cut short"});
  TensorFile().f32("w", {2, 16}, small_values(32)).add("w.codes", "U8", {1}, "x").write(folder / "in");
  expect_refused(folder, {"--format", "nvfp4"}, {"\"w.codes\"", "part of \"w\"", "rename one"});
  TensorFile().f32("moe", {2, 5, 17}, small_values(170)).write(folder / "in");
  expect_refused(folder, {"--format", "nvfp4", "--columnwise", "--rht"},
                 {"\"moe\" [2, 5, 17]", "--outer expert"});
  expect_refused(folder, {"--format", "nvfp4", "--block", "2d"},
                 {"\"moe\"", "straddle experts", "--outer expert"});
}

TEST(QuantizeVerb, NeverOverwritesItsInput) {
  const TempFolder folder;
  TensorFile().f32("w", {2, 16}, small_values(32)).write(folder / "in");
  const std::string before = slurp(folder / "in");
  std::filesystem::create_symlink(folder / "in", folder / "link");
  for (const std::string out : {"in", "link"}) {
    const CommandResult result = run_minite(
        {"quantize", (folder / "in").string(), "-o", (folder / out).string(), "--format", "nvfp4"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(holds(result.err, "is the input itself")) << result.err;
  }
  EXPECT_EQ(slurp(folder / "in"), before);
  const CommandResult result = run_minite(
      {"quantize", (folder / "in").string(), "-o", (folder / "none/out").string(), "--format", "nvfp4"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(holds(result.err, "create the folder first")) << result.err;
}

}  // namespace
}  // namespace minite
