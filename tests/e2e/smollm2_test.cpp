// The real SmolLM2-135M-Instruct, against numbers of another implementation: an FP32 forward pass in numpy
// over the weights that the Python package gguf 0.19.0 dequantizes, rounded to BF16, with ggml's rotation of
// neighbours. Skipped where the file is missing: tools/fetch_smollm2.sh fetches it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/run_command.h"

namespace minite {
namespace {

using namespace test_support;
using nlohmann::json;
namespace fs = std::filesystem;

fs::path model() {
  const char* given = std::getenv("MINITE_SMOLLM2");
  return given != nullptr ? fs::path(given)
                          : fs::path(MINITE_SOURCE_DIR) / "build/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
}

class SmolLm2 : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(model())) GTEST_SKIP() << model() << " is missing; tools/fetch_smollm2.sh fetches it";
  }
  static json run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, model().string());
    arguments.emplace_back("--json");
    const CommandResult result = run_minite(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
};

TEST_F(SmolLm2, GreedyTokensAndLogProbsAreTheReferences) {
  const json document = run({"generate", "--prompt", "1, 2, 3, 4, 5,", "--temperature", "0",
                             "--max-new-tokens", "8", "--recipe", "bf16"});
  EXPECT_EQ(document["prompt_tokens"], json({33, 28, 216, 34, 28, 216, 35, 28, 216, 36, 28, 216, 37, 28}));
  const json& sample = document["samples"][0];
  EXPECT_EQ(sample["text"], " 6, 7, 8");
  EXPECT_EQ(sample["tokens"], json({216, 38, 28, 216, 39, 28, 216, 40})) << "each leads by at least 3 nats";
  const std::vector<double> reference = {-0.1150, -0.0507, -0.1256, -0.0532,
                                         -0.0438, -0.0452, -0.0370, -0.0082};
  for (size_t i = 0; i < reference.size(); ++i)
    EXPECT_NEAR(sample["logp"][i].get<double>(), reference[i], 0.02) << i;
}

TEST_F(SmolLm2, PerplexityIsTheReferences) {
  const TempFolder folder;
  spill(folder / "rain.txt",
        "Rain falls when warm, wet air rises and cools. The water in the air gathers into tiny drops, the "
        "drops join, "
        "and when they are heavy enough they fall. A thermometer measures temperature, a barometer measures "
        "pressure, "
        "and together they tell whether a storm is on its way.\n");
  const json document =
      run({"perplexity", (folder / "rain.txt").string(), "--recipe", "bf16,nvfp4_per_token"});
  EXPECT_EQ(document["tokens"], 58);
  EXPECT_NEAR(document["rows"][0]["nll"].get<double>(), 3.01414, 0.02);
  EXPECT_LT(document["rows"][1]["nll"].get<double>(), 4.0) << "4 bits lose something, not the language";
}

TEST_F(SmolLm2, ChatHasTheDefaultSystemMessage) {
  const json document = run({"generate", "--chat", "--prompt", "What is the capital of France?",
                             "--temperature", "0", "--max-new-tokens", "12", "--recipe", "nvfp4_per_token"});
  EXPECT_EQ(document["chat"], "SmolLM2");
  EXPECT_NE(document["samples"][0]["text"].get<std::string>().find("Paris"), std::string::npos) << document;
}

}  // namespace
}  // namespace minite
