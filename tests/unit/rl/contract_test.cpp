// The contract of a rollout says what was drawn with what; contracts differ by fields.
#include "rl/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "io/digest.h"
#include "rl/rollout_record.h"
#include "rl_support.h"
#include "support/tiny_model.h"

namespace minite::rl::test {
namespace {

RunConfig tiny_run() {
  RunConfig c;
  c.data.generator = "addition";
  c.data.options = "digits=1,steps=0";
  c.data.problems = 8;
  c.max_length = 32;
  c.sampler_recipe = "nvfp4_w4a16";
  c.rl.steps = 4;
  c.rl.train_batch_size = 2;
  c.rl.n = 2;
  c.rl.temperature = 0.8;
  c.rl.top_k = 5;
  c.rl.rollout_staleness = 1;
  c.rules = "rules:\n  - match: layers.1.o\n    recipe: bf16\n";
  return c;
}

TEST(Contract, ARolloutCarriesThatOfItsSampler) {
  const RunConfig c = tiny_run();
  const Problems problems(c.data);
  const io::CharTokenizer tokenizer(problems.alphabet());
  ModelConfig model = test_support::tiny_config();
  model.vocab_size = tokenizer.vocab_size();
  model.eos_token_id = tokenizer.eos_id();
  Weights weights(model, DType::bf16, Purpose::training);
  test_support::fill_strong(weights, 3);
  ThreadPool pool(1);
  Engine engine(weights, c, {c.learner_recipe, c.sampler_recipe}, test_support::fast_table(), pool);
  learn::WeightHistory history(1);
  history.keep(6, weights);
  const std::string old_digest = digest_of(weight_digests(weights));
  weights.at("layers.0.o").master.as<float>()[0] += 1.0f;
  weights.round_masters();
  engine.synchronize();
  engine.sample_at(history, 6);
  StepRecord record;
  const StageContext ctx{c, problems, tokenizer, engine, nullptr, &history};
  const io::Contract said = roll_out(ctx, learn::Stage::rl, 7, record).contract;
  EXPECT_EQ(said.temperature, 0.8);
  EXPECT_EQ(said.top_k, 5);
  EXPECT_EQ(said.recipe, "nvfp4_w4a16");
  EXPECT_EQ(said.recipe_rules, (std::map<std::string, std::string>{{"layers.1.o", "bf16"}}));
  EXPECT_EQ(said.kv_format, "bf16");
  EXPECT_EQ(said.policy, "batch_invariant");
  EXPECT_EQ(said.weight_version, 6);
  EXPECT_EQ(said.weights_digest, old_digest);
  EXPECT_NE(said.weights_digest, digest_of(weight_digests(weights)));
}

TEST(Contract, DigestsOfExpertsAreApart) {
  Weights weights(test_support::tiny_experts(), DType::bf16, Purpose::inference);
  test_support::fill_strong(weights, 3);
  const WeightDigests before = weight_digests(weights);
  const Parameter& p = weights.at("layers.1.experts.down");
  p.weight.as<bf16>()[p.weight.size() - 1] = bf16(3.0f);
  const WeightDigests after = weight_digests(weights);
  ASSERT_EQ(after.at("layers.1.experts.down").size(), 6u);
  for (const auto& [name, units] : after) {
    for (size_t e = 0; e < units.size(); ++e)
      EXPECT_EQ(units[e] == before.at(name)[e], name != "layers.1.experts.down" || e != 5)
          << name << " " << e;
  }
}

TEST(Contract, DifferencesNameTheFieldAndSayWhetherBitsMayBeCompared) {
  io::Contract a;
  a.recipe = "bf16";
  const nlohmann::json text = nlohmann::json(io::to_json(a));
  EXPECT_EQ(io::contract_from_json(text, "file"), a);
  for (const auto& [field, value] : text.items()) {
    nlohmann::json other = text;
    if (value.is_string()) {
      other[field] = "another";
    } else if (value.is_number()) {
      other[field] = value.get<double>() + 1;
    } else {
      other[field] = {{"layers.0.o", "fp32"}, {"layers.1.o", "fp32"}};
    }
    const auto d = io::contract_differences(a, io::contract_from_json(other, "file"));
    ASSERT_EQ(d.size(), 1u) << field;
    EXPECT_EQ(d[0].field, field);
    const bool numeric =
        field == "recipe" || field == "recipe_rules" || field == "kv_format" || field == "policy";
    EXPECT_EQ(d[0].comparable, numeric) << field;
    if (field == "recipe_rules") {
      EXPECT_EQ(d[0].a + "; " + d[0].b, "none; layers.0.o fp32 and 1 more");
      continue;  // a capture of another program may leave it out
    }
    nlohmann::json broken = text;
    broken.erase(field);
    expect_error(ErrorCode::corrupt_data, {"FILE", field},
                 [&] { (void)io::contract_from_json(broken, "FILE"); });
  }
}

TEST(Contract, FloatsAreWrittenShort) {
  EXPECT_EQ(as_written(0.7f), 0.7);
  EXPECT_EQ(as_written(1.0f), 1.0);
}

/// A rollout of two responses, 3 and 1 tokens long, to prompts of 2 and 1 tokens.
Rollout two_responses() {
  Rollout r;
  r.sequences = {{{1, 2, 7, 8, 9}, 2}, {{3, 7}, 1}};
  r.offsets = {0, 3, 4};
  r.rewards = {1, 0};
  r.logp_sampler = {-0.5, -0.25, -1, -2};
  r.contract.recipe = "bf16";
  return r;
}

template <class T>
std::string digest(const std::vector<T>& values) {
  return fmt::format("{:016x}", io::digest64(std::as_bytes(std::span(values))));
}

TEST(RolloutRecord, HoldsTheContractAndDigestsOfWhatWasDrawn) {
  const Rollout r = two_responses();
  const auto row = nlohmann::json::parse("{" + rollout_members(r) + "}");
  EXPECT_EQ(io::contract_from_json(row["contract"], "a line"), r.contract);
  EXPECT_EQ(row["contract_digest"],
            fmt::format("{:016x}", io::digest64(std::string_view(io::to_json(r.contract).dump()))));
  EXPECT_EQ(row["responses"], 2);
  EXPECT_EQ(row["tokens"], 4);
  EXPECT_EQ(row["prompts_digest"], digest<int32_t>({1, 2, -1, 3, -1}));
  EXPECT_EQ(row["tokens_digest"], digest<int32_t>({7, 8, 9, -1, 7, -1}));
  EXPECT_EQ(row["logprobs_digest"], digest<float>({-0.5f, -0.25f, -1.0f, -2.0f}));
}

TEST(RolloutRecord, EveryPartMovesItsDigestAlone) {
  const auto members = [](const Rollout& r) { return nlohmann::json::parse("{" + rollout_members(r) + "}"); };
  const auto was = members(two_responses());
  const auto expect_moved = [&](const Rollout& r, const std::string& moved) {
    const auto now = members(r);
    for (const char* field : {"contract_digest", "prompts_digest", "tokens_digest", "logprobs_digest"})
      EXPECT_EQ(now[field] != was[field], field == moved) << field;
  };
  Rollout r = two_responses();
  r.contract.weight_version = 1;
  expect_moved(r, "contract_digest");
  r = two_responses();
  r.sequences[1].tokens[0] = 4;
  expect_moved(r, "prompts_digest");
  r = two_responses();
  r.sequences[0].tokens.pop_back();  // the same tokens, cut elsewhere
  r.sequences[1].tokens = {3, 9, 7};
  expect_moved(r, "tokens_digest");
  r = two_responses();
  r.logp_sampler[3] = std::nextafter(-2.0f, 0.0f);
  expect_moved(r, "logprobs_digest");
}

}  // namespace
}  // namespace minite::rl::test
