#include "diagnostics/gap_page.h"

#include <gtest/gtest.h>

#include <cmath>

#include "diagnostics/published_gap.h"
#include "diagnostics/svg.h"
#include "support/expect_error.h"
#include "support/xml_check.h"

namespace minite::diagnostics {
namespace {
using nlohmann::json;
using test_support::XmlCheck;

json details() {
  const json region = {{"share", 0.25}, {"share_normalized", 0.25}, {"tokens", 3}};
  const json item = {{"response", 0},  {"begin", 0},        {"end", 64},
                     {"tokens", 64},   {"mean", -0.25},     {"mean_abs", 0.5},
                     {"max_abs", 2.0}, {"advantage", -1.0}, {"tail", 1}};
  json segments = json::array();
  for (const int size : {64, 128}) segments.push_back({{"size", size}, {"items", json::array({item, item})}});
  const json share = json::array({{{"top", 0.01}, {"share", 0.4}}});
  return {{"quantiles", json::array({{{"p", 0.01}, {"gap", -1.5}}, {{"p", 0.5}, {"gap", 0.0}}})},
          {"above", json::array({{{"nats", 0.1}, {"share", 0.125}}})},
          {"regions", {{"neg_neg", region}, {"neg_pos", region}, {"pos_neg", region}, {"pos_pos", region}}},
          {"segments", segments},
          {"concentration", {{"tokens", share}, {"responses", share}}},
          {"responses", json::array({{{"mean_abs", 0.5}}, {{"mean_abs", 0.125}}})}};
}

json row(const std::string& learner, const std::string& sampler, const json& mean, const json& max) {
  return {{"learner", learner},
          {"sampler", sampler},
          {"kv_cache", "bf16"},
          {"learner_kv", "bf16"},
          {"router_replay", "off"},
          {"mean_abs_gap", mean},
          {"max_abs_gap", max},
          {"tokens", 12},
          {"non_finite_tokens", mean.is_null() ? 12 : 0},
          {"causes", json::array({{{"field", "weights"}, {"text", "a <b> at the learner"}}})},
          {"report", json::array({{{"source", "Table 1"}, {"mean_abs_gap", 0.169}}})},
          {"details", mean.is_null() ? json() : details()}};
}

json document() {
  return {{"checkpoint", "runs/<x>"},
          {"data", "d.jsonl"},
          {"policy", "batch_invariant"},
          {"backend", "simd"},
          {"drawn_by", {{"recipe", "bf16"}, {"kv_cache", "bf16"}}},
          {"responses", 2},
          {"tokens", 12},
          {"problems", 1},
          {"samples", 2},
          {"seed", 0},
          {"experts", 0},
          {"temperature", 1.0},
          {"reward", 0.5},
          {"redrawn_tokens", 0},
          {"rows", json::array({row("bf16", "bf16", 0.0, 0.0), row("bf16", "nvfp4_per_token", 0.03, 2.5),
                                row("nvfp4_per_token", "sim_e5m1", nullptr, nullptr)})}};
}

TEST(GapPage, HoldsEveryCellEscapedAndEveryFigure) {
  const std::string page = render_gap(document(), "gap.json");
  for (const char* part :
       {"runs/&lt;x&gt;", "bf16 / nvfp4_per_token", "a &lt;b&gt; at the learner", "0.169 (Table 1)",
        "12 of 12 tokens have no finite gap", "gap-grid-0.svg", "gap-quantiles.csv", "gap-segments-64.svg",
        "gap-segments-128.svg", "gap-regions.svg"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  for (const char* part : {"<script", "src=", "@import", "url("})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_EQ(page, render_gap(document(), "gap.json"));
}

TEST(GapPage, FiguresAreWellFormedAndHoldTheNumbers) {
  int count = 0;
  for (const Section& section : gap_sections(read_gap(document(), "gap.json"))) {
    for (const Panel& panel : section.panels) {
      EXPECT_EQ(XmlCheck::fault(panel.svg), "") << panel.title;
      EXPECT_FALSE(panel.csv.empty()) << panel.title;
      ++count;
      if (panel.file_stem == "quantiles") {
        EXPECT_EQ(panel.csv, "cell,p,gap\nbf16 / nvfp4_per_token,0.01,-1.5\nbf16 / nvfp4_per_token,0.5,0\n");
      }
    }
  }
  EXPECT_EQ(count, 8);
}

TEST(GapPage, ReplayedExpertsHaveAMapOfTheirOwn) {
  json both = document();
  json replayed = row("bf16", "nvfp4_per_token", 0.01, 1.5);
  replayed["router_replay"] = "R3";
  both["rows"].push_back(replayed);
  const std::string page = render_gap(both, "gap.json");
  for (const char* part : {"bf16 / nvfp4_per_token, R3", "gap-grid-1.svg", "sampler bf16; router replay R3"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(GapPage, SaysWhenThereIsNothingToDraw) {
  json zero = document();
  zero["rows"] = json::array({row("bf16", "bf16", 0.0, 0.0)});
  const std::string page = render_gap(zero, "gap.json");
  EXPECT_NE(page.find("No cell has a finite gap above 0"), std::string::npos);
  json equal = document();
  for (auto& region : equal["rows"][1]["details"]["regions"]) region["share"] = 0.0;
  EXPECT_NE(render_gap(equal, "gap.json").find("Every advantage is 0"), std::string::npos);
}

TEST(GapPage, RefusesOtherDocuments) {
  for (const char* key : {"rows", "policy", "tokens"}) {
    json cut = document();
    cut.erase(key);
    test_support::expect_error(ErrorCode::corrupt_data, {"x.json", "minite gap --json", key},
                               [&] { (void)render_gap(cut, "x.json"); });
  }
  json cut = document();
  cut["rows"][1]["details"].erase("regions");
  test_support::expect_error(ErrorCode::corrupt_data, {"x.json", "regions"},
                             [&] { (void)render_gap(cut, "x.json"); });
  test_support::expect_error(ErrorCode::corrupt_data, {"x.json"},
                             [&] { (void)render_gap(json::array(), "x.json"); });
}

TEST(HeatFigure, TintsByTheLogarithmAndLeavesZeroBlank) {
  HeatFigure figure;
  figure.id = "h";
  figure.title = "T";
  figure.x_label = "sampler";
  figure.y_label = "learner";
  figure.columns = {"a", "nvfp4_per_token_dequant_bwd"};
  figure.rows = {"r<", "s"};
  figure.values = {0.0, 0.001, 0.1, std::nan("")};
  const std::string svg = draw(figure);
  EXPECT_EQ(XmlCheck::fault(svg), "");
  for (const char* part : {"fill-opacity=\"0.000\"", "fill-opacity=\"0.060\"", "fill-opacity=\"0.520\"",
                           ">nan<", ">nvfp4_per_<", ">token_dequant_<"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(to_csv(figure),
            "learner,sampler,value\nr<,a,0\nr<,nvfp4_per_token_dequant_bwd,0.001\ns,a,0.1\n"
            "s,nvfp4_per_token_dequant_bwd,nan\n");
}

TEST(PublishedGaps, StandBesideTheSameCellOnly) {
  const GapOperands bf16 = {"bf16", "bf16"}, w4a4 = {"nvfp4", "nvfp4"}, w4a16 = {"nvfp4", "bf16"};
  const auto only = [](const GapSetting& setting) {
    const auto all = published_gaps(setting);
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? PublishedGap{} : all.front();
  };
  EXPECT_EQ(only({bf16, w4a4, "bf16", "bf16", false}).value, 0.1690);
  EXPECT_EQ(only({bf16, w4a4, "bf16", "bf16", true}).value, 0.0747);
  EXPECT_EQ(only({w4a4, bf16, "bf16", "bf16", false}).value, 0.1376);
  EXPECT_EQ(only({w4a16, {"nvfp4", "mxfp8"}, "bf16", "bf16", false}).source, "Table 2");
  EXPECT_TRUE(std::isnan(only({w4a16, {"nvfp4", "sim_e5m1"}, "bf16", "bf16", false}).value));
  EXPECT_EQ(only({w4a4, w4a4, "bf16", "fp8", true}).value, 0.0721);
  EXPECT_EQ(published_gaps({w4a4, w4a4, "bf16", "bf16", false}).size(), 2u) << "Table 1 and section 2.3";
  EXPECT_TRUE(published_gaps({w4a4, w4a4, "fp8", "fp8", false}).empty());
  EXPECT_TRUE(published_gaps({bf16, w4a16, "bf16", "bf16", false}).empty());
}

}  // namespace
}  // namespace minite::diagnostics
