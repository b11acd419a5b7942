// A prompt in pieces of any size, then decode, gives the bits of one pass.
#include "invariance/invariance.h"
#include "support/packed_run.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Chunks : public RecipeTest {
 protected:
  static constexpr int64_t kLength = 150;

  /// Runs tokens [0, length) in pieces: `head` first (0: none), then `piece` at a time.
  static PackedRun::Result run_in_pieces(PackedRun& run, const std::vector<int32_t>& tokens, int64_t length,
                                         int64_t head, int64_t piece) {
    PackedRun::Result all;
    for (int64_t begin = 0; begin < length;) {
      const int64_t end = std::min(length, begin + (begin == 0 && head > 0 ? head : piece));
      PackedRows rows;
      rows.add(tokens, 0, begin, end);
      const PackedRun::Result part = run.run(rows.rows(), rows.target);
      all.hidden.insert(all.hidden.end(), part.hidden.begin(), part.hidden.end());
      all.logp.insert(all.logp.end(), part.logp.begin(), part.logp.end());
      all.entropy.insert(all.entropy.end(), part.entropy.begin(), part.entropy.end());
      begin = end;
    }
    return all;
  }
};
MINITE_RECIPES(Chunks, Which::row_local);

TEST_P(Chunks, AnyPrefillSizeGivesTheBitsOfOnePass) {
  struct Case {
    ModelConfig config;
    KvFormat kv;
  };
  for (const auto& [config, kv] :
       {Case{tiny_config(32), KvFormat::bf16}, Case{tiny_config(24), KvFormat::bf16},
        Case{tiny_experts(24), KvFormat::bf16}, Case{tiny_config(24), KvFormat::fp8},
        Case{tiny_experts(32), KvFormat::fp8}}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 21);
    weights.set_kv_scales(uneven_kv_scales(config));
    const auto tokens = random_tokens(kLength + 1, config.vocab_size, 1, 0);
    std::vector<std::byte> cache;
    PackedRun::Result expected;
    for (const OpTable* table : cpu_tables()) {
      const bool slow = table == &ref::table();
      const int64_t length = slow ? 70 : kLength;  // ref covers one block boundary
      Sides sides(weights, {.recipe = GetParam(), .table = table, .threads = 2, .kv = kv});
      PackedRun one(sides.network, *table, sides.pool, 1, kLength);
      const PackedRun::Result whole = run_in_pieces(one, tokens, length, 0, length);
      for (const int64_t piece : {1, 2, 7, 63, 64, 65}) {
        if (slow && piece != 7 && piece != 65) continue;
        PackedRun run(sides.network, *table, sides.pool, 1, kLength);
        ASSERT_TRUE(run_in_pieces(run, tokens, length, 0, piece) == whole)
            << table->name << " pieces of " << piece;
        ASSERT_EQ(run.cache_bytes(), one.cache_bytes()) << table->name << " pieces of " << piece;
      }
      if (slow) continue;
      if (expected.logp.empty()) expected = whole, cache = one.cache_bytes();
      EXPECT_TRUE(whole == expected) << table->name;
      EXPECT_EQ(one.cache_bytes(), cache) << table->name;
    }
  }
}

TEST_P(Chunks, PrefillThenDecodeGivesTheBitsOfOnePass) {
  for (const ModelConfig& config : {tiny_config(24, true), tiny_experts()}) {
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 22);
    const auto tokens = random_tokens(kLength + 1, config.vocab_size, 2, 0);
    for (const OpTable* table : cpu_tables()) {
      const int64_t length = table == &ref::table() ? 70 : kLength;
      Sides sides(weights, {.recipe = GetParam(), .table = table});
      PackedRun one(sides.network, *table, sides.pool, 1, kLength);
      const PackedRun::Result whole = run_in_pieces(one, tokens, length, 0, length);
      for (const int64_t head : {1, 62, 100}) {
        PackedRun run(sides.network, *table, sides.pool, 1, kLength);
        ASSERT_TRUE(run_in_pieces(run, tokens, length, std::min(head, length - 3), 1) == whole)
            << table->name << " " << head << " then decode";
      }
    }
  }
}

/// Positions of three sequences pass by pass, as a sampler decodes, against the learner's packed pass.
void teacher_force(const std::string& recipe, const ModelConfig& config, KvFormat kv) {
  constexpr int64_t kLength = 150;
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 23);
  Sides sides(weights, {.recipe = recipe, .threads = 2, .kv = kv});
  std::vector<Sequence> sequences;
  PackedRun run(sides.network, fast_table(), sides.pool, 3, kLength);
  for (uint64_t s = 0; s < 3; ++s) {
    sequences.push_back({random_tokens(40 + 45 * static_cast<int64_t>(s), config.vocab_size, 4, s), 1});
  }
  const Scores learned = score(sides.learner, sequences);
  // All sequences together, one position a pass, until the shorter ones end.
  std::vector<std::vector<float>> stepped(3);
  for (int64_t p = 0; p + 1 < static_cast<int64_t>(sequences[2].tokens.size()); ++p) {
    PackedRows rows;
    std::vector<size_t> who;
    for (size_t s = 0; s < 3; ++s) {
      if (p + 1 >= static_cast<int64_t>(sequences[s].tokens.size())) continue;
      rows.add(sequences[s].tokens, static_cast<int32_t>(s), p, p + 1);
      who.push_back(s);
    }
    const auto result = run.run(rows.rows(), rows.target);
    for (size_t i = 0; i < who.size(); ++i) stepped[who[i]].push_back(result.logp[i]);
  }
  std::vector<float> flat;
  for (const auto& s : stepped) flat.insert(flat.end(), s.begin(), s.end());
  EXPECT_TRUE(same_bits(flat, learned.logp));
}

TEST_P(Chunks, TeacherForcingBySamplerStepsEqualsTheLearner) {
  for (const ModelConfig& config : {tiny_config(), tiny_experts(24)}) {
    for (const KvFormat kv : kKvFormats) teacher_force(GetParam(), config, kv);
  }
}

}  // namespace
}  // namespace minite::invariance
