// Experts on several ranks, dropped pairs and padding: all of it at once, and what contradicts itself.
#include <numeric>

#include "align_pair.h"
#include "support/expect_error.h"

namespace minite::diagnostics {
namespace {

using test_support::expect_error;
using Placement = std::vector<std::vector<int32_t>>;

/// fill() with weights of three experts and the outer scales of their inputs.
void fill_experts(HandCapture& c) {
  fill(c);
  c.codes("experts.down", "weight.codes", {3, 2, 1}, {1, 2, 3, 4, 5, 6});
  c.codes("experts.down", "input.codes", {6, 1}, {0x10, 0x11, 0x12, 0x13, 0x14, 0x15});
}

struct Ranks : Pair {
  Ranks() {
    fill_experts(a);
    fill_experts(b);
  }
};

const std::string kCodes = "layers.0.experts.down.weight.codes", kDown = "layers.0.experts.down.output";

const PointResult& point(const Comparison& c, const std::string& name) {
  const auto at = std::ranges::find(c.points, name, &PointResult::name);
  if (at == c.points.end()) throw std::out_of_range(name);
  return *at;
}

TEST(AlignRanks, AnyPlacementMeetsOneRank) {
  for (const Placement& placement :
       {Placement{{0, 1}, {2}}, Placement{{2, 0}, {1}}, Placement{{1}, {0}, {2}}, Placement{{2, 1, 0}},
        Placement{{0, 1}, {1, 2}}, Placement{{0, 1, 2}, {2, 1, 0}}}) {
    Ranks p;
    p.b.shard(placement);
    const Comparison c = p.compare();
    EXPECT_TRUE(c.same()) << (c.cause ? c.cause->evidence : "");
    EXPECT_EQ(c.ranks_a, 1);
    EXPECT_EQ(c.ranks_b, static_cast<int64_t>(placement.size()));
    EXPECT_EQ(point(c, kDown).diff.rows, 6);
    EXPECT_EQ(point(c, kCodes).diff.rows, 6);
    EXPECT_TRUE(c.not_compared.empty());
  }
}

TEST(AlignRanks, TwoPlacementsMeet) {
  Ranks p;
  p.a.shard({{1}, {0, 2}});
  p.b.shard({{2}, {1}, {0}});
  EXPECT_TRUE(p.compare().same());
}

TEST(AlignRanks, ADifferenceNamesRowAndExpertWhateverTheRank) {
  Ranks p;
  p.b.values("experts.down", "output", 1, {10, 11, 12, 13, 14, 99});
  p.b.shard({{1, 0}, {2}});
  Comparison c = p.compare();
  ASSERT_TRUE(c.first);
  EXPECT_EQ(c.points[*c.first].name, kDown);
  EXPECT_EQ(c.where.row, "request 1 sample 0 position 0 (token 1) at expert 2");
  EXPECT_EQ(c.where.b, "99");
  EXPECT_EQ(c.points[*c.first].diff.differing, 1);

  Ranks weights;
  weights.b.codes("experts.down", "weight.codes", {3, 2, 1}, {1, 2, 3, 7, 5, 6});
  weights.b.shard({{2}, {1, 0}});
  c = weights.compare();
  ASSERT_TRUE(c.first);
  EXPECT_EQ(c.points[*c.first].name, kCodes);
  EXPECT_EQ(c.where.row, "row 1 of expert 1");
  EXPECT_EQ(c.cause->cause, "conversion");
}

TEST(AlignRanks, AMissingRankIsCountedAndTheRestCompared) {
  Ranks p;
  p.b.shard({{0, 1}, {2}});
  for (const char* name : {"rows.0.expert", "rows.0.slot", "layers.0.experts.down.output",
                           "layers.0.experts.down.input.codes", "layers.0.experts.down.weight.codes"})
    p.b.remove(name, 1);
  Comparison c = p.compare();
  EXPECT_TRUE(c.same()) << (c.cause ? c.cause->evidence : "");
  const ExpertMatch& m = c.experts.at(0);
  EXPECT_EQ(m.absent_b, 2);  // rows 1 and 2 went to expert 2 too
  EXPECT_EQ(m.absent_a + m.dropped_a + m.dropped_b + m.other + m.order, 0);
  EXPECT_EQ(m.rows, 3);
  EXPECT_EQ(point(c, kDown).diff.rows, 4);
  EXPECT_EQ(point(c, kCodes).diff.rows, 4) << "two rows of each of two experts";

  p.b.bytes(kCodes)[3] = 9;  // expert 1, row 1, of both that are left
  c = p.compare();
  ASSERT_TRUE(c.first);
  EXPECT_EQ(c.where.row, "row 1 of expert 1");

  // Sides that hold no expert in common compare nothing of them, and say so.
  Ranks apart;
  apart.a.shard({{0, 1}, {2}});
  apart.b.shard({{2}, {0, 1}});
  for (HandCapture* side : {&apart.a, &apart.b}) {
    for (const char* name : {"rows.0.expert", "rows.0.slot", "layers.0.experts.down.output",
                             "layers.0.experts.down.input.codes", "layers.0.experts.down.weight.codes"})
      side->remove(name, 1);
  }
  c = apart.compare();
  EXPECT_EQ(c.not_compared, (std::vector<std::string>{"layers.0.experts.down.input.codes", kDown, kCodes}));
}

TEST(AlignRanks, WhatContradictsItselfIsNamed) {
  const auto fails = [](ErrorCode code, const std::vector<std::string>& parts, const auto& spoil) {
    Ranks p;
    p.b.shard({{0, 1}, {1, 2}});  // expert 1 is on both
    spoil(p.b);
    expect_error(code, parts, [&] { (void)p.compare(); });
  };
  // Overlaps that disagree: a weight, a row, and where a choice went.
  fails(ErrorCode::corrupt_data, {"tensors-00001.safetensors", kCodes, "expert 1", "rank 0"},
        [](HandCapture& c) { c.bytes(kCodes, 1)[0] = 9; });
  fails(ErrorCode::corrupt_data, {"tensors-00001.safetensors", kDown, "row", "rank 0"},
        [](HandCapture& c) { c.bytes(kDown, 1)[9] ^= 1; });
  fails(ErrorCode::corrupt_data,
        {"tensors-00001.safetensors", "rows.0.expert", "choice 0 of row 1", "1 and 2"}, [](HandCapture& c) {
          std::string& experts = c.bytes("rows.0.expert", 1);
          for (size_t i = 0; i < experts.size(); i += 4) experts[i] = 2;
        });
  // Gaps: a tensor that a rank lacks, a table without the other, an expert without weights.
  fails(ErrorCode::not_found, {"/b/manifest.json", kDown, "rank 1"},
        [](HandCapture& c) { c.remove(kDown, 1); });
  fails(ErrorCode::not_found, {"/b/manifest.json", "rank 1", "rows.0.expert", "table of slots"},
        [](HandCapture& c) { c.remove("rows.0.slot", 1); });
  fails(ErrorCode::not_found, {"/b/manifest.json", kCodes, "lacks expert 2"},
        [](HandCapture& c) { c.remove(kCodes, 1); });
  // A manifest that says something else than the files.
  fails(ErrorCode::corrupt_data, {"rows.0.expert", "rank 1", "expert 2", "does not list"},
        [](HandCapture& c) { c.about("rows.0.expert", 1).experts = {1}; });
  fails(ErrorCode::corrupt_data, {kCodes, "rank 1", "stacks 2", "lists 3"}, [](HandCapture& c) {
    c.about(kCodes, 1).experts = {0, 1, 2};
  });
  fails(ErrorCode::corrupt_data, {kDown, "rank 1", "another type"},
        [](HandCapture& c) { c.about(kDown, 1).format = "bf16"; });
}

TEST(AlignRanks, OnlyExpertsMayBeSpread) {
  Ranks p;
  auto qkv = p.b.about("layers.0.qkv.output");
  qkv.rank = 1;
  p.b.add<float>(qkv, io::StoredType::f32, {3, 2}, {1, 0, 0, 2, 3, 0});
  expect_error(ErrorCode::unsupported, {"/b/manifest.json", "layers.0.qkv.output", "ranks 0 and 1"},
               [&] { (void)p.compare(); });
}

TEST(CaptureReader, TablesOfExpertsAreChecked) {
  const auto fails = [](const std::vector<int32_t>& expert, const std::vector<int32_t>& slot,
                        const std::vector<std::string>& parts) {
    HandCapture c;
    fill(c);
    c.experts(expert, slot);
    expect_error(ErrorCode::corrupt_data, parts, [&] { (void)c.open(); });
  };
  fails({0, 1, 1, 2, 0, 2}, {0, 1, 2, 3, 4, 6}, {"rows.0.expert", "slot 6", "3 rows"});
  fails({0, 1, 1, 2, 0, -2}, {0, 1, 2, 3, 4, 5}, {"rows.0.expert", "expert -2"});
  fails({0, 1, 1, 2, 0, 2}, {0, 1, 2, 3, 4, 4}, {"choice 0 of row 2", "twice"});
  fails({0, 0, 1, 2, 0, 2}, {0, 1, 2, 3, 4, 5}, {"row 0", "expert 0 twice"});
  fails({0, 1, 1, 2, 0}, {0, 1, 2, 3, 4, 5}, {"rows.0.slot", "6", "5"});
}

// Row 2 lost one of its two experts at B and row 1 both; B's rows are packed in another order, with padding.
TEST(AlignDrops, PairsAreCountedThroughPermutedDispatchAndPadding) {
  Pair p;
  p.b.experts({1, 0, 0, 9}, {1, 4, 0, -1});
  p.b.values("experts.down", "output", 1, {11, 14, 10, 99});
  p.expect(
      "routing", "layers.0.router.experts",
      "B dropped 3 (row, expert) pairs in layer 0, where 2 of 3 rows have fewer experts on one side and 1 "
      "have none at B, while the router's outputs are equal");
  const Comparison c = p.compare();
  const ExpertMatch& m = c.experts.at(0);
  EXPECT_EQ(m.dropped_b, 3);
  EXPECT_EQ(m.dropped_a, 0);
  EXPECT_EQ(m.whole_b, 1);
  EXPECT_EQ(m.fewer, 2);
  EXPECT_EQ(m.other, 0);
  EXPECT_EQ(m.padding, 1);
  EXPECT_EQ(c.expert_padding, 1);
  EXPECT_EQ(point(c, kDown).diff.rows, 3);
  EXPECT_EQ(point(c, kDown).status, PointStatus::equal);
  EXPECT_EQ(c.where.row, "request 0 sample 0 position 1 (token 2)");
}

TEST(AlignDrops, DroppedAtEitherSideAndGoneElsewhereAreThreeThings) {
  const RowPairs rows = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  // Row 0: A dropped one. Row 1: elsewhere. Row 2: one elsewhere, the other dropped by B. Row 3: the same.
  const PackedRows a{{0, 0, 1, 0, 1, 2, 3}, {0, 2, 3, 4, 5, 6, 7}, 2},
      b{{0, 1, 0, 2, 3, 3, 2}, {0, 1, 2, 3, 4, 6, 7}, 2};
  const ExpertMatch m = match_experts(a, b, rows);
  EXPECT_EQ(m.rows, 4);
  EXPECT_EQ(m.fewer, 1);
  EXPECT_EQ(m.other, 2);
  EXPECT_EQ(m.order, 1);
  EXPECT_EQ(m.dropped_a, 1);
  EXPECT_EQ(m.dropped_b, 1);
  EXPECT_EQ(m.whole_a + m.whole_b, 0);
  EXPECT_EQ(m.first, 0);
  EXPECT_EQ(m.pairs.size(), 4u);
}

TEST(AlignDrops, ExpertsThatASideDoesNotHoldAreNoDrops) {
  const RowPairs rows = {{0, 0}, {1, 1}};
  const PackedRows a{{0, 3, 1, 2}, {0, 1, 2, 3}, 2}, b{{0, 1}, {0, 2}, 2, std::vector<int32_t>{0, 1}};
  const ExpertMatch m = match_experts(a, b, rows);
  EXPECT_EQ(m.absent_b, 2);
  EXPECT_EQ(m.absent_a, 0);
  EXPECT_EQ(m.differing() + m.order + m.dropped_a + m.dropped_b, 0);
  EXPECT_EQ(m.pairs, (RowPairs{{0, 0}, {2, 1}}));
}

TEST(AlignDrops, ReplayedRowsOfThePositionBeforeAreSeen) {
  const std::vector<RowId> rows = {{0, 0, 0, 1}, {0, 0, 1, 2}, {0, 0, 2, 3}};
  for (const bool swapped : {false, true}) {
    Pair p;
    for (HandCapture* side : {&p.a, &p.b}) {
      side->rows("rows", rows);
      side->m.contract.replay = "R3";
    }
    (swapped ? p.a : p.b).experts({0, 1, 0, 1, 1, 2}, {0, 1, 2, 3, 4, 5});
    p.expect("routing", "layers.0.router.experts", "Replay: R3. All 2 rows of");
    EXPECT_NE(p.compare().cause->evidence.find(swapped ? "rows of A that" : "rows of B that"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace minite::diagnostics
