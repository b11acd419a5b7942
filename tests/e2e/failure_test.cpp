// Runs that fail on the way: exit code 3, a message that names the cause, and nothing lost.
#include "support/edit_checkpoint.h"
#include "support/tiny_run.h"

namespace minite {
namespace {

using test_support::Child;
using test_support::CommandResult;
using test_support::holds;
using test_support::kBf16Infinity;
using test_support::kBf16Nan;
using test_support::kTinySft;
using test_support::poison_tensor;
using test_support::same_files;
using test_support::slurp;
using test_support::timeless_events;
using test_support::TinyRuns;
namespace fs = std::filesystem;

void expect_failed(const CommandResult& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
}

struct Poison {
  const char* tensor;
  uint16_t bits;
  const char* place;  ///< where the first bad value appears
};
// An infinity in an NVFP4 weight decodes to a finite value (convention te), so the forward pass hides it.
constexpr Poison kPoisons[] = {
    {"model.layers.1.mlp.down_proj.weight", kBf16Nan, "layers.1.down, row 0"},
    {"model.layers.1.mlp.down_proj.weight", kBf16Infinity, "weight of layers.1.down, row 0, column 5: inf"},
    {"model.layers.0.self_attn.k_proj.weight", kBf16Nan, "layers.0.qkv, row 0"},
    {"model.norm.weight", kBf16Infinity, "final_norm, row 0"}};

TEST(Failure, ANonFiniteLossNamesTheLayerAndIsNotApplied) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", {"--set", "rl.steps=0", "--set", "contrast.steps=0"}));
  for (size_t i = 0; i < std::size(kPoisons); ++i) {
    const std::string model = "model" + std::to_string(i);
    fs::copy(runs.checkpoint("run", kTinySft), runs / model, fs::copy_options::recursive);
    poison_tensor(runs / model, kPoisons[i].tensor, 5, kPoisons[i].bits);
    for (const char* stage : {"sft", "rl"}) {
      const std::string name = model + "_" + stage;
      auto arguments = runs.start(name, {"--init", runs.text(model), "--set", "contrast.steps=0"});
      if (stage == std::string("rl")) arguments.insert(arguments.end(), {"--set", "sft.steps=0"});
      const std::string saved = runs.checkpoint(name, 0).string();
      expect_failed(test_support::run_minite(arguments),
                    {std::string(stage) + " step 1", "not applied",
                     std::string("First bad value: ") + kPoisons[i].place, saved});
      EXPECT_EQ(runs.lines(name), 0);
      // The state before the step: the weights as they came, in a checkpoint that is whole.
      EXPECT_EQ(slurp(fs::path(saved) / "model.safetensors"), slurp(runs / (model + "/model.safetensors")));
      EXPECT_TRUE(fs::exists(fs::path(saved) / "manifest.json"));
      const CommandResult again = test_support::run_minite(runs.resume(name));
      expect_failed(again, {"resuming after step 0", kPoisons[i].place});
    }
  }
}

TEST(Failure, SamplesOfABrokenModelAreNoScores) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", {"--set", "rl.steps=0", "--set", "contrast.steps=0"}));
  const fs::path model = runs.checkpoint("run", kTinySft);
  poison_tensor(model, "model.norm.weight", 5, kBf16Nan);
  test_support::spill(runs / "data.jsonl", "{\"prompt\": \"1+1=\", \"answer\": \"2\"}\n");
  const std::vector<std::string> parts = {model.string(), "not finite", "bf16"};
  expect_failed(test_support::run_minite({"generate", model.string(), "--prompt", "1+1="}), parts);
  expect_failed(test_support::run_minite({"eval", model.string(), "--data", runs.text("data.jsonl")}), parts);
}

// A learning rate beyond reason: weights overflow after some steps, between two checkpoints.
TEST(Failure, AnOverflowOnTheWaySavesTheLastState) {
  const TinyRuns runs;
  const CommandResult result = test_support::run_minite(runs.start(
      "run", {"--set", "sft.lr=1e6", "--set", "sft.warmup_steps=0", "--set", "sft.steps=400", "--set",
              "sft.batch_size=4", "--set", "sft.weight_decay=1e6", "--set", "checkpoint_every=1000"}));
  expect_failed(result, {"sft step", "not applied", "The state before the step is in"});
  const int64_t done = runs.lines("run");
  EXPECT_GT(done, 0);
  EXPECT_TRUE(fs::exists(runs.checkpoint("run", done) / "manifest.json")) << result.err;
}

TEST(Failure, AFullDiskLosesNothing) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("whole"));
  const auto size = [&](const std::string& name) { return fs::file_size(runs / name); };
  const auto trainer = fs::file_size(runs.checkpoint("whole", 17) / "trainer.safetensors");
  const auto model = fs::file_size(runs.checkpoint("whole", 17) / "model.safetensors");
  ASSERT_GT(trainer, size("whole/metrics.jsonl"));

  // No room for a checkpoint at all.
  for (const auto limit : {model - 1, trainer - 1}) {
    const std::string name = "none" + std::to_string(limit);
    Child child(runs.start(name), {.file_bytes = limit});
    expect_failed(child.wait(), {".safetensors", "File too large", "free space"});
    EXPECT_TRUE(fs::is_empty(runs / (name + "/checkpoints")));
    (void)runs.finish(runs.resume(name));  // there is room again
    EXPECT_EQ(slurp(runs / "whole/metrics.jsonl"), slurp(runs / (name + "/metrics.jsonl")));
    EXPECT_TRUE(same_files(runs / "whole/checkpoints", runs / (name + "/checkpoints")));
  }
}

TEST(Failure, AFullDiskInTheMiddleKeepsWholeLinesAndCheckpoints) {
  const TinyRuns runs;
  // A wide log in small checkpoints: room for half of the lines.
  const std::vector<std::string> small = {"--recipe", "bf16",
                                          "--set",    "contrast.sampler_recipe=bf16",
                                          "--set",    "model.num_hidden_layers=1",
                                          "--set",    "model.hidden_size=16",
                                          "--set",    "model.intermediate_size=16",
                                          "--set",    "model.num_attention_heads=1",
                                          "--set",    "rl.steps=100",
                                          "--set",    "sft.steps=2",
                                          "--set",    "rl.train_batch_size=1",
                                          "--set",    "rl.n=2",
                                          "--set",    "sft.batch_size=2",
                                          "--set",    "checkpoint_every=30"};
  struct Case {
    const char *tensorboard, *file;  // the file that reaches the limit
  };
  for (const Case& c :
       {Case{"false", "metrics.jsonl"}, Case{"true", "tensorboard/events.out.tfevents.0.minite"}}) {
    const std::string whole_run = std::string("whole_") + c.tensorboard,
                      run = std::string("run_") + c.tensorboard;
    auto settings = small;
    settings.insert(settings.end(), {"--set", std::string("tensorboard=") + c.tensorboard});
    (void)runs.finish(runs.start(whole_run, settings));
    const uintmax_t limit = fs::file_size(runs / whole_run / c.file) * 3 / 4;
    ASSERT_GT(limit, fs::file_size(runs.checkpoint(whole_run, 105) / "trainer.safetensors"));
    Child child(runs.start(run, settings), {.file_bytes = limit});
    // The kernel writes what fits; the rest of the line is taken back.
    expect_failed(child.wait(), {"cannot append to " + runs.text(run) + "/" + c.file, "free some space"});
    const std::string whole = slurp(runs / whole_run / "metrics.jsonl"),
                      kept = slurp(runs / run / "metrics.jsonl");
    EXPECT_GT(kept.size(), whole.size() / 2);
    EXPECT_EQ(kept.back(), '\n');
    EXPECT_EQ(whole.substr(0, kept.size()), kept);
    const CommandResult result = runs.finish(runs.resume(run));
    EXPECT_FALSE(holds(result.err, "skipped")) << result.err;
    EXPECT_EQ(slurp(runs / run / "metrics.jsonl"), whole);
    EXPECT_TRUE(same_files(runs / whole_run / "checkpoints", runs / run / "checkpoints"));
    if (fs::exists(runs / whole_run / "tensorboard")) {
      EXPECT_EQ(timeless_events(runs / whole_run), timeless_events(runs / run));
    }
  }
}

TEST(Failure, AFolderThatCannotBeWritten) {
  const TinyRuns runs;
  const CommandResult result = test_support::run_minite(runs.start("tiny.yaml/run"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(holds(result.err, runs.text("tiny.yaml/run"))) << result.err;
  EXPECT_TRUE(holds(result.err, "Not a directory")) << result.err;
  EXPECT_EQ(slurp(runs / "tiny.yaml"), test_support::tiny_yaml());
}

TEST(Failure, MemoryThatIsNotThere) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer ends the process instead of letting an allocation fail";
#endif
  const TinyRuns runs;
  expect_failed(test_support::run_minite(runs.start("run", {"--set", "sampler_sequences=100000000000"})),
                {"out of memory"});
}

}  // namespace
}  // namespace minite
