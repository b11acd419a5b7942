// A GGUF file as a checkpoint: every verb that reads one, chats, perplexity and tokenizers.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "support/run_command.h"
#include "support/tiny_gguf.h"
#include "support/tiny_run.h"

namespace minite {
namespace {

using namespace test_support;
using nlohmann::json;

const char* const kChat =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + "
    "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// A tiny Llama in a GGUF file, with a tokenizer and a chat template.
class GgufVerbs : public testing::Test {
 protected:
  GgufVerbs() {
    ModelConfig c = tiny_llama(32, true);
    c.vocab_size = 264;
    Weights weights(c, DType::bf16, Purpose::inference);
    fill_strong(weights, 11);
    GgufImage image = gguf_image(weights);
    image.more_values = [](io::GgufValues& v) { v.put_text("tokenizer.chat_template", kChat); };
    image.write(folder_ / "m.gguf", c, "llama");
    image.more_values = [](io::GgufValues& v) { v.put_text("tokenizer.chat_template", "{{ other }}"); };
    image.write(folder_ / "other.gguf", c, "llama");
    spill(folder_ / "data.jsonl",
          "{\"prompt\": \"12+1=\", \"answer\": \"13\"}\n{\"prompt\": \"the\", \"answer\": \"x\"}\n");
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string model() const { return path("m.gguf"); }
  [[nodiscard]] std::string run(const std::vector<std::string>& arguments) const {
    const CommandResult result = run_minite(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  void refuse(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) const {
    const CommandResult result = run_minite(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
  }
  TempFolder folder_;
};

TEST_F(GgufVerbs, EveryVerbThatReadsACheckpointTakesAFile) {
  const std::string data = path("data.jsonl");
  EXPECT_NE(run({"describe", "bf16", "--model", model()}).find("lm_head"), std::string::npos);
  const json eval = json::parse(run({"eval", model(), "--data", data, "--max-new-tokens", "4", "--json"}));
  EXPECT_EQ(eval["problems"], 2);
  const json gap = json::parse(run({"gap", model(), "--data", data, "--learner", "bf16", "--sampler", "bf16",
                                    "--max-new-tokens", "6", "--samples", "2", "--expect", "0", "--json"}));
  EXPECT_EQ(gap["rows"][0]["max_abs_gap"], 0);
  (void)run({"capture", model(), "--data", data, "--role", "sampler", "--recipe", "bf16", "--max-new-tokens",
             "3", "-o", path("capture")});
  (void)run({"sft", "--data", data, "--init", model(), "--steps", "1", "-o", path("run"), "--set",
             "max_length=32", "--set", "sft.batch_size=2"});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "run/checkpoints/step_000001/tokenizer.json"));
  (void)run({"generate", path("run/checkpoints/step_000001"), "--prompt", "the", "--max-new-tokens", "2"});
}

TEST_F(GgufVerbs, ChatsFollowTheTemplateOfTheFile) {
  const auto prompt = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"generate", model(),    "--max-new-tokens", "2",
                                    "--json",   "--prompt", "the<|im_end|>"};
    all.insert(all.end(), more.begin(), more.end());
    return json::parse(run(all));
  };
  const json chat = prompt({"--chat", "--system", "12"});
  EXPECT_EQ(chat["chat"], "ChatML");
  const auto ids = chat["prompt_tokens"].get<std::vector<int32_t>>();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 260), 3) << "<|im_start|> of system, user and assistant";
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 261), 2) << "the user's own <|im_end|> is plain text";
  EXPECT_EQ(ids.back(), '\n');
  const json raw = prompt({});
  EXPECT_EQ(raw["chat"], nullptr);
  EXPECT_EQ(raw["prompt_tokens"].size(), 11u);
  refuse({"generate", model(), "--prompt", "x", "--system", "y"}, {"--system", "--chat"});
  refuse({"generate", path("other.gguf"), "--chat", "--prompt", "x"},
         {"other.gguf", "not known", "raw prompt"});
}

/// Log-probs of drawn tokens are those that perplexity counts: the sums over two texts differ by them.
TEST_F(GgufVerbs, PerplexityCountsTheLogProbsOfTheEngine) {
  const std::string prompt = "The 12 the, the 1212";
  const json drawn =
      json::parse(run({"generate", model(), "--prompt", prompt, "--max-new-tokens", "12", "--json"}));
  const json& sample = drawn["samples"][0];
  const json tokens =
      json::parse(run({"tokenize", model(), "--text", prompt + sample["text"].get<std::string>(), "--json"}));
  std::vector<int32_t> all = drawn["prompt_tokens"];
  for (const json& t : sample["tokens"]) all.push_back(t);
  ASSERT_EQ(tokens["rows"][0]["ids"], json(all)) << "the draw must be text; take another seed";
  const auto sum = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    spill(folder_ / "text", text);
    std::vector<std::string> arguments = {"perplexity", model(), path("text"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const json document = json::parse(run(arguments));
    EXPECT_EQ(document["tokens"], document["scored"].get<int64_t>() + 1);
    const json& row = document["rows"][0];
    EXPECT_NEAR(row["perplexity"].get<double>(), std::exp(row["nll"].get<double>()), 1e-9);
    return row["nll"].get<double>() * document["scored"].get<double>();
  };
  const auto logp = sample["logp"].get<std::vector<double>>();
  const std::string whole = prompt + sample["text"].get<std::string>();
  EXPECT_NEAR(sum(whole, {"--window", "128"}) - sum(prompt, {"--window", "128"}),
              -std::accumulate(logp.begin(), logp.end(), 0.0), 1e-6);
}

TEST_F(GgufVerbs, WindowsScoreEveryTokenOnce) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the 12 x" + std::to_string(i);
  spill(folder_ / "text", text);
  const auto document = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"perplexity", model(), path("text"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return json::parse(run(all));
  };
  const json whole = document({"--window", "224", "--max-tokens", "150"});
  EXPECT_EQ(whole["tokens"], 150);
  for (const char* stride : {"1", "7", "32"}) {
    const json cut = document({"--window", "32", "--stride", stride, "--max-tokens", "150"});
    EXPECT_EQ(cut["scored"], 149) << stride;
    EXPECT_NE(cut["rows"][0]["nll"], whole["rows"][0]["nll"]) << "less context";
  }
  const json rows = document({"--window", "64", "--recipe", "bf16,mxfp8"})["rows"];
  EXPECT_EQ(rows[0]["recipe"], "bf16");
  EXPECT_EQ(rows[1]["recipe"], "mxfp8");
  EXPECT_NE(rows[0]["nll"], rows[1]["nll"]);
  refuse({"perplexity", model(), path("text"), "--window", "400"},
         {"--window 400", "max_position_embeddings=224"});
  refuse({"perplexity", model(), path("text"), "--window", "8", "--stride", "9"},
         {"--stride 9", "--window 8"});
  spill(folder_ / "text", "a");
  refuse({"perplexity", model(), path("text")}, {"1 tokens"});
  spill(folder_ / "text", "a\xFF");
  refuse({"perplexity", model(), path("text")}, {"byte 1", "UTF-8"});
}

TEST_F(GgufVerbs, TheTokenizersPackageAgrees) {
  constexpr int kMissing = 77;
  const std::string command = "python3 " + quoted(MINITE_SOURCE_DIR "/tests/e2e/compare_tokenizers.py") +
                              " " + quoted(MINITE_BINARY) + " " + quoted(model()) + " 1000";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMissing) GTEST_SKIP() << "the Python package tokenizers is not installed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// The folder that convert makes is the model of the file: the same ids, the same log-probs, the same
/// answers.
TEST_F(GgufVerbs, ConvertMakesTheFolderOfTheSameModel) {
  const std::string folder = path("folder");
  const json report =
      json::parse(run({"convert", model(), "-o", folder, "--to", "bf16", "--shard-size", "20KB", "--json"}));
  EXPECT_EQ(report["from"], "gguf");
  EXPECT_GT(report["shards"], 1);
  for (const json& row : report["tensors"]) EXPECT_EQ(row["fate"], "decoded") << row;
  const auto files = report["files"].get<std::vector<std::string>>();
  EXPECT_NE(std::find(files.begin(), files.end(), "tokenizer.json"), files.end()) << report["files"];
  spill(folder_ / "text.txt", "the 12+1= the the");
  const auto scored = [&](const std::string& checkpoint) {
    return json::parse(run(
        {"perplexity", checkpoint, path("text.txt"), "--recipe", "bf16,nvfp4_per_token", "--json"}))["rows"];
  };
  EXPECT_EQ(scored(folder), scored(model()));
  const auto answer = [&](const std::string& checkpoint) {
    return run({"generate", checkpoint, "--chat", "--prompt", "the", "--max-new-tokens", "8", "--seed", "3"});
  };
  EXPECT_EQ(answer(folder), answer(model()));
  // Again: the same bytes; and every tensor is there for the next conversion.
  (void)run({"convert", model(), "-o", path("again"), "--to", "bf16", "--shard-size", "20KB"});
  EXPECT_TRUE(same_files(folder_ / "folder", folder_ / "again"));
  (void)run(
      {"convert", folder, "-o", path("quantized"), "--to", "modelopt", "--activations", "a16", "--verify"});
  refuse({"convert", model(), "-o", path("x"), "--to", "modelopt"}, {"m.gguf", "bf16 only"});
  refuse({"convert", model(), "-o", folder, "--to", "bf16"}, {"folder"});
}

/// Rungs of eval --ladder by "rung recipe".
std::map<std::string, json> rungs_of(const json& document) {
  std::map<std::string, json> rungs;
  for (const json& row : document["rows"])
    rungs[row["rung"].get<std::string>() + " " + row["recipe"].get<std::string>()] = row;
  return rungs;
}

/// A conversion with a recipe's own bytes costs nothing beyond the format; one with another tool's numerics
/// may, and the layers tell where.
TEST_F(GgufVerbs, LadderTellsTheFormatFromTheConversion) {
  (void)run({"convert", model(), "-o", path("bf16"), "--to", "bf16"});
  (void)run({"convert", path("bf16"), "-o", path("own"), "--to", "modelopt", "--recipe", "nvfp4_per_token",
             "--activations", "a16"});
  (void)run(
      {"convert", path("bf16"), "-o", path("other"), "--to", "compressed-tensors", "--activations", "a16"});
  spill(folder_ / "text.txt", "the 12+1= the the 12 x 13 the");
  const auto ladder = [&](const std::string& converted) {
    return json::parse(run({"eval", path("bf16"), "--ladder", "--text", path("text.txt"), "--data",
                            path("data.jsonl"), "--max-new-tokens", "4", "--recipes",
                            "nvfp4_per_token,mxfp8,nvfp4_2d", "--converted", path(converted), "--json"}));
  };
  const json own = ladder("own"), other = ladder("other");
  auto mine = rungs_of(own), foreign = rungs_of(other);
  ASSERT_EQ(mine.size(), 5u) << own["rows"];
  EXPECT_EQ(mine["offline nvfp4_per_token"]["nll"], mine["online nvfp4_per_token"]["nll"]);
  EXPECT_EQ(mine["online nvfp4_per_token"], foreign["online nvfp4_per_token"]);
  EXPECT_NE(mine["online nvfp4_per_token"]["nll"], mine["bf16 bf16"]["nll"]);
  EXPECT_NE(foreign["offline nvfp4_per_token"]["nll"], foreign["online nvfp4_per_token"]["nll"]);
  EXPECT_TRUE(mine["bf16 bf16"]["pass@1"].is_number());
  ASSERT_EQ(own["notes"].size(), 2u) << own["notes"];
  EXPECT_NE(own["notes"][0].get<std::string>().find("mxfp8"), std::string::npos);
  EXPECT_NE(own["notes"][1].get<std::string>().find("2D blocks"), std::string::npos);
  int64_t same = 0, differing = 0;
  for (const json& layer : own["layers"]) {
    EXPECT_GT(layer["online_relative_l2"].get<double>(), 0.0) << layer;
    if (!layer.contains("offline_relative_l2")) continue;
    EXPECT_EQ(layer["differing_bytes"], 0) << layer;
    // A folder has no amax, with which `te` decodes: the last bit of a value may differ.
    EXPECT_NEAR(layer["offline_relative_l2"].get<double>(), layer["online_relative_l2"].get<double>(), 1e-7)
        << layer;
    ++same;
  }
  EXPECT_GE(same, 4);
  for (const json& layer : other["layers"]) {
    if (layer.contains("offline_relative_l2")) differing += layer["differing_bytes"].get<int64_t>();
  }
  EXPECT_GT(differing, 0);
  refuse({"eval", path("bf16"), "--ladder"}, {"--data", "--text"});
  refuse({"eval", path("bf16"), "--ladder", "--text", path("text.txt"), "--recipe", "mxfp8"},
         {"--recipes", "--recipe mxfp8"});
  refuse({"eval", path("bf16"), "--ladder", "--text", path("text.txt"), "--k", "2"}, {"--k"});
  refuse({"eval", path("bf16"), "--text", path("text.txt")}, {"--data is missing"});
  refuse({"eval", path("bf16"), "--data", path("data.jsonl"), "--converted", path("own")}, {"--ladder"});
}

}  // namespace
}  // namespace minite
