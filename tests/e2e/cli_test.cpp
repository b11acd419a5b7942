// The command as a user meets it: verbs that report tables and need no device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "minite/format.h"
#include "minite/kv_format.h"
#include "minite/model.h"
#include "minite/recipe.h"
#include "support/run_command.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::run_minite;
using test_support::TempFolder;

/// Runs with --json; stdout must be one document and nothing else.
json json_of(std::vector<std::string> arguments, const std::vector<std::string>& environment = {},
             int code = 0) {
  arguments.emplace_back("--json");
  const CommandResult result = run_minite(arguments, environment);
  EXPECT_EQ(result.exit_code, code) << result.err;
  EXPECT_EQ(result.err, "");
  return json::parse(result.out);
}

/// Expects exit code 2, an empty stdout and a message with every string of `parts`.
void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& parts,
                    const std::vector<std::string>& environment = {}) {
  const CommandResult result = run_minite(arguments, environment);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
}

void expect_ok(const std::vector<std::string>& arguments, const std::vector<std::string>& parts) {
  const CommandResult result = run_minite(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const std::string& part : parts)
    EXPECT_TRUE(holds(result.out, part)) << part << "\nnot in\n" << result.out;
}

ModelConfig small_config() {
  ModelConfig config;
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.max_position_embeddings = 256;
  return config;
}

TEST(Cli, VersionAndHelp) {
  expect_ok({"--version"}, {"."});
  expect_ok({"--help"}, {"recipes", "formats", "describe", "doctor"});
  for (const char* verb : {"recipes", "formats", "describe", "doctor"})
    expect_ok({verb, "--help"}, {"--json"});
}

TEST(Cli, MisspeltVerbsAndOptionsAreUsageErrors) {
  expect_refused({"recipez"}, {"unknown verb 'recipez'", "did you mean 'recipes'?"});
  expect_refused({}, {"subcommand"});
  expect_refused({"recipes", "--jsn"}, {"--jsn"});
  expect_refused({"recipes", "--json", "--markdown"}, {"--json", "--markdown"});
  expect_refused({"describe"}, {"recipe"});
}

TEST(Recipes, TextAndJsonHoldEveryRow) {
  const json document = json_of({"recipes"});
  ASSERT_EQ(document["recipes"].size(), recipes().size());
  const std::string text = run_minite({"recipes"}).out;
  for (size_t i = 0; i < recipes().size(); ++i) {
    const RecipeSpec& recipe = recipes()[i];
    const json& row = document["recipes"][i];
    EXPECT_EQ(row["name"], recipe.name);
    EXPECT_EQ(row["row_local"], recipe.params.row_local());
    EXPECT_EQ(row["params"]["fprop"]["a"]["text"], to_string(recipe.params.fprop.a));
    EXPECT_EQ(row["params"]["wgrad"]["source"], to_string(recipe.params.wgrad.source));
    EXPECT_TRUE(holds(text, std::string(recipe.name)));
  }
}

TEST(Formats, TextAndJsonHoldEveryRow) {
  const json document = json_of({"formats"});
  ASSERT_EQ(document["formats"].size(), formats().size());
  const std::string text = run_minite({"formats"}).out;
  for (size_t i = 0; i < formats().size(); ++i) {
    EXPECT_EQ(document["formats"][i]["name"], formats()[i].name);
    EXPECT_EQ(document["formats"][i]["block"], formats()[i].block);
    EXPECT_TRUE(holds(text, std::string(formats()[i].layout)));
  }
  EXPECT_EQ(document["formats"][2]["bits_with_block_scales"], 4.5);
}

TEST(Formats, KeysAndValuesListTheirTable) {
  const json document = json_of({"formats", "--kv"});
  ASSERT_EQ(document["kv_formats"].size(), kv_formats().size());
  const std::string text = run_minite({"formats", "--kv"}).out;
  for (size_t i = 0; i < kv_formats().size(); ++i) {
    EXPECT_EQ(document["kv_formats"][i]["name"], kv_formats()[i].name);
    EXPECT_TRUE(holds(text, std::string(kv_formats()[i].definition)));
  }
  EXPECT_EQ(run_minite({"formats", "--kv", "--matrix"}).exit_code, 2);
}

TEST(Describe, EveryRecipe) {
  for (const RecipeSpec& recipe : recipes()) {
    const std::string name(recipe.name);
    expect_ok({"describe", name}, {name, "fprop", "dgrad", "wgrad", "transformer engine", "batch-invariant"});
    const json document = json_of({"describe", name});
    EXPECT_EQ(document["name"], name);
    ASSERT_EQ(document["products"].size(), 3u);
    for (const json& product : document["products"]) EXPECT_EQ(product["operands"].size(), 2u);
    EXPECT_FALSE(document.contains("model"));
  }
}

TEST(Describe, MisspeltNamesAreRefusedWithTheNearest) {
  expect_refused({"describe", "nvfp4_per_tokn"}, {"did you mean 'nvfp4_per_token'?"});
  expect_refused({"describe", "bf16", "--backend", "smid"}, {"did you mean 'simd'?"});
  expect_refused({"describe", "bf16", "--rules", "r.yaml"}, {"--model"});
}

TEST(Describe, BackendsSayWhetherTheyRun) {
  expect_ok({"describe", "bf16", "--backend", "ref"}, {"ref: available"});
  const json document = json_of({"describe", "bf16", "--backend", "cuda"});
  EXPECT_FALSE(document["backend"]["reason"].get<std::string>().empty());
}

TEST(Describe, BackendsNameTheKernelOfEachProduct) {
  expect_ok({"describe", "nvfp4_per_token_bf16_bwd", "--backend", "ref"},
            {"ref fprop", "ref_nvfp4_block_dot: canonical", "a by ref_quantize", "ref dgrad", "a as it is"});
  for (const std::string recipe : {"nvfp4_per_token", "mxfp8", "fp32", "sim_e2m2"}) {
    for (const std::string backend : {"ref", "simd"}) {
      const json document = json_of({"describe", recipe, "--backend", backend})["backend"];
      if (!document.contains("kernels")) continue;  // no AVX2
      ASSERT_EQ(document["kernels"].size(), 3u);
      for (const json& row : document["kernels"]) {
        EXPECT_FALSE(row["kernel"].get<std::string>().empty()) << recipe << row;
        EXPECT_EQ(row["refused"], "") << recipe << row;
      }
    }
  }
  // What a build holds for a device is known without the device, refusals too.
  const json cuda = json_of({"describe", "sim_e2m2", "--backend", "cuda"})["backend"];
  if (cuda.contains("kernels")) {
    EXPECT_NE(cuda["kernels"][0]["refused"].get<std::string>().find("use ref or simd"), std::string::npos)
        << cuda;
    EXPECT_EQ(
        json_of({"describe", "nvfp4_per_token", "--backend", "cuda"})["backend"]["kernels"][0]["kernel"],
        "sm90_wgmma_bf16");
  }
}

TEST(Describe, ModelAndRulesShowWhoWonAndTheCoverage) {
  const TempFolder folder;
  test_support::spill(folder / "config.json", to_json(small_config()));
  const std::string rules = (folder / "rules.yaml").string();
  test_support::spill(rules, "rules:\n  - {match: layers.*.o, layers: -1, recipe: bf16}\n");

  for (const std::string& model : {folder.path().string(), (folder / "config.json").string()}) {
    expect_ok({"describe", "nvfp4_per_token", "--model", model, "--rules", rules},
              {"layers.{0..2}.o", "rule 1 (layers.*.o, layers -1)", "stays high precision", "coverage"});
    const json document =
        json_of({"describe", "nvfp4_per_token", "--model", model, "--rules", rules})["model"];
    ASSERT_EQ(document["layers"].size(), 17u);
    EXPECT_EQ(document["layers"][13]["name"], "layers.3.o");
    EXPECT_EQ(document["layers"][13]["recipe"], "bf16");
    EXPECT_EQ(document["layers"][13]["reason"], "rule 1 (layers.*.o, layers -1)");
    const int64_t layer = 128 * 64 + 64 * 64 + 256 * 64 + 64 * 128;
    const int64_t total = 4 * layer + 512 * 64;
    EXPECT_EQ(document["parameters"], total);
    EXPECT_EQ(document["quantized_parameters"], 4 * layer - 64 * 64);
    EXPECT_NEAR(document["coverage_percent"].get<double>(), 100.0 * (4 * layer - 64 * 64) / total, 1e-9);
  }
}

TEST(Describe, BadModelsAndRulesAreRefused) {
  const TempFolder folder;
  const std::string config = (folder / "config.json").string();
  expect_refused({"describe", "bf16", "--model", config}, {config, "no such file"});
  test_support::spill(config, "{\"model_type\": \"qwen2\"}");
  expect_refused({"describe", "bf16", "--model", config}, {config, "did you mean 'qwen3'?"});
  test_support::spill(config, "{");
  expect_refused({"describe", "bf16", "--model", config}, {config + ":1"});

  ModelConfig odd = small_config();
  odd.intermediate_size = 100;
  test_support::spill(config, to_json(odd));
  expect_refused({"describe", "nvfp4_per_token", "--model", config},
                 {"layers.0.gate_up: N=200 must be a multiple of 32 for mxfp8"});
  expect_refused({"describe", "nvfp4_per_token_bf16_bwd", "--model", config},
                 {"layers.0.down: K=100 must be a multiple of 16 for nvfp4 (w is 64x100)"});

  test_support::spill(config, to_json(small_config()));
  const std::string rules = (folder / "rules.yaml").string();
  test_support::spill(rules, "rules:\n  - {match: layers.*.o, recpie: bf16}\n");
  expect_refused({"describe", "bf16", "--model", config, "--rules", rules},
                 {rules + ":2", "did you mean 'recipe'?"});
  test_support::spill(rules, "rules:\n  - {match: layers.9.o, recipe: bf16}\n");
  expect_refused({"describe", "bf16", "--model", config, "--rules", rules},
                 {"rule 1 (" + rules + ":2: layers.9.o)"});
}

TEST(Doctor, SaysWhatRunsAndWhyTheRestDoesNot) {
  const json document = json_of({"doctor"});
  EXPECT_TRUE(document["ok"]);
  EXPECT_EQ(document["recipes"]["runnable"], document["recipes"]["total"]);
  EXPECT_EQ(document["recipes"]["total"], recipes().size());
  EXPECT_EQ(document["backends"][0]["name"], "ref");
  EXPECT_TRUE(document["backends"][0]["available"]);
  for (const json& backend : document["backends"]) EXPECT_FALSE(backend["reason"].get<std::string>().empty());
  EXPECT_EQ(document["environment"].size(), 4u);
  EXPECT_TRUE(document["cpu"]["features"].contains("avx2"));
  EXPECT_GE(document["threads"], 1);
  const std::string can_run = fmt::format("{0} of {0} can run", recipes().size());
  expect_ok({"doctor"}, {"processor", "backend", "MINITE_THREADS", "library", can_run});
}

TEST(Doctor, BadVariablesAreAFailedCheck) {
  const json threads = json_of({"doctor"}, {"MINITE_THREADS=many"}, 1);
  EXPECT_FALSE(threads["ok"]);
  EXPECT_EQ(threads["threads"], 0);
  const json recipe = json_of({"doctor"}, {"MINITE_RECIPE=bf61"}, 1);
  EXPECT_TRUE(holds(recipe["environment"][0]["problem"], "did you mean 'bf16'?"));
  EXPECT_TRUE(holds(run_minite({"doctor"}, {"MINITE_SIMD=sse"}).out, "problem: MINITE_SIMD=sse"));
  EXPECT_EQ(json_of({"doctor"}, {"MINITE_THREADS=3"})["threads"], 3);
}

TEST(Startup, IsBelow50Milliseconds) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "sanitizers start slowly";
#endif
  for (const char* verb : {"recipes", "formats", "doctor"}) {
    double best = 1;
    for (int i = 0; i < 10; ++i) best = std::min(best, run_minite({verb}).seconds);
    EXPECT_LT(best, 0.05) << verb;
  }
}

}  // namespace
}  // namespace minite
