#include "learn/run_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace minite::learn {
namespace {
namespace fs = std::filesystem;
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::slurp;
using minite::test_support::spill;
using minite::test_support::TempFolder;

TEST(MetricsLine, IsGolden) {
  EXPECT_EQ(metrics_line({7, 2, Stage::rl}, {{"reward", 0.1}, {"gap_max", 0}, {"n", 128}, {"tiny", 1e-7}}),
            R"({"global_step":7,"step":2,"stage":"rl","gap_max":0,"n":128,"reward":0.1,"tiny":1e-07})");
  EXPECT_EQ(metrics_line({0, 0, Stage::contrast}, {}), R"({"global_step":0,"step":0,"stage":"contrast"})");
  EXPECT_EQ(timings_line({1, 1, Stage::sft}, {{"rollout", 0.25}}),
            R"({"global_step":1,"step":1,"stage":"sft","seconds":{"rollout":0.25}})");
}

TEST(MetricsLine, NonFiniteIsNullWithAName) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const auto line = metrics_line({1, 1, Stage::sft}, {{"a", std::nan("")}, {"b", kInf}, {"c", -kInf}});
  const auto row = nlohmann::json::parse(line);
  EXPECT_TRUE(row["a"].is_null());
  EXPECT_EQ(row["a_nonfinite"], "nan");
  EXPECT_EQ(row["b_nonfinite"], "inf");
  EXPECT_EQ(row["c_nonfinite"], "-inf");
}

TEST(MetricsLine, NumbersReadBackExactly) {
  for (double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.125}) {
    const auto row = nlohmann::json::parse(metrics_line({1, 1, Stage::sft}, {{"x", value}}));
    EXPECT_EQ(row["x"].get<double>(), value);
  }
}

TEST(MetricsLine, ReservedNamesAreRefused) {
  EXPECT_EQ(error_of([] {
              (void)metrics_line({1, 1, Stage::sft}, {{"step", 1}});
            }).code(),
            ErrorCode::invalid_argument);
}

TEST(RunFolder, RefusesToOverwriteARun) {
  const TempFolder folder;
  // Killed while the folder was made: nothing is lost by making it again.
  { (void)RunFolder::create(folder / "run"); }
  RunFolder::create(folder / "run").write_config("seed: 0\n");
  const Error error = error_of([&] { (void)RunFolder::create(folder / "run"); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(holds(error.what(), "already holds a run; continue it with --resume")) << error.what();
}

TEST(RunFolder, UnwritablePlaceIsAnError) {
  const TempFolder folder;
  spill(folder / "file", "");
  EXPECT_TRUE(
      holds(error_of([&] { (void)RunFolder::create(folder / "file/run"); }).what(), "Not a directory"));
  EXPECT_EQ(error_of([&] { (void)RunFolder::resume(folder / "none", 0); }).code(), ErrorCode::not_found);
}

TEST(RunFolder, StepsMustGrow) {
  const TempFolder folder;
  RunFolder run = RunFolder::create(folder / "run");
  run.write_metrics({0, 0, Stage::sft}, {{"loss", 1}});
  run.write_metrics({1, 0, Stage::rl}, {{"reward", 1}});
  EXPECT_EQ(error_of([&] { run.write_metrics({1, 1, Stage::rl}, {}); }).code(), ErrorCode::invalid_argument);
  run.write_timings({1, 0, Stage::rl}, {{"rollout", 1}});
}

void write_steps(RunFolder& run, int64_t begin, int64_t end) {
  for (int64_t step = begin; step < end; ++step) {
    run.write_metrics({step, step, Stage::rl}, {{"reward", static_cast<double>(step) / 3}});
    run.write_timings({step, step, Stage::rl}, {{"rollout", 1}});
    if (step > 2) run.write_rollout({step, step, Stage::rl}, fmt::format("\"responses\":{}", step));
    if (step % 2 == 1)
      run.save_checkpoint(step, [&](const fs::path& to) { spill(to / "w", std::to_string(step)); });
  }
}

TEST(RunFolder, ResumedMetricsAreByteIdentical) {
  const TempFolder folder;
  {
    RunFolder run = RunFolder::create(folder / "whole");
    write_steps(run, 0, 10);
  }
  {
    RunFolder run = RunFolder::create(folder / "cut");
    write_steps(run, 0, 7);  // the newest checkpoint is step 5; step 6 is lost
  }
  spill(folder / "cut/metrics.jsonl", slurp(folder / "cut/metrics.jsonl") + "{\"global_step\":7,\"st");
  fs::create_directories(folder / "cut/checkpoints/step_000007.tmp");
  const auto found = latest_valid_checkpoint(folder / "cut");
  ASSERT_TRUE(found.newest_valid);
  EXPECT_EQ(found.newest_valid->global_step, 5);
  EXPECT_TRUE(found.skipped.empty());
  RunFolder run = RunFolder::resume(folder / "cut", 5);
  EXPECT_FALSE(fs::exists(folder / "cut/checkpoints/step_000007.tmp"));
  write_steps(run, 6, 10);
  EXPECT_EQ(slurp(folder / "cut/metrics.jsonl"), slurp(folder / "whole/metrics.jsonl"));
  EXPECT_EQ(slurp(folder / "cut/timings.jsonl"), slurp(folder / "whole/timings.jsonl"));
  EXPECT_EQ(slurp(folder / "cut/rollouts.jsonl"), slurp(folder / "whole/rollouts.jsonl"));
  EXPECT_TRUE(slurp(folder / "cut/rollouts.jsonl")
                  .starts_with("{\"global_step\":3,\"step\":3,\"stage\":\"rl\",\"responses\":3}\n"));
}

TEST(RunFolder, DamagedLineStopsAResume) {
  const TempFolder folder;
  { (void)RunFolder::create(folder / "run"); }
  spill(folder / "run/metrics.jsonl", "{\"global_step\":0}\n{\"global_st\n{\"global_step\":2}\n");
  EXPECT_TRUE(holds(error_of([&] { (void)RunFolder::resume(folder / "run", 2); }).what(), "metrics.jsonl:2"));
  spill(folder / "run/metrics.jsonl", "{\"step\":0}\n");
  EXPECT_TRUE(holds(error_of([&] { (void)RunFolder::resume(folder / "run", 2); }).what(),
                    "metrics.jsonl:1: the line"));
}

TEST(Checkpoints, CutShortOnesAreSkippedWithAReason) {
  const TempFolder folder;
  RunFolder run = RunFolder::create(folder / "run");
  write_steps(run, 0, 6);
  spill(folder / "run/checkpoints/step_000005/w", "");
  const auto found = latest_valid_checkpoint(run.path());
  ASSERT_TRUE(found.newest_valid);
  EXPECT_EQ(found.newest_valid->global_step, 3);
  ASSERT_EQ(found.skipped.size(), 1u);
  EXPECT_TRUE(holds(found.skipped[0], "step_000005: w is cut short: 0 bytes, manifest.json promises 1"))
      << found.skipped[0];
  EXPECT_FALSE(latest_valid_checkpoint(folder / "none").newest_valid);
}

TEST(Checkpoints, FailedFillLeavesNothing) {
  const TempFolder folder;
  RunFolder run = RunFolder::create(folder / "run");
  EXPECT_THROW(run.save_checkpoint(1, [](const fs::path&) { throw Error(ErrorCode::io, "disk full"); }),
               Error);
  EXPECT_TRUE(fs::is_empty(folder / "run/checkpoints"));
}

TEST(Checkpoints, AreListedByNumberAndPruned) {
  const TempFolder folder;
  RunFolder run = RunFolder::create(folder / "run");
  write_steps(run, 0, 8);
  fs::create_directories(folder / "run/checkpoints/step_1000000");
  fs::create_directories(folder / "run/checkpoints/step_x");
  const auto all = list_checkpoints(run.path());
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all.back().global_step, 1000000);
  EXPECT_EQ(all.front().path.filename(), "step_000001");
  run.prune_checkpoints(2);
  EXPECT_EQ(list_checkpoints(run.path()).front().global_step, 7);
}

TEST(RunFolder, SummaryAndConfig) {
  const TempFolder folder;
  RunFolder run = RunFolder::create(folder / "run");
  run.write_config("seed: 0\n");
  run.write_summary({{"steps", 3}});
  EXPECT_EQ(slurp(folder / "run/config.yaml"), "seed: 0\n");
  EXPECT_EQ(slurp(folder / "run/summary.json"), "{\n  \"steps\": 3\n}\n");
}

}  // namespace
}  // namespace minite::learn
