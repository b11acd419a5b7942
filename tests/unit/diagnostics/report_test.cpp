#include "diagnostics/report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "diagnostics/report_figures.h"
#include "support/temp_folder.h"
#include "support/xml_check.h"

namespace minite::diagnostics {
namespace {
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::spill;
using minite::test_support::TempFolder;
using minite::test_support::XmlCheck;

constexpr int kSteps = 60;

struct Shape {
  double rl_gap = 0;
  double contrast_gap = 0;  // 0: no contrast stage
  double gate = 1;
};

std::string rl_line(int global, int step, const char* stage, double gap, double gate) {
  return fmt::format(
      R"({{"global_step":{},"step":{},"stage":"{}","entropy_loss":1.5,"gap_max":{},)"
      R"("grad_norm":0.5,"pg_clipfrac":0,)"
      R"("response_length_mean":12,"reward":{},"tis":1,"tis_clipfrac":0,"train_rollout_logprob_abs_diff":{},)"
      R"("triage_gate_weight_mean":{},"triage_repair_active_segment_fraction":0,"triage_repair_loss":0,)"
      R"("triage_token_weight_mean":{}}})"
      "\n",
      global, step, stage, gap * 8, step / 100.0, gap, gate, gate);
}

// A run folder as a finished demo leaves it.
void write_run(const TempFolder& run, const Shape& shape) {
  std::string metrics, timings;
  int global = 0;
  const auto time = [&](int step, const char* stage) {
    timings += fmt::format(R"({{"global_step":{},"step":{},"stage":"{}",)"
                           R"("seconds":{{"backward":0.5,"rollout":1.5,"tokens":900}}}})"
                           "\n",
                           global, step, stage);
  };
  for (int i = 1; i <= 10; ++i, ++global) {
    metrics += fmt::format(R"({{"global_step":{},"step":{},"stage":"sft","accuracy":0.5,"loss":{}}})"
                           "\n",
                           global, i, 3.0 / i);
    time(i, "sft");
  }
  for (int i = 1; i <= kSteps; ++i, ++global) {
    metrics += rl_line(global, i, "rl", shape.rl_gap, shape.gate);
    time(i, "rl");
  }
  for (int i = 1; i <= kSteps && shape.contrast_gap > 0; ++i, ++global) {
    metrics += rl_line(global, i, "contrast", shape.contrast_gap, 0.9);
  }
  spill(run / "metrics.jsonl", metrics);
  spill(run / "timings.jsonl", timings);
  spill(run / "config.yaml",
        "seed: 17\nlearner:\n  recipe: nvfp4_per_token\nsampler:\n  recipe: bf16\n"
        "note: \"<script>alert(1)</script>\"\n");
  spill(run / "summary.json", R"({"reward_first":0.105,"reward_last":0.505,"gap_max":0.0,"steps":60,)"
                              R"("tokens_per_s":15234.0,"version":"9.8.7","backend":"simd"})");
}

std::string page_of(const TempFolder& run) { return render_report({read_run(run.path())}); }

std::string decoded(const std::string& base64_text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : base64_text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(c));
    held += 6;
    if (held >= 8) out += static_cast<char>((bits >> (held -= 8)) & 0xFF);
  }
  return out;
}

std::vector<std::string> links(const std::string& page, const std::string& type) {
  std::vector<std::string> found;
  const std::string start = "href=\"data:" + type + ";base64,";
  for (size_t i = page.find(start); i != std::string::npos; i = page.find(start, i + 1)) {
    const size_t begin = i + start.size();
    found.push_back(decoded(page.substr(begin, page.find('"', begin) - begin)));
  }
  return found;
}

TEST(Report, SaysInSentencesThatTheGapIsZero) {
  const TempFolder run;
  write_run(run, {});
  const std::string page = page_of(run);
  EXPECT_TRUE(holds(page, "The gap is exactly 0 at every step (60 of 60 RL steps)"));
  EXPECT_TRUE(holds(page, "TRIAGE&#39;s gate was inert in RL, because the gap is exactly 0"));
  EXPECT_TRUE(holds(page, "TRIAGE&#39;s repair was inert in RL, because the gap is exactly 0"));
  EXPECT_FALSE(holds(page, "id=\"r0-gap-t\""));  // no empty figure
  EXPECT_FALSE(holds(page, "id=\"r0-gate-t\""));
  EXPECT_TRUE(holds(page, "<dd>exactly 0</dd>"));
}

TEST(Report, DrawsTheContrastOverTheRun) {
  const TempFolder run;
  write_run(run, {0, 0.004});
  const std::string page = page_of(run);
  EXPECT_TRUE(holds(page, "The gap is exactly 0 at every step (60 of 60 RL steps)"));
  EXPECT_TRUE(holds(page, "id=\"r0-gap-t\""));
  for (const char* label : {">rl mean<", ">rl max<", ">contrast mean<", ">contrast max<", ">contrast<"}) {
    EXPECT_TRUE(holds(page, label)) << label;
  }
}

TEST(Report, DrawsAGapAndTriageWhenTheyAct) {
  const TempFolder run;
  write_run(run, {0.01, 0, 0.97});
  const std::string page = page_of(run);
  EXPECT_FALSE(holds(page, "gap is exactly 0"));
  EXPECT_TRUE(holds(page, "id=\"r0-gap-t\""));
  EXPECT_TRUE(holds(page, "id=\"r0-gate-t\""));
  EXPECT_TRUE(holds(page, "repair was inert in RL, because no segment fell below its target"));
}

TEST(Report, AGateThatActsAtGapZeroIsNotExplainedAway) {
  const TempFolder run;
  write_run(run, {0, 0, 0.97});
  EXPECT_TRUE(holds(page_of(run), "id=\"r0-gate-t\""));
}

TEST(Report, HeadlineAndProvenance) {
  const TempFolder run;
  write_run(run, {});
  const std::string page = page_of(run);
  for (const char* text :
       {"<dd>0.105</dd>", "<dd>0.505</dd>", "15,234", "10 sft, 60 rl", "learner; sampler bf16",
        "<td>9.8.7</td>", "<td>simd</td>", "<td>17</td>", "<summary>config.yaml</summary>"}) {
    EXPECT_TRUE(holds(page, text)) << text;
  }
}

TEST(Report, HoldsNoScriptAndNoAddress) {
  const TempFolder run;
  write_run(run, {0.01, 0.02, 0.9});
  std::string page = page_of(run);
  EXPECT_FALSE(holds(page, "<script"));
  EXPECT_TRUE(holds(page, "&lt;script&gt;alert(1)"));
  const std::string space = "http://www.w3.org/2000/svg";  // a name, never fetched
  for (size_t i = page.find(space); i != std::string::npos; i = page.find(space)) page.erase(i, space.size());
  for (const char* address : {"http://", "https://", "url(", "@import", "src="})
    EXPECT_FALSE(holds(page, address));
  EXPECT_TRUE(holds(page, "default-src 'none'"));
}

TEST(Report, EveryFigureOffersItsSvgAndCsv) {
  const TempFolder run;
  write_run(run, {0.01, 0.02, 0.9});
  const std::string page = page_of(run);
  const auto drawings = links(page, "image/svg+xml");
  const auto tables = links(page, "text/csv");
  EXPECT_EQ(drawings.size(), tables.size());
  EXPECT_GE(drawings.size(), 11u);
  for (const auto& svg : drawings) {
    EXPECT_EQ(XmlCheck::fault(svg), "");
    EXPECT_TRUE(holds(svg, "prefers-color-scheme:dark"));
  }
  EXPECT_TRUE(holds(tables[0], "step,rl,contrast\n1,0.01,0.01\n"));
}

TEST(Report, TimesAreSecondsOnly) {
  const TempFolder run;
  write_run(run, {});
  const auto tables = links(page_of(run), "text/csv");
  EXPECT_TRUE(holds(tables.back(), "rl (2 s a step),rollout,1.5\n")) << tables.back();
  EXPECT_FALSE(holds(tables.back(), "tokens"));
}

TEST(Report, IsDeterministic) {
  const TempFolder run;
  write_run(run, {0, 0.02});
  EXPECT_EQ(page_of(run), page_of(run));
}

TEST(Report, SeveralRunsHaveTheirOwnIds) {
  const TempFolder a, b;
  write_run(a, {});
  write_run(b, {0.1});
  const std::string page = render_report({read_run(a.path()), read_run(b.path())});
  EXPECT_TRUE(holds(page, "href=\"#run-1\""));
  EXPECT_TRUE(holds(page, "id=\"r0-reward-t\""));
  EXPECT_TRUE(holds(page, "id=\"r1-reward-t\""));
  EXPECT_EQ(error_of([] { (void)render_report({}); }).code(), ErrorCode::invalid_argument);
}

TEST(Report, MissingMetricsAndFilesBecomeSentences) {
  const TempFolder run;
  spill(run / "metrics.jsonl",
        "{\"step\":1,\"stage\":\"rl\",\"reward\":0.5,\"grad_norm\":null,"
        "\"grad_norm_nonfinite\":\"inf\"}\n{\"step\":2,\"st");
  const std::string page = page_of(run);
  for (const char* text :
       {"Entropy: this run did not record entropy_loss.", "Line 2 of metrics.jsonl was cut short",
        "There is no summary.json", "There is no config.yaml", "this run did not record timings",
        "1 values are not finite"}) {
    EXPECT_TRUE(holds(page, text)) << text;
  }
}

TEST(RunData, ErrorsNameFileAndLine) {
  const TempFolder run;
  const auto message = [&] { return std::string(error_of([&] { (void)read_run(run.path()); }).what()); };
  EXPECT_TRUE(holds(message(), "holds no run (no metrics.jsonl)"));
  spill(run / "metrics.jsonl", "{\"step\":1,\"stage\":\"rl\"}\n{\"step\n{\"step\":2,\"stage\":\"rl\"}\n");
  EXPECT_TRUE(holds(message(), "metrics.jsonl:2:"));
  spill(run / "metrics.jsonl", "\n{\"stage\":\"rl\"}\n");
  EXPECT_TRUE(holds(message(), "metrics.jsonl:2: the line has no whole number step"));
  spill(run / "metrics.jsonl", "{\"step\":1}\n");
  EXPECT_TRUE(holds(message(), "metrics.jsonl:1: the line has no stage"));
  spill(run / "metrics.jsonl", "");
  spill(run / "timings.jsonl", "{\"step\":1,\"stage\":\"rl\"}\n");
  EXPECT_TRUE(holds(message(), "timings.jsonl:1: the line has no object seconds"));
  spill(run / "timings.jsonl", "");
  spill(run / "summary.json", "[]");
  EXPECT_TRUE(holds(message(), "summary.json: must be one JSON object"));
}

TEST(RunData, HostileNumbersDoNotBreakTheDrawing) {
  const TempFolder run;
  spill(run / "metrics.jsonl",
        "{\"step\":18446744073709551615,\"stage\":\"rl\",\"reward\":1e308,\"gap_max\":-1}\n"
        "{\"step\":-5,\"stage\":\"rl\",\"reward\":-1e308,\"gap_max\":1e-320}\n");
  spill(run / "timings.jsonl",
        "{\"step\":1,\"stage\":\"rl\",\"seconds\":{\"a\":1e308,\"b\":-1,\"<c>\":2}}\n");
  for (const auto& svg : links(page_of(run), "image/svg+xml")) EXPECT_EQ(XmlCheck::fault(svg), "");
  spill(run / "metrics.jsonl", "{\"step\":1.5,\"stage\":\"rl\"}\n");
  EXPECT_TRUE(holds(error_of([&] { (void)read_run(run.path()); }).what(), "no whole number step"));
}

TEST(RunData, HostileConfigsAreShownNotTrusted) {
  const TempFolder run;
  spill(run / "metrics.jsonl", "");
  std::string bomb = "a0: &a0 {x: 1}\n";
  for (int i = 1; i < 30; ++i) bomb += fmt::format("a{}: &a{} {{l: *a{}, r: *a{}}}\n", i, i, i - 1, i - 1);
  spill(run / "config.yaml", bomb);
  EXPECT_LE(read_run(run.path()).settings.size(), 4097u);
  spill(run / "config.yaml", "a: [1\nb: {");
  EXPECT_TRUE(holds(page_of(run), "config.yaml is not valid YAML"));
  spill(run / "config.yaml", std::string(100000, '['));
  EXPECT_TRUE(holds(page_of(run), "config.yaml is not valid YAML"));
}

}  // namespace
}  // namespace minite::diagnostics
