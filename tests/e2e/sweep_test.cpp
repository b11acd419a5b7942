// minite sweep: numbers against brute force, the report's figures beside them, order, NaN, figures.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "minite/format.h"
#include "support/run_command.h"
#include "support/tensor_file.h"
#include "support/xml_check.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::slurp;
using test_support::small_values;
using test_support::TempFolder;
using test_support::TensorFile;
using Words = std::vector<std::string>;

std::string sweep(const Words& more) {
  Words all = {"sweep"};
  all.insert(all.end(), more.begin(), more.end());
  const CommandResult result = run_minite(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return result.out;
}

const Words kSmall = {"--synthetic", "normal", "--rows", "16", "--cols", "128"};

json sweep_json(Words more) {
  more.emplace_back("--json");
  return json::parse(sweep(more));
}

TEST(SweepVerb, HoldsEveryFormatAndTheReportsFigures) {
  const json document = sweep_json(kSmall);
  size_t expected = 1;  // bf16
  for (const Format& row : formats()) expected += row.block == 0 ? 0 : row.outer_scale ? 3 : 1;
  ASSERT_EQ(document["rows"].size(), expected);
  for (const json& row : document["rows"]) {
    for (const char* key : {"element", "scale", "snr_db", "worst_snr_db", "mae", "relative_l2"})
      EXPECT_TRUE(row.contains(key)) << key;
  }
  const json& first = document["rows"][0];
  EXPECT_EQ(first["element"], "e2m1");
  EXPECT_EQ(first["scale"], "e4m3");
  EXPECT_EQ(first["report"].size(), 2u);
  EXPECT_EQ(first["report"][0]["snr_db"], 19.62);
  const json& nvfp4 = document["rows"][14];
  EXPECT_EQ(nvfp4["format"], "nvfp4");
  EXPECT_EQ(nvfp4["report"].size(), 0u) << "the report's figures are of simulated formats";
}

/// Means and the worst over the tensors of a file, from what `quantize` says about each. Tensors count alike,
/// whatever their sizes.
TEST(SweepVerb, MeansAndWorstOfAFile) {
  const TempFolder folder;
  auto loud = small_values(1152, 2);
  for (size_t i = 0; i < loud.size(); i += 16) loud[i] *= 8;
  TensorFile()
      .f32("a", {8, 64}, small_values(512))
      .f32("b", {2, 9, 64}, loud)
      .f32("bias", {4}, {1, 2, 3, 4})
      .write(folder / "in");
  const json document = sweep_json({(folder / "in").string()});
  EXPECT_EQ(document["tensors"], 2);
  EXPECT_EQ(document["left_out"], json{"bias"});
  for (const json& row : document["rows"]) {
    const std::string format_name = row["format"], outer = row["outer"];
    if (format(format_name).block == 0) continue;
    const CommandResult result =
        run_minite({"quantize", (folder / "in").string(), "-o", (folder / "out").string(), "--format",
                    format_name, "--outer", outer, "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    double snr = 0, worst = INFINITY, mae = 0, l2 = 0;
    bool nan = false;
    const json quantized = json::parse(result.out);
    for (const json& tensor : quantized["tensors"]) {
      nan = nan || tensor["snr_db"].is_null();
      if (nan) continue;
      snr += tensor["snr_db"].get<double>() / 2;
      worst = std::min(worst, tensor["snr_db"].get<double>());
      mae += tensor["mae"].get<double>() / 2;
      l2 += tensor["relative_l2"].get<double>() / 2;
    }
    if (nan) {
      EXPECT_TRUE(row["snr_db"].is_null()) << format_name;
      continue;
    }
    EXPECT_NEAR(row["snr_db"].get<double>(), snr, 1e-9) << format_name;
    EXPECT_EQ(row["worst_snr_db"].get<double>(), worst) << format_name;
    EXPECT_NEAR(row["mae"].get<double>(), mae, 1e-12) << format_name;
    EXPECT_NEAR(row["relative_l2"].get<double>(), l2, 1e-12) << format_name;
  }
  EXPECT_EQ(document["rows"][0]["report"][0]["relative_l2"], 0.1014);
  EXPECT_EQ(document["order"][0]["table"], "real inputs");
  EXPECT_EQ(document["order"][0]["here"].size(), 14u);
}

TEST(SweepVerb, NanIsShownAsNan) {
  const TempFolder folder;
  std::vector<float> x(64, 1.0f);
  std::fill(x.begin(), x.begin() + 16, 0.0f);  // a block of zeros: 0/0 under an E4M3 scale that underflows
  TensorFile().f32("x", {2, 32}, x).write(folder / "in");
  const json document = sweep_json({(folder / "in").string()});
  const json& row = document["rows"][3];
  EXPECT_EQ(row["element"], "e5m1");
  EXPECT_TRUE(row["snr_db"].is_null());
  EXPECT_EQ(row["snr_db_nonfinite"], "nan");
  EXPECT_EQ(row["worst_snr_db_nonfinite"], "nan");
  const std::string text = sweep({(folder / "in").string()});
  EXPECT_TRUE(holds(text, "E5M1+E4M3 (NaN)")) << text;
}

TEST(SweepVerb, OrderIsComparedWithTheReport) {
  const json document = sweep_json({"--synthetic", "normal"});
  ASSERT_EQ(document["order"].size(), 2u);
  // Gaussian data at the report's scale rank mantissa widths as the report does.
  EXPECT_EQ(document["order"][1]["table"], "mantissa widths, simulated");
  EXPECT_EQ(document["order"][1]["same"], true);
  EXPECT_EQ(document["order"][1]["here"], document["order"][1]["report"]);
  const json exponents = document["order"][0]["here"];
  EXPECT_EQ(exponents.front(), "e3m1+e4m3");
  EXPECT_EQ(exponents.back(), "e5m1+e4m3") << "its scale underflows everywhere, as in the report";
  EXPECT_TRUE(holds(sweep({"--synthetic", "normal"}), "the order is the report's"));
}

/// What docs/commands.md says of the report's other order of exponent widths.
TEST(SweepVerb, CloseFormatsOfASmallBatchRankByChance) {
  const auto snr_of = [](const json& document, const std::string& name) {
    for (const json& row : document["rows"]) {
      if (row["format"] == name) return row["snr_db"].get<double>();
    }
    return 0.0;
  };
  for (const char* sigma : {"1", "1.4", "1.86"}) {
    const json large = sweep_json({"--synthetic", "normal", "--rows", "128", "--sigma", sigma});
    EXPECT_NEAR(snr_of(large, "sim_e2m1"), 20.43, 0.05) << sigma;
    EXPECT_NEAR(snr_of(large, "sim_e4m1_e8m0"), 19.7, 0.06) << sigma;
    EXPECT_NEAR(snr_of(large, "sim_e5m1_e8m0"), snr_of(large, "sim_e4m1_e8m0"), 1e-6) << sigma;
  }
  const auto small_lead = [&](const char* seed) {
    const json small = sweep_json({"--synthetic", "normal", "--rows", "16", "--cols", "16", "--seed", seed});
    return snr_of(small, "sim_e2m1") - snr_of(small, "sim_e4m1_e8m0");
  };
  EXPECT_GT(small_lead("0"), 1.0);
  EXPECT_LT(small_lead("5"), -0.5);
}

TEST(SweepVerb, RepeatsAndFollowsTheSeed) {
  const std::string once = sweep(kSmall);
  EXPECT_EQ(sweep(kSmall), once);
  Words more = kSmall;
  more.insert(more.end(), {"--backend", "ref", "--threads", "3"});
  EXPECT_EQ(sweep(more), once);
  more = kSmall;
  more.insert(more.end(), {"--seed", "1"});
  EXPECT_NE(sweep(more), once);
}

TEST(SweepVerb, SeveralDistributionsMakeOneTable) {
  const std::string table =
      sweep({"--synthetic", "normal,laplace,outlier", "--rows", "16", "--cols", "128", "--markdown"});
  EXPECT_TRUE(table.starts_with(
      "| format | element | scale | normal: relative L2 | SNR dB | laplace: relative L2 |"));
  EXPECT_TRUE(holds(table, "| nvfp4, outer row | e2m1 | e4m3 |"));
  const json document = sweep_json({"--synthetic", "normal,laplace", "--rows", "16", "--cols", "128"});
  EXPECT_EQ(document["more"].size(), 1u);
}

TEST(SweepVerb, FigureIsWellFormed) {
  const TempFolder folder;
  Words all = kSmall;
  all.insert(all.end(), {"--svg", (folder / "a.svg").string()});
  (void)sweep(all);
  const std::string svg = slurp(folder / "a.svg");
  EXPECT_EQ(test_support::XmlCheck::fault(svg), "");
  EXPECT_TRUE(holds(svg, "sim_e2m4")) << svg.substr(0, 200);
  EXPECT_TRUE(holds(svg, "Table 2-3, second batch"));
}

TEST(SweepVerb, BadInputNamesTheRemedy) {
  const TempFolder folder;
  const auto refused = [](const Words& more, const Words& parts) {
    Words all = {"sweep"};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = run_minite(all);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts)
      EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
  };
  refused({}, {"safetensors file", "--synthetic"});
  refused({"f", "--synthetic", "normal"}, {"not both"});
  refused({"--synthetic", "gauss"}, {"gauss", "normal"});
  refused({"--synthetic", "normal", "--sigma", "0"}, {"--sigma 0", "above 0"});
  refused({"--synthetic", "normal", "--sigma", "nan"}, {"--sigma"});
  refused({"--synthetic", "normal", "--rows", "0"}, {"--rows"});
  refused({"--synthetic", "normal", "--rows", "4294967296", "--cols", "2"}, {"at most 2^32"});
  refused({(folder / "none").string()}, {"none"});
  TensorFile().f32("bias", {2}, {1, 2}).write(folder / "in");
  refused({(folder / "in").string()}, {"no 2-D or 3-D tensor"});
}

}  // namespace
}  // namespace minite
