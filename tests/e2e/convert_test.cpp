// minite synth, convert and the checks of inspect on what they made.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "io/checkpoint_folder.h"
#include "minite/tensor.h"
#include "support/run_command.h"

namespace minite {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using Words = std::vector<std::string>;

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = slurp(entry.path());
  return files;
}
void synth(const fs::path& to, const char* arch, Words more = {}) {
  Words words = {"synth", "--arch", arch, "-o", to.string()};
  words.insert(words.end(), more.begin(), more.end());
  const CommandResult result = run_minite(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
}
json converted(const fs::path& from, const fs::path& to, Words more) {
  Words words = {"convert", from.string(), "-o", to.string(), "--json", "--to"};
  words.insert(words.end(), more.begin(), more.end());
  const CommandResult result = run_minite(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? json::parse(result.out) : json();
}

TEST(SynthVerb, SameSeedSameBytes) {
  const TempFolder folder;
  synth(folder / "a", "qwen3-moe-tiny", {"--seed", "7", "--shard-size", "100KB"});
  synth(folder / "b", "qwen3-moe-tiny", {"--seed", "7", "--shard-size", "100KB", "--threads", "1"});
  synth(folder / "c", "qwen3-moe-tiny", {"--seed", "8", "--shard-size", "100KB"});
  EXPECT_EQ(contents(folder / "a"), contents(folder / "b"));
  EXPECT_NE(contents(folder / "a"), contents(folder / "c"));
  EXPECT_GT(io::CheckpointFolder(folder / "a").shards().size(), 3u);
  const CommandResult unknown = run_minite({"synth", "--arch", "qwen3-tyni", "-o", (folder / "d").string()});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(holds(unknown.err, "did you mean 'qwen3-tiny'")) << unknown.err;
}

/// Heavier tails than a normal distribution: kurtosis 3.
TEST(SynthVerb, WeightsHaveHeavyTails) {
  const TempFolder folder;
  synth(folder / "a", "llama-tiny");
  const io::CheckpointFolder made(folder / "a");
  const io::TensorInfo& w = made.at("model.layers.0.mlp.up_proj.weight");
  double second = 0, fourth = 0;
  for (int64_t i = 0; i < w.count(); ++i) {
    bf16 x;
    std::memcpy(&x, w.bytes.data() + 2 * i, 2);
    second += double{x} * double{x};
    fourth += double{x} * double{x} * double{x} * double{x};
  }
  const double n = static_cast<double>(w.count());
  EXPECT_GT(fourth / n / (second / n * second / n), 4.5);
  EXPECT_NEAR(std::sqrt(second / n), 0.02, 0.006);
}

TEST(ConvertVerb, EveryContainerAndBack) {
  const TempFolder folder;
  synth(folder / "src", "qwen3-moe-tiny");
  const json made = converted(folder / "src", folder / "mo", {"modelopt", "--verify"});
  EXPECT_EQ(made["fates"]["quantized"], 2 * (4 + 3 * 8));
  EXPECT_LT(made["verified"]["quantized"]["relative_l2"], 0.11);
  EXPECT_TRUE(made["verified"]["faults"].empty());
  EXPECT_EQ(made["tensors"].size(), 69u);
  converted(folder / "mo", folder / "ct", {"compressed-tensors"});
  const json back = converted(folder / "ct", folder / "mo2", {"modelopt", "--verify"});
  EXPECT_LT(back["verified"]["quantized"]["relative_l2"], 1e-6);
  EXPECT_EQ(slurp(folder / "mo/model.safetensors"), slurp(folder / "mo2/model.safetensors"));
  converted(folder / "ct", folder / "bf16", {"bf16"});
  const io::CheckpointFolder plain(folder / "bf16"), source(folder / "src");
  for (const auto& [name, entry] : source.tensors())
    EXPECT_EQ(plain.at(name).shape, entry.info.shape) << name;
  for (const char* name : {"mo", "ct", "bf16", "mo2"}) {
    const CommandResult check = run_minite({"inspect", (folder / name).string(), "--check"});
    EXPECT_EQ(check.exit_code, 0) << name << check.out;
  }
}

TEST(ConvertVerb, BadInputIsNamed) {
  const TempFolder folder;
  synth(folder / "src", "llama-tiny");
  const auto refused = [&](Words more, const std::string& part) {
    Words words = {"convert", (folder / "src").string(), "-o", (folder / "dst").string()};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_minite(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_TRUE(holds(result.err, part)) << result.err;
    EXPECT_FALSE(fs::exists(folder / "dst"));
  };
  refused({"--to", "modelopt2"}, "did you mean 'modelopt'");
  refused({"--to", "modelopt", "--format", "mxfp4"}, "modelopt stores no mxfp4; it has nvfp4, mxfp8");
  refused({"--to", "modelopt", "--activations", "a4"}, "--input-amax");
  refused({"--to", "modelopt", "--activations", "a8"}, "has no variant with activations a8");
  refused({"--to", "modelopt", "--recipe", "bf16"}, "does not quantize weights");
  refused({"--to", "modelopt", "--recipe", "mxfp8", "--format", "nvfp4"}, "leave out --format");
  refused({"--to", "compressed-tensors", "--recipe", "nvfp4_per_token"}, "with an outer scale a row");
  refused({"--to", "modelopt", "--shard-size", "5 parsecs"}, "expected a size");
  refused({"--to", "gguf"}, "--no-tokenizer");
  refused({"--to", "gguf", "--no-tokenizer", "--verify"}, "--verify compares two folders");
  refused({"--to", "bf16", "--ignore", "re:(("}, "no regular expression");
}

TEST(ConvertVerb, InputAmaxOfAFile) {
  const TempFolder folder;
  synth(folder / "src", "llama-tiny");
  json amax;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      amax["model.layers." + std::to_string(layer) + "." + name] = 2.5;
  }
  spill(folder / "amax.json", amax.dump());
  converted(folder / "src", folder / "dst", {"modelopt", "--input-amax", (folder / "amax.json").string()});
  const json config = json::parse(slurp(folder / "dst/hf_quant_config.json"));
  EXPECT_EQ(config["quantization"]["quant_algo"], "NVFP4");
  spill(folder / "amax.json", R"({"a": "b"})");
  const CommandResult result =
      run_minite({"convert", (folder / "src").string(), "-o", (folder / "d").string(), "--to", "modelopt",
                  "--input-amax", (folder / "amax.json").string()});
  EXPECT_EQ(result.exit_code, 2);
}

/// Killed at any time, the second run ends with the bytes of an undisturbed one.
TEST(ConvertVerb, KilledConversionsGoOn) {
  const TempFolder folder;
  synth(folder / "src", "qwen3-moe-tiny");
  const Words words = {"convert", (folder / "src").string(), "--to", "modelopt", "--shard-size", "20KB",
                       "-o"};
  Words whole = words;
  whole.push_back((folder / "whole").string());
  ASSERT_EQ(run_minite(whole).exit_code, 0);
  for (const int milliseconds : {15, 40, 80}) {
    Words cut = words;
    cut.push_back((folder / "cut").string());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::vector<char*> arguments = {const_cast<char*>("minite")};
      for (std::string& word : cut) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(126);
      ::execv(MINITE_BINARY, arguments.data());
      ::_exit(127);
    }
    ::usleep(static_cast<useconds_t>(1000 * milliseconds));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!fs::exists(folder / "cut")) {
      ASSERT_EQ(run_minite(cut).exit_code, 0);
    }
    EXPECT_EQ(contents(folder / "whole"), contents(folder / "cut")) << milliseconds << " ms";
    fs::remove_all(folder / "cut");
  }
}

TEST(ConvertVerb, GgufFileIsSound) {
  const TempFolder folder;
  synth(folder / "src", "qwen3-moe-tiny");
  converted(folder / "src", folder / "a.gguf", {"gguf", "--no-tokenizer"});
  const CommandResult check = run_minite({"inspect", (folder / "a.gguf").string(), "--check"});
  EXPECT_EQ(check.exit_code, 0) << check.out;
  EXPECT_TRUE(holds(check.out, "blk.1.ffn_down_exps.weight"));
}

/// The readers of the Python packages safetensors and gguf agree about names and shapes.
TEST(ConvertVerb, PythonPackagesReadIt) {
  constexpr int kMissing = 77;
  const TempFolder folder;
  synth(folder / "src", "llama-tiny");
  converted(folder / "src", folder / "q", {"modelopt"});
  converted(folder / "q", folder / "q.gguf", {"gguf", "--no-tokenizer"});
  const std::string line = "python3 " +
                           test_support::quoted(MINITE_SOURCE_DIR "/tests/e2e/read_checkpoints.py") + " " +
                           test_support::quoted(folder.path().string());
  const int status = std::system(line.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMissing)
    GTEST_SKIP() << "the Python packages numpy, safetensors and gguf are not installed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace minite
