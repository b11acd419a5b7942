// minite report on real runs: one, several, and some that are damaged, unfinished or without RL.
#include "support/refused.h"

namespace minite {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::CommandResult;
using test_support::expect_refused;
using test_support::holds;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;

TEST(ReportVerb, ComparesMatchedWithMixedRecipes) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("matched"));
  (void)runs.finish(runs.start("mixed", {"--learner-recipe", "bf16", "--sampler-recipe", "nvfp4_per_token"}));
  const CommandResult result = runs.finish(
      {"report", runs.text("matched"), runs.text("mixed"), "-o", runs.text("page.html"), "--json"});
  const json said = json::parse(result.out);
  EXPECT_TRUE(said["notes"].empty()) << said;
  const std::string page = slurp(runs / "page.html");
  EXPECT_EQ(said["bytes"], page.size());
  EXPECT_TRUE(
      holds(page, "Only learner_recipe differs; every other setting that changes a number is equal."));
  EXPECT_TRUE(holds(page, "Exactly 0 at every step of A matched."));
  const json summary = json::parse(slurp(runs / "mixed/summary.json"));
  EXPECT_GT(summary["gap_max"], 0.0);
  EXPECT_TRUE(holds(page, "Gap, largest (nats)</th><td class=\"zero\">exactly 0</td><td>"))
      << page.substr(0, 9000);
  // A page of one run needs no address and is the page that the run itself left.
  const std::string before = slurp(runs / "mixed/report.html");
  EXPECT_EQ(runs.finish({"report", runs.text("mixed")}).out, runs.text("mixed/report.html") + "\n");
  EXPECT_EQ(slurp(runs / "mixed/report.html"), before);
}

TEST(ReportVerb, GoesOnWithoutWhatCannotBeRead) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("good"));
  (void)runs.finish({"sft", "--config", runs.text("tiny.yaml"), "-o", runs.text("sft")});
  fs::create_directories(runs / "cut");
  const std::string log = slurp(runs / "good/metrics.jsonl");
  spill(runs / "cut/metrics.jsonl", log.substr(0, log.size() - 100));  // an unfinished last line
  fs::create_directories(runs / "damaged");
  spill(runs / "damaged/metrics.jsonl", "{\"step\":\n" + log);
  fs::create_directories(runs / "again");
  fs::copy(runs / "good", runs / "again/good", fs::copy_options::recursive);
  const CommandResult result = runs.finish(
      {"report", runs.text("good"), runs.text("sft"), runs.text("cut"), runs.text("damaged"),
       runs.text("nowhere"), runs.text("again/good"), runs.text("good") + "/", "-o", runs.text("page.html")});
  EXPECT_TRUE(holds(result.err, "left out: " + runs.text("damaged") + "/metrics.jsonl:1:")) << result.err;
  EXPECT_TRUE(holds(result.err, "left out: " + runs.text("nowhere") + " holds no run")) << result.err;
  const std::string page = slurp(runs / "page.html");
  for (const char* text : {"<h1>4 runs</h1>", "There is no RL step in B sft",
                           "was cut short by an interruption", "again/good", "(not finished)"})
    EXPECT_TRUE(holds(page, text)) << text;
  EXPECT_TRUE(holds(page, runs.text("damaged") + " could not be read and is left out."));
  EXPECT_TRUE(holds(page, runs.text("nowhere") + " could not be read and is left out."));
}

TEST(ReportVerb, Refusals) {
  const TinyRuns runs;
  const std::string page = runs.text("page.html");
  expect_refused(runs, {"report", runs.text("a"), runs.text("b")}, {"-o FILE.html"});
  expect_refused(runs, {"report", runs.text("a"), "-o", page}, {"holds no run"});
  expect_refused(runs, {"report", runs.text("a"), runs.text("b"), "-o", page},
                 {"none of the 2 runs can be read", "holds no run"});
  std::vector<std::string> many = {"report", "-o", page};
  for (int i = 0; i < 13; ++i) many.push_back(runs.text("run" + std::to_string(i)));
  expect_refused(runs, many, {"at most 12 runs, got 13"});
}

}  // namespace
}  // namespace minite
