// kill -9 anywhere, then --resume: the bytes of an uninterrupted run. Checkpoints that were cut short are
// passed over.
#include "support/refused.h"

namespace minite {
namespace {

using test_support::Child;
using test_support::CommandResult;
using test_support::expect_refused;
using test_support::holds;
using test_support::kTinyRl;
using test_support::kTinySft;
using test_support::kTinySteps;
using test_support::same_files;
using test_support::slurp;
using test_support::spill;
using test_support::timeless_events;
using test_support::TinyRuns;
namespace fs = std::filesystem;

/// The same lines, events, checkpoints and configuration.
void expect_same_run(const TinyRuns& runs, const std::string& a, const std::string& b) {
  EXPECT_EQ(slurp(runs / (a + "/metrics.jsonl")), slurp(runs / (b + "/metrics.jsonl")));
  EXPECT_EQ(slurp(runs / (a + "/rollouts.jsonl")), slurp(runs / (b + "/rollouts.jsonl")));
  EXPECT_EQ(slurp(runs / (a + "/config.yaml")), slurp(runs / (b + "/config.yaml")));
  EXPECT_EQ(timeless_events(runs / a), timeless_events(runs / b));
  EXPECT_TRUE(same_files(runs / (a + "/checkpoints"), runs / (b + "/checkpoints")));
  EXPECT_TRUE(fs::exists(runs / (b + "/report.html")));
}

/// Kills `arguments` once `run` has `lines` whole lines; false when the run was faster.
bool kill_at_line(const TinyRuns& runs, const std::vector<std::string>& arguments, const std::string& run,
                  int64_t lines) {
  Child child(arguments);
  return child.kill_when([&] { return runs.lines(run) >= lines; });
}

TEST(Resume, AfterAKillInAnyStage) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  int killed = 0;
  for (const int64_t lines : {1, 4, 7, 8, 9, 12, 13, 14, 15}) {
    const std::string run = "killed_" + std::to_string(lines);
    if (!kill_at_line(runs, runs.start(run), run, lines)) continue;
    ++killed;
    const int64_t before = runs.lines(run);
    const CommandResult result = runs.finish(runs.resume(run));
    EXPECT_TRUE(holds(result.err, "resuming after step")) << result.err;
    EXPECT_EQ(runs.lines(run), kTinySteps) << "killed after " << before;
    expect_same_run(runs, "whole", run);
  }
  EXPECT_GE(killed, 4);
}

TEST(Resume, ExpertsAfterAKill) {
  const TinyRuns runs;
  const auto experts = test_support::tiny_expert_settings();
  (void)runs.finish(runs.start("whole", experts));
  int killed = 0;
  for (const int64_t lines : {4, 9}) {
    const std::string run = "killed_" + std::to_string(lines);
    if (!kill_at_line(runs, runs.start(run, experts), run, lines)) continue;
    ++killed;
    (void)runs.finish(runs.resume(run));
    expect_same_run(runs, "whole", run);
  }
  EXPECT_GE(killed, 1);
}

TEST(Resume, AfterAKillAtAnyTime) {
  const TinyRuns runs;
  const CommandResult whole = runs.finish(runs.start("whole"));
  int killed = 0;
  for (int part = 1; part < 8; ++part) {
    const std::string run = "killed_" + std::to_string(part);
    const auto limit = std::chrono::duration<double>(whole.seconds * part / 8);
    const auto start = std::chrono::steady_clock::now();
    Child child(runs.start(run));
    killed += child.kill_when([&] { return std::chrono::steady_clock::now() - start >= limit; });
    // Without a configuration there is no run yet, and the same command starts it.
    (void)runs.finish(fs::exists(runs / (run + "/config.yaml")) ? runs.resume(run) : runs.start(run));
    expect_same_run(runs, "whole", run);
  }
  EXPECT_GE(killed, 2);
}

TEST(Resume, BeforeTheFirstCheckpoint) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  Child child(runs.start("killed"));
  (void)child.kill_when([&] { return fs::exists(runs / "killed/config.yaml"); });
  fs::remove_all(runs / "killed/checkpoints");  // whatever it had reached
  const CommandResult result = runs.finish(runs.resume("killed"));
  EXPECT_TRUE(holds(result.err, "no usable checkpoint: starting again from the first step")) << result.err;
  expect_same_run(runs, "whole", "killed");

  // An unfinished folder without a configuration is no run.
  fs::create_directories(runs / "empty/checkpoints");
  spill(runs / "empty/metrics.jsonl", "");
  spill(runs / "empty/timings.jsonl", "");
  EXPECT_EQ(test_support::run_minite(runs.resume("empty")).exit_code, 2);
  (void)runs.finish(runs.start("empty"));
  expect_same_run(runs, "whole", "empty");
}

TEST(Resume, TwiceInOneRunAndWithOtherThreads) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole", {"--threads", "1"}));
  EXPECT_TRUE(kill_at_line(runs, runs.start("run", {"--threads", "1"}), "run", 4));
  (void)kill_at_line(runs, runs.resume("run", {"--threads", "2"}), "run", 9);
  (void)kill_at_line(runs, runs.resume("run"), "run", 12);
  (void)runs.finish(runs.resume("run", {"--threads", "2"}));
  expect_same_run(runs, "whole", "run");
}

TEST(Resume, OfAFinishedRunChangesNothing) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  (void)runs.finish(runs.start("again"));
  (void)runs.finish(runs.resume("again"));
  expect_same_run(runs, "whole", "again");
}

TEST(Resume, AnUnfinishedLineAndStaleFoldersAreDropped) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  fs::copy(runs / "whole", runs / "cut", fs::copy_options::recursive);
  fs::remove_all(runs.checkpoint("cut", kTinySteps));
  const std::string log = slurp(runs / "cut/metrics.jsonl");
  spill(runs / "cut/metrics.jsonl", log.substr(0, log.size() - 9));
  fs::create_directories(runs / "cut/checkpoints/step_000018.tmp");
  (void)runs.finish(runs.resume("cut"));
  expect_same_run(runs, "whole", "cut");
}

/// One way to spoil a checkpoint, and what the message says about it.
struct Damage {
  const char* name;
  std::vector<std::string> message;
  void (*apply)(const fs::path& checkpoint);
};

void cut(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"trainer",
       {"trainer.safetensors is cut short"},
       [](const fs::path& c) { cut(c / "trainer.safetensors"); }},
      {"model", {"model.safetensors is cut short"}, [](const fs::path& c) { cut(c / "model.safetensors"); }},
      {"flip",
       {"trainer.safetensors is damaged", "digest"},
       [](const fs::path& c) {
         std::string bytes = slurp(c / "trainer.safetensors");
         bytes[bytes.size() - 100] ^= 1;
         spill(c / "trainer.safetensors", bytes);
       }},
      {"manifest", {"manifest.json is missing"}, [](const fs::path& c) { fs::remove(c / "manifest.json"); }},
      {"empty_manifest", {"manifest.json"}, [](const fs::path& c) { spill(c / "manifest.json", ""); }},
      {"gone", {"tokenizer.json is missing"}, [](const fs::path& c) { fs::remove(c / "tokenizer.json"); }},
  };
  return all;
}

TEST(Resume, PassesOverADamagedCheckpoint) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  for (const Damage& damage : damages()) {
    const std::string run = damage.name;
    fs::copy(runs / "whole", runs / run, fs::copy_options::recursive);
    damage.apply(runs.checkpoint(run, kTinySteps));
    const CommandResult result = runs.finish(runs.resume(run));
    EXPECT_TRUE(holds(result.err, "skipped checkpoint " + runs.checkpoint(run, kTinySteps).string()))
        << result.err;
    EXPECT_TRUE(holds(result.err, "resuming after step " + std::to_string(kTinySteps - 1))) << result.err;
    for (const std::string& part : damage.message) EXPECT_TRUE(holds(result.err, part)) << result.err;
    expect_same_run(runs, "whole", run);
  }
}

TEST(Resume, GoesBackAsFarAsItMust) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  fs::copy(runs / "whole", runs / "run", fs::copy_options::recursive);
  for (const int64_t step : {kTinySft + kTinyRl, kTinySteps - 1, kTinySteps}) {
    damages()[0].apply(runs.checkpoint("run", step));
  }
  const CommandResult result = runs.finish(runs.resume("run"));
  EXPECT_TRUE(holds(result.err, "resuming after step 8")) << result.err;
  expect_same_run(runs, "whole", "run");

  fs::copy(runs / "whole", runs / "all", fs::copy_options::recursive);
  for (const auto& entry : fs::directory_iterator(runs / "all/checkpoints")) damages()[3].apply(entry.path());
  EXPECT_TRUE(holds(runs.finish(runs.resume("all")).err, "no usable checkpoint"));
  expect_same_run(runs, "whole", "all");
}

// The contrast goes back to the end of SFT; what lies there must be what was written.
TEST(Resume, AContrastRefusesADamagedOrigin) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  for (const int64_t step : {kTinySteps - 1, kTinySteps}) fs::remove_all(runs.checkpoint("run", step));
  damages()[2].apply(runs.checkpoint("run", kTinySft));
  const CommandResult result = test_support::run_minite(runs.resume("run"));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_TRUE(holds(result.err, "step_000008")) << result.err;
  EXPECT_TRUE(holds(result.err, "trainer.safetensors is damaged")) << result.err;
}

TEST(ResumeData, ARunGoesOnWithTheProblemsItBeganWithOnly) {
  const TinyRuns runs;
  (void)runs.finish({"tasks", "make", "addition", "-n", "90", "--seed", "1", "-o", runs.text("data.jsonl"),
                     "--set", "digits=1,steps=0"});
  std::string yaml = test_support::tiny_yaml();
  yaml.erase(yaml.find("data:"), yaml.find("sft:") - yaml.find("data:"));
  spill(runs / "tiny.yaml", yaml);
  (void)runs.finish(runs.start("run", {"--data", runs.text("data.jsonl")}));
  EXPECT_TRUE(holds(slurp(runs / "run/config.yaml"), runs.text("data.jsonl")));
  const std::string problems = slurp(runs / "data.jsonl");
  spill(runs / "data.jsonl", problems.substr(problems.find('\n') + 1));
  expect_refused(runs, runs.resume("run"), {"data.jsonl changed", "digest"});
  spill(runs / "data.jsonl", problems);
  (void)runs.finish(runs.resume("run"));
}

}  // namespace
}  // namespace minite
