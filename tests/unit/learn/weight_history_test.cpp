// Earlier versions of the weights: what is kept, stored and given back.
#include "learn/weight_history.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace minite::learn {
namespace {
using namespace test_support;

Weights filled(uint64_t seed, const ModelConfig& config = tiny_experts()) {
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, seed);
  return weights;
}

void expect_equal(const Weights& a, const Weights& b) {
  for (const Parameter& p : a.parameters()) {
    EXPECT_EQ(bytes_of(p.master), bytes_of(b.at(p.spec.name).master)) << p.spec.name;
    EXPECT_EQ(bytes_of(p.weight), bytes_of(b.at(p.spec.name).weight)) << p.spec.name;
  }
}

/// Versions 0..n-1, version v filled with seed v.
WeightHistory history_of(int64_t depth, int64_t n) {
  WeightHistory history(depth);
  for (int64_t v = 0; v < n; ++v) history.keep(v, filled(static_cast<uint64_t>(v)));
  return history;
}

TEST(WeightHistory, KeepsTheLastVersionsBitForBit) {
  const WeightHistory history = history_of(2, 5);
  EXPECT_EQ(history.versions(), (std::vector<int64_t>{2, 3, 4}));
  Weights to(tiny_experts(), DType::bf16, Purpose::inference);
  for (const int64_t version : {3, 2, 4}) {
    const int64_t before = to.version();
    history.restore(version, to);
    EXPECT_GT(to.version(), before) << "codes of the old weights must be made again";
    expect_equal(to, filled(static_cast<uint64_t>(version)));
  }
  EXPECT_TRUE(history_of(0, 3).versions().empty());
}

TEST(WeightHistory, ComesBackFromAFolder) {
  const TempFolder folder;
  const WeightHistory history = history_of(2, 5);
  const Weights shape = filled(9);
  history.save(folder.path(), shape, 5);  // the next step samples with version 3
  WeightHistory loaded(2);
  loaded.load(folder.path(), shape, 5);
  EXPECT_EQ(loaded.versions(), (std::vector<int64_t>{3, 4}));
  Weights to(tiny_experts(), DType::bf16, Purpose::inference);
  loaded.restore(3, to);
  expect_equal(to, filled(3));
}

TEST(WeightHistory, NothingIsStoredWhereNothingIsNeeded) {
  const TempFolder folder;
  const Weights shape = filled(9);
  history_of(0, 3).save(folder.path(), shape, 3);
  history_of(2, 1).save(folder.path(), shape, 0);  // before the first step: the current weights are enough
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  WeightHistory loaded(2);
  EXPECT_NO_THROW(loaded.load(folder.path(), shape, 0));
}

TEST(WeightHistory, FaultsAreNamed) {
  const TempFolder folder;
  const Weights shape = filled(9);
  WeightHistory loaded(2);
  expect_error(ErrorCode::not_found, {"rollout_weights.safetensors"},
               [&] { loaded.load(folder.path(), shape, 4); });
  history_of(1, 4).save(folder.path(), shape, 4);
  expect_error(ErrorCode::not_found, {"version_000002."}, [&] { loaded.load(folder.path(), shape, 4); });
  WeightHistory one(1);
  const Weights other = filled(9, tiny_experts(24));
  expect_error(ErrorCode::invalid_argument, {"version_000003.", "the model needs F32"},
               [&] { one.load(folder.path(), other, 4); });
  Weights to(tiny_config(), DType::bf16, Purpose::inference);
  expect_error(ErrorCode::internal, {"version 7", "[3]"},
               [&] { one.load(folder.path(), shape, 4), one.restore(7, to); });
  expect_error(ErrorCode::invalid_argument, {"version 3", "elements"}, [&] { one.restore(3, to); });
}

}  // namespace
}  // namespace minite::learn
