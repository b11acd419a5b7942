// Profiles: the trace is what Chrome's format asks for, spans nest, parts add up, and not a bit changes.
#include <set>

#include "support/refused.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::slurp;
using test_support::TinyRuns;
namespace fs = std::filesystem;

/// The fields of the Trace Event Format that viewers need.
void check_schema(const json& trace) {
  ASSERT_TRUE(trace["traceEvents"].is_array());
  for (const json& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["name"].is_string() && event["ph"].is_string()) << event;
    ASSERT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer()) << event;
    ASSERT_TRUE(event["args"].is_object()) << event;
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X") << event;
    ASSERT_GE(event["ts"].get<double>(), 0) << event;
    ASSERT_GE(event["dur"].get<double>(), 0) << event;
    ASSERT_TRUE(std::set<std::string>({"phase", "compute", "preparation"}).contains(event["cat"])) << event;
  }
}

/// Events are in order of their begin: each must end within every one that is open.
void check_nesting(const json& trace) {
  std::vector<double> ends;
  double last = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    ASSERT_GE(begin, last);
    last = begin;
    while (!ends.empty() && ends.back() <= begin) ends.pop_back();
    // A last digit of rounding.
    if (!ends.empty()) {
      ASSERT_LE(end, ends.back() + 0.0015) << event;
    }
    ends.push_back(end);
  }
}

TEST(ProfileRun, TraceTableAndPartsAgree) {
  const TinyRuns runs;
  const CommandResult result =
      run_minite({"profile", "rl", "--config", runs.text("tiny.yaml"), "-o", runs.text("t.json"), "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(fs::exists(runs / "t.json.run"));
  const json trace = json::parse(slurp(runs / "t.json")), table = json::parse(result.out);
  check_schema(trace);
  check_nesting(trace);

  std::map<std::string, int64_t> calls;
  for (const json& event : trace["traceEvents"]) ++calls[event["name"]];
  for (const char* phase :
       {"step", "rollout", "learner_forward", "score", "backward", "optimizer", "quantize_weights"})
    EXPECT_GT(calls[phase], 0) << phase;
  EXPECT_EQ(calls["step"], test_support::kTinySteps);
  std::map<std::string, int64_t> counted;
  double compute = 0, preparation = 0, share = 0;
  for (const json& row : table["kernels"]) {
    counted[row["op"]] += row["calls"].get<int64_t>();
    (row["part"] == "compute" ? compute : preparation) += row["ms"].get<double>();
    EXPECT_NE(row["kernel"], row["op"] == "gemm" ? "" : "?");
  }
  for (const auto& [op, count] : counted) EXPECT_EQ(count, calls[op]) << op;
  for (const char* op : {"gemm", "attention", "attention_backward", "quantize", "adamw", "choose"})
    EXPECT_GT(counted[op], 0) << op;
  const double total = table["total_ms"], gap = table["gap_ms"];
  EXPECT_GE(gap, 0);
  EXPECT_NEAR(compute, table["compute_ms"].get<double>(), 1e-6 * total);
  EXPECT_NEAR(preparation, table["preparation_ms"].get<double>(), 1e-6 * total);
  EXPECT_NEAR(compute + preparation + gap, total, 1e-6 * total);
  double own = 0;
  for (const json& row : table["phases"]) {
    EXPECT_GE(row["own_gap_ms"].get<double>(), 0) << row;
    for (const char* part : {"own_compute_ms", "own_preparation_ms", "own_gap_ms"})
      own += row[part].get<double>();
    if (row["phase"] == "step") share = row["share"];
  }
  EXPECT_NEAR(own, total, 1e-6 * total);
  EXPECT_GT(share, 0);
  EXPECT_LE(share, 1);
}

TEST(ProfileRun, ChangesNoBitAndKeepsTheRunWhenAsked) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("plain"));
  const CommandResult result = runs.finish(runs.start("profiled", {"--profile", runs.text("t.json")}));
  EXPECT_EQ(slurp(runs / "plain/metrics.jsonl"), slurp(runs / "profiled/metrics.jsonl"));
  EXPECT_EQ(slurp(runs / "plain/plans.json"), slurp(runs / "profiled/plans.json"));
  EXPECT_TRUE(holds(result.out, "compute")) << result.out;
  EXPECT_TRUE(fs::exists(runs / "t.json"));
}

TEST(ProfileRun, WhereItCannotWriteItSaysSoFirst) {
  const TinyRuns runs;
  test_support::expect_refused(
      runs, {"profile", "sft", "--config", runs.text("tiny.yaml"), "-o", runs.text("no/t.json")},
      {"there is no folder"});
  fs::create_directories(runs / "t.json.run");
  test_support::expect_refused(
      runs, {"profile", "sft", "--config", runs.text("tiny.yaml"), "-o", runs.text("t.json")},
      {"in the way"});
  EXPECT_TRUE(fs::exists(runs / "t.json.run"));
}

}  // namespace
}  // namespace minite
