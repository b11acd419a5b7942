// The metric table and the lines of real runs agree: every key has a row, and every row of a stage is
// written.
#include <set>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::json_lines;
using test_support::run_minite;
using test_support::TinyRuns;

using Keys = std::map<std::string, std::set<std::string>>;  // by stage

/// The settings that switch on what the table's column "needs" names.
const std::vector<std::string> kEverything = {"rl.kl_loss_coef=0.1",         "rl.clip_ratio_c=3",
                                              "rl.rollout_rs=token_k1",      "rl.rollout_rs_threshold=0.5_2",
                                              "rl.filter_groups=true",       "rl.max_num_gen_batches=2",
                                              "rl.overlong_buffer_len=4",    "model.num_experts=4",
                                              "model.num_experts_per_tok=2", "model.moe_intermediate_size=32",
                                              "rl.router_replay=R3",         "rl.opsm_delta=1e-4"};

std::vector<std::string> settings(const std::vector<std::string>& assignments) {
  std::vector<std::string> all;
  for (const std::string& a : assignments) all.insert(all.end(), {"--set", a});
  return all;
}

Keys table() {
  Keys keys;
  const json document = json::parse(run_minite({"metrics", "--json"}).out);
  for (const json& row : document.at("metrics")) {
    for (const json& stage : row["stages"])
      keys[stage.get<std::string>()].insert(row["name"].get<std::string>());
  }
  return keys;
}

/// The keys that every line of a stage holds; they must be the same on all of them.
Keys written(const TinyRuns& runs, const std::string& run) {
  Keys keys;
  for (const json& line : json_lines(runs / (run + "/metrics.jsonl"))) {
    std::set<std::string> names;
    for (const auto& item : line.items()) names.insert(item.key());
    for (const char* head : {"global_step", "step", "stage"}) EXPECT_EQ(names.erase(head), 1U) << line;
    const auto [it, first] = keys.emplace(line["stage"].get<std::string>(), names);
    if (first) continue;
    EXPECT_EQ(it->second, names) << run << ": a line of " << it->first << " has other keys";
  }
  return keys;
}

TEST(MetricsOfARun, EveryKeyHasARow) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("dense"));
  (void)runs.finish(runs.start("experts", test_support::tiny_expert_settings()));
  const Keys rows = table();
  for (const char* run : {"dense", "experts"}) {
    const Keys keys = written(runs, run);
    EXPECT_EQ(keys.size(), 3U) << run;
    for (const auto& [stage, names] : keys) {
      for (const std::string& name : names)
        EXPECT_TRUE(rows.at(stage).contains(name))
            << run << ": " << stage << " writes " << name << ", which has no row";
    }
  }
}

TEST(MetricsOfARun, EveryRowOfAStageIsWritten) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("all", settings(kEverything)));
  const Keys keys = written(runs, "all"), rows = table();
  EXPECT_EQ(rows.size(), 3U);
  for (const auto& [stage, names] : rows) {
    for (const std::string& name : names)
      EXPECT_TRUE(keys.at(stage).contains(name))
          << stage << " does not write " << name << "; if it needs a setting, add that to kEverything";
  }
  EXPECT_EQ(keys, rows);
}

}  // namespace
}  // namespace minite
