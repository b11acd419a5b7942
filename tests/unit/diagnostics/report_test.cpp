#include "diagnostics/report.h"

#include <gtest/gtest.h>

#include "run_fixture.h"

namespace minite::diagnostics {
namespace {
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::spill;
using minite::test_support::TempFolder;
using minite::test_support::XmlCheck;
using test::links;
using test::write_run;

std::string page_of(const TempFolder& run) { return render_report(read_run(run.path())); }

TEST(Report, SaysInSentencesThatTheGapIsZero) {
  const TempFolder run;
  write_run(run.path(), {});
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
  write_run(run.path(), {0, 0.004});
  const std::string page = page_of(run);
  EXPECT_TRUE(holds(page, "The gap is exactly 0 at every step (60 of 60 RL steps)"));
  EXPECT_TRUE(holds(page, "id=\"r0-gap-t\""));
  for (const char* label : {">rl mean<", ">rl max<", ">contrast mean<", ">contrast max<", ">contrast<"}) {
    EXPECT_TRUE(holds(page, label)) << label;
  }
}

TEST(Report, DrawsAGapAndTriageWhenTheyAct) {
  const TempFolder run;
  write_run(run.path(), {0.01, 0, 0.97});
  const std::string page = page_of(run);
  EXPECT_FALSE(holds(page, "gap is exactly 0"));
  EXPECT_TRUE(holds(page, "id=\"r0-gap-t\""));
  EXPECT_TRUE(holds(page, "id=\"r0-gate-t\""));
  EXPECT_TRUE(holds(page, "repair was inert in RL, because no segment fell below its target"));
}

TEST(Report, AGateThatActsAtGapZeroIsNotExplainedAway) {
  const TempFolder run;
  write_run(run.path(), {0, 0, 0.97});
  EXPECT_TRUE(holds(page_of(run), "id=\"r0-gate-t\""));
}

TEST(Report, HeadlineAndProvenance) {
  const TempFolder run;
  write_run(run.path(), {});
  const std::string page = page_of(run);
  for (const char* text :
       {"<dd>0.105</dd>", "<dd>0.505</dd>", "15,234", "10 sft, 60 rl", "learner; sampler bf16",
        "<td>9.8.7</td>", "<td>simd</td>", "<td>17</td>", "<summary>config.yaml</summary>",
        "<summary>Kernels (plans.json)</summary>", "learner fprop x2: simd/avx2 chain: bf16 x bf16"}) {
    EXPECT_TRUE(holds(page, text)) << text;
  }
}

TEST(Report, HoldsNoScriptAndNoAddress) {
  const TempFolder run;
  write_run(run.path(), {0.01, 0.02, 0.9});
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
  write_run(run.path(), {0.01, 0.02, 0.9});
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
  write_run(run.path(), {});
  const auto tables = links(page_of(run), "text/csv");
  EXPECT_TRUE(holds(tables.back(), "rl (2 s a step),rollout,1.5\n")) << tables.back();
  EXPECT_FALSE(holds(tables.back(), "tokens"));
}

TEST(Report, IsDeterministic) {
  const TempFolder run;
  write_run(run.path(), {0, 0.02});
  EXPECT_EQ(page_of(run), page_of(run));
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

TEST(Report, ExpertsHaveFiguresOfTheirOwn) {
  const TempFolder run;
  const auto write = [&](const char* more) {
    spill(run / "metrics.jsonl", std::string(R"({"step":1,"stage":"rl","reward":0.5)") + more + "}\n");
  };
  write("");
  EXPECT_FALSE(holds(page_of(run), "router_mismatch")) << "a dense run has nothing to say about it";
  write(R"(,"router_mismatch":0.1,"expert_load_max":1.5)");
  EXPECT_TRUE(holds(page_of(run), "id=\"r0-router-t\""));
  EXPECT_TRUE(holds(page_of(run), "id=\"r0-experts-t\""));
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
