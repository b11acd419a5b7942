// tasks make -> sft --data -> rl --init -> eval -> generate -> report.
#include <cmath>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::json_lines;
using test_support::slurp;
using test_support::spill;
using test_support::TinyRuns;

class Chain : public testing::Test {
 protected:
  Chain() {
    data = runs.text("problems.jsonl");
    (void)runs.finish(
        {"tasks", "make", "addition", "-n", "100", "--seed", "1", "-o", data, "--set", "digits=1,steps=0"});
    // Two problems, learned by heart.
    const std::string all = slurp(data);
    size_t end = 0;
    for (int line = 0; line < 2; ++line) end = all.find('\n', end) + 1;
    two = runs.text("two.jsonl");
    spill(two, all.substr(0, end));
    std::string yaml = test_support::tiny_yaml();
    yaml.erase(yaml.find("data:"), yaml.find("sft:") - yaml.find("data:"));
    spill(runs / "tiny.yaml", yaml);
    // A model from scratch has a token for each character of its data, so it starts with all of it.
    sft("base", data, "1", {"--seed", "1"});
    sft("sft", two, "120", {"--init", runs.checkpoint("base", 1).string()});
    model = runs.checkpoint("sft", 120).string();
  }
  void sft(const std::string& run, const std::string& file, const std::string& steps,
           const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"sft",
                                          "--config",
                                          runs.text("tiny.yaml"),
                                          "--data",
                                          file,
                                          "--recipe",
                                          "bf16",
                                          "-o",
                                          runs.text(run),
                                          "--steps",
                                          steps,
                                          "--set",
                                          "sft.batch_size=8",
                                          "--set",
                                          "checkpoint_every=60"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    (void)runs.finish(arguments);
  }
  json report(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const CommandResult result = runs.finish(arguments);
    EXPECT_EQ(result.err, "");
    return json::parse(result.out);
  }
  json eval(const std::string& file, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"eval", model, "--data", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return report(arguments);
  }

  TinyRuns runs;
  std::string data, two, model;
};

TEST_F(Chain, EvalScoresWhatWasLearned) {
  const json greedy = eval(two, {"--temperature", "0"});
  EXPECT_EQ(greedy["problems"], 2);
  EXPECT_EQ(greedy["pass@1"], 1.0) << greedy;
  EXPECT_EQ(greedy["pass@k"], greedy["pass@1"]);

  // pass@1 is the mean over all samples, whatever k; pass@k grows with k and is 1 where one sample is right.
  double last = 0;
  json at_one;
  for (const char* k : {"1", "2", "4", "8"}) {
    const json row = eval(data, {"--k", k, "--samples", "8", "--seed", "3", "--temperature", "3"});
    EXPECT_EQ(row["samples"], 8);
    if (at_one.is_null()) at_one = row;
    EXPECT_EQ(row["pass@1"], at_one["pass@1"]);
    EXPECT_GE(row["pass@k"].get<double>(), last);
    last = row["pass@k"].get<double>();
  }
  EXPECT_EQ(at_one["pass@1"], at_one["pass@k"]);
  EXPECT_GT(last, at_one["pass@1"].get<double>());
  // All 800 samples are whole: the mean is a multiple of 1/800.
  const double right = at_one["pass@1"].get<double>() * 800;
  EXPECT_NEAR(right, std::round(right), 1e-6);

  for (const char* threads : {"1", "2"}) {
    EXPECT_EQ(eval(data, {"--k", "4", "--threads", threads}), eval(data, {"--k", "4"}));
  }
  const auto seeded = [&](const char* seed) {
    return eval(data, {"--samples", "8", "--seed", seed, "--temperature", "3"})["pass@1"];
  };
  EXPECT_NE(seeded("1"), seeded("2"));
  EXPECT_EQ(eval(data, {"--recipe", "nvfp4_per_token"})["recipe"], "nvfp4_per_token");
}

TEST_F(Chain, GenerateReportsLogProbs) {
  const json problem = json_lines(two)[0];
  const json greedy =
      report({"generate", model, "--prompt", problem["prompt"], "--temperature", "0", "-n", "2"});
  ASSERT_EQ(greedy["samples"].size(), 2u);
  EXPECT_EQ(greedy["samples"][0], greedy["samples"][1]);
  EXPECT_EQ(greedy["samples"][0]["text"], problem["answer"]);
  EXPECT_TRUE(greedy["samples"][0]["finished"]);

  const json drawn = report({"generate", model, "--prompt", problem["prompt"], "-n", "20", "--seed", "4"});
  for (const json& sample : drawn["samples"]) {
    ASSERT_EQ(sample["logp"].size(), sample["tokens"].size());
    for (const json& logp : sample["logp"]) EXPECT_LE(logp.get<double>(), 0.0);
    EXPECT_EQ(sample["tokens"].back() == 2, sample["finished"].get<bool>());  // 2: <eos>
    // The same tokens have the same log-probs, bit for bit.
    if (sample["tokens"] == greedy["samples"][0]["tokens"]) {
      EXPECT_EQ(sample["logp"], greedy["samples"][0]["logp"]);
    }
  }
  const json again = report({"generate", model, "--prompt", problem["prompt"], "-n", "3", "--seed", "4"});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(again["samples"][i], drawn["samples"][i]);
  const json cut = report({"generate", model, "--prompt", "1+", "--max-new-tokens", "1"});
  EXPECT_EQ(cut["samples"][0]["tokens"].size(), 1u);
}

TEST_F(Chain, RlGoesOnFromACheckpoint) {
  (void)runs.finish({"rl", "--config", runs.text("tiny.yaml"), "--data", two, "--init", model, "--recipe",
                     "bf16", "-o", runs.text("rl"), "--steps", "4", "--set", "sft.steps=0"});
  EXPECT_EQ(runs.lines("rl"), 7);
  const auto rows = json_lines(runs / "rl/metrics.jsonl");
  EXPECT_GT(rows[0]["reward"].get<double>(), 0.5);
  EXPECT_EQ(rows[0]["gap_max"], 0.0);
  // The weights that a run starts from are the checkpoint's own; the contrast starts there too.
  EXPECT_EQ(slurp(runs.checkpoint("rl", 0) / "model.safetensors"), slurp(model + "/model.safetensors"));
  EXPECT_EQ(json::parse(slurp(runs / "rl/summary.json"))["checkpoint"], "checkpoints/step_000004");

  // What the run began from may go away.
  std::filesystem::remove_all(runs / "sft/checkpoints");
  std::filesystem::remove_all(runs.checkpoint("rl", 7));
  const std::string lines = slurp(runs / "rl/metrics.jsonl");
  (void)runs.finish(runs.resume("rl"));
  EXPECT_EQ(slurp(runs / "rl/metrics.jsonl"), lines);

  const std::string page = runs.text("both.html");
  const json written = report({"report", runs.text("sft"), runs.text("rl"), "-o", page});
  EXPECT_EQ(written["file"], page);
  EXPECT_EQ(written["bytes"], slurp(page).size());
  EXPECT_TRUE(written["notes"].empty()) << written;
  const std::string before = slurp(runs / "rl/report.html");
  std::filesystem::remove(runs / "rl/report.html");
  (void)runs.finish({"report", runs.text("rl")});
  EXPECT_EQ(slurp(runs / "rl/report.html"), before);
}

}  // namespace
}  // namespace minite
