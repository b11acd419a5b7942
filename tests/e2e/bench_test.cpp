// minite bench kernels: what a row says with, without and in spite of a rival. Nothing here judges a time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/run_command.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::TempFolder;

const std::string kFalseRivals = MINITE_FALSE_RIVALS;

CommandResult bench(const std::vector<std::string>& more, const std::vector<std::string>& environment = {}) {
  std::vector<std::string> arguments = {"bench", "kernels", "--rounds", "1", "--threads", "1", "--json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_minite(arguments, environment);
}

/// What `reached` must say of a row with the value that its targets are about.
std::string expected_verdict(const json& row, const char* judged) {
  if (row["must"].is_null()) return "-";
  const double value = row[judged];
  if (value < row["must"].get<double>()) return "below must";
  return !row["aim"].is_null() && value >= row["aim"].get<double>() ? "aim" : "must";
}

/// The row that is to be compared with `rival`.
json row_of(const json& document, const std::string& rival) {
  for (const json& row : document["rows"]) {
    if (row["rival"] == rival) return row;
  }
  ADD_FAILURE() << "no row for " << rival << " in " << document.dump(1);
  return {};
}

std::string notes(const json& document) { return document["notes"].dump(); }

void expect_no_ratio(const json& row) {
  for (const char* field : {"ratio", "ratio_min", "ratio_max", "theirs"})
    EXPECT_TRUE(row[field].is_null()) << row;
}

TEST(Bench, AnAbsoluteFigureIsJudgedByItselfAndHasNoRatio) {
  const CommandResult result = bench({"--filter", "quantize", "--no-rivals", "--check"});
  const json document = json::parse(result.out);
  const json row = row_of(document, "-");
  EXPECT_EQ(row["against"], "-");
  expect_no_ratio(row);
  EXPECT_GT(row["ours"], 0);
  EXPECT_EQ(row["reached"], expected_verdict(row, "ours"));
  EXPECT_EQ(result.exit_code, row["reached"] == "below must" ? 1 : 0) << result.out;
}

TEST(Bench, ARowWithoutItsRivalIsAbsentAndNotJudged) {
  const CommandResult result = bench({"--filter", "gemm/w4a4/m1024", "--no-rivals", "--check"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["rows"].size(), 4u);
  for (const char* rival : {"OpenBLAS f32", "oneDNN f32", "oneDNN bf16", "ggml NVFP4"}) {
    const json row = row_of(document, rival);
    EXPECT_EQ(row["against"], "absent");
    EXPECT_EQ(row["reached"], "absent");
    EXPECT_EQ(row["ceiling_fraction"], nullptr);
    expect_no_ratio(row);
  }
  EXPECT_EQ(document["machine"]["rivals"], json::array());
  EXPECT_TRUE(holds(notes(document), "--no-rivals"));
}

TEST(Bench, ARivalIsMeasuredOrANoteSaysWhyNot) {
  const json document = json::parse(bench({"--filter", "gemm/w4a16/m256"}).out);
  for (const json& row : document["rows"]) {
    const std::string rival = row["rival"], library = rival.substr(0, rival.find(' '));
    if (row["against"] == "absent") {
      EXPECT_TRUE(holds(notes(document), library)) << row;
      continue;
    }
    EXPECT_TRUE(row["against"].get<std::string>().starts_with(library)) << row;
    EXPECT_NEAR(row["ratio"], row["ours"].get<double>() / row["theirs"].get<double>(), 1e-9);
    EXPECT_LE(row["ratio_min"], row["ratio"]);
    EXPECT_GE(row["ratio_max"], row["ratio"]);
    EXPECT_EQ(row["reached"], expected_verdict(row, "ratio"));
  }
}

TEST(Bench, ALibraryThatIsNotWhatItSaysIsNotMeasured) {
  const json document = json::parse(bench({"--filter", "gemm/w4a4/m1024", "--ggml", kFalseRivals + "/zeros"},
                                          {"LD_LIBRARY_PATH=" + kFalseRivals + "/onednn3"})
                                        .out);
  EXPECT_TRUE(holds(notes(document), "its product differs from ours by 1 of our norm")) << notes(document);
  EXPECT_TRUE(holds(notes(document), "oneDNN 3.1.4 is not measured")) << notes(document);
  for (const char* rival : {"oneDNN f32", "oneDNN bf16", "ggml NVFP4"})
    EXPECT_EQ(row_of(document, rival)["against"], "absent");
}

void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  const CommandResult result = bench(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
}

TEST(Bench, BadOptionsAreRefused) {
  expect_refused({"--filter", "gemm/w8"}, {"--filter gemm/w8", "gemm/w4a4/m64"});
  expect_refused({"--filter", "["}, {"--filter [", "regular expression"});
  expect_refused({"--no-rivals", "--ggml", "."}, {"--ggml", "--no-rivals"});
}

TEST(Bench, AFolderWithoutAUsableGgmlIsRefused) {
  const TempFolder empty;
  expect_refused({"--filter", "quantize", "--ggml", empty.path().string()},
                 {"--ggml " + empty.path().string(), "libggml-base.so"});
  expect_refused({"--filter", "quantize", "--ggml", kFalseRivals + "/block32"},
                 {"type 40 is nvfp4 with 32 elements in 36 bytes", "not nvfp4 with 64 in 36"});
}

/// What `reached` must say of a row with an interval: only a whole interval on one side decides.
std::string expected_verdict_of_pairs(const json& row) {
  if (row["must"].is_null()) return "-";
  const double must = row["must"];
  if (row["ratio_interval"][1].get<double>() < must) return "below must";
  return row["ratio_interval"][0].get<double>() < must ? "unsure" : "must";
}

TEST(BenchLearner, PairsEachWayOfLookingWithTheBareStep) {
  const CommandResult result = run_minite(
      {"bench", "learner", "--rounds", "1", "--threads", "1", "--json", "--filter", "demo/(st|pr|de)"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  ASSERT_EQ(document["rows"].size(), 4u);
  const char* names[] = {"probe_off", "declined", "stats_10th", "profile"};
  for (size_t i = 0; i < 4; ++i) {
    const json& row = document["rows"][i];
    EXPECT_EQ(row["name"], std::string("learner/demo/") + names[i]);
    EXPECT_EQ(row["against"], "bare step");
    EXPECT_EQ(row["unit"], "steps/s");
    EXPECT_EQ(row["pairs"], 6);  // the fewest that have an interval: their range
    EXPECT_EQ(row["clock"], "cpu");
    EXPECT_EQ(row["ratio_interval"][0], row["ratio_min"]);
    EXPECT_EQ(row["ratio_interval"][1], row["ratio_max"]);
    EXPECT_LE(row["ratio_interval"][0], row["ratio"]);
    EXPECT_GE(row["ratio_interval"][1], row["ratio"]);
    EXPECT_LE(row["ratio_wall_interval"][0], row["ratio_wall"]);
    EXPECT_EQ(row["reached"], expected_verdict_of_pairs(row)) << row;
  }
  // 3 layers of 4 linear modules, each with 8 points: a step that nobody listens to tests some 100 pointers,
  // which takes longer than nothing and far less than a step.
  const json& off = document["rows"][0];
  EXPECT_GE(std::stoi(off["problem"].get<std::string>()), 96) << off["problem"];
  EXPECT_LT(off["ratio"], 1);
  EXPECT_GT(off["ratio"], 0.999);
  // Nine of ten steps are bare, so that the tenth could cost nine steps before the ratio falls to a half.
  EXPECT_GT(document["rows"][2]["ratio"].get<double>(), 0.1);
  EXPECT_LT(document["rows"][2]["ratio"].get<double>(), 1.0);

  const CommandResult none = run_minite({"bench", "learner", "--filter", "serving"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(holds(none.err, "names no row of bench learner")) << none.err;
}

}  // namespace
}  // namespace minite
