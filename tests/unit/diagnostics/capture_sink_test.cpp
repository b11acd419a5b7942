// The files of a capture depend on what the rows are, not on the batches they came in.
#include "diagnostics/capture_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "diagnostics/capture_reader.h"
#include "support/expect_error.h"
#include "support/tiny_run.h"

namespace minite::diagnostics {
namespace {

using test_support::bytes_below;
using test_support::expect_error;
using test_support::TempFolder;

/// A row of a pass: sequence and position say everything.
struct Row {
  int64_t sequence;
  int32_t position;
  [[nodiscard]] int32_t token() const { return static_cast<int32_t>(10 * sequence + position); }
  [[nodiscard]] float value(int64_t column) const {
    return static_cast<float>(100 * sequence + 10 * position + column);
  }
};

/// Two sequences of 5 tokens with prompts of 2: rows at positions 0 to 3, scored from 1 on.
constexpr int64_t kPrompt = 2, kLength = 5, kExperts = 3;

/// What a model shows of one batch: qkv in a row-scaled format, one layer of experts, logits.
void pass(CaptureSink& sink, const std::vector<Row>& rows) {
  std::vector<int32_t> token, pos, scored, expert, slot_of;
  std::vector<int64_t> request;
  std::vector<float> x, outer, packed, logits;
  std::vector<uint8_t> codes;
  for (const Row& r : rows) {
    token.push_back(r.token());
    pos.push_back(r.position);
    request.push_back(r.sequence);
    for (int64_t c = 0; c < 3; ++c) x.push_back(r.value(c));
    outer.push_back(r.value(7));
    for (int k = 0; k < 4; ++k) codes.push_back(static_cast<uint8_t>(r.token() + k));
    expert.push_back((r.token() + 1) % kExperts);
    expert.push_back(r.token() % kExperts);
    if (r.position + 1 >= kPrompt) scored.push_back(static_cast<int32_t>(token.size()) - 1);
  }
  slot_of.resize(expert.size());
  std::iota(slot_of.begin(), slot_of.end(), 0);
  std::ranges::stable_sort(slot_of, {}, [&](int32_t slot) { return expert[static_cast<size_t>(slot)]; });
  for (const int32_t slot : slot_of) packed.push_back(rows[static_cast<size_t>(slot / 2)].value(slot % 2));
  sink.batch({token, pos, request});
  const auto t = static_cast<int64_t>(rows.size());
  sink.value({0, "qkv", Point::output}, {x.data(), t, 3});
  std::vector<uint8_t> block(static_cast<size_t>(t), 0x38);
  QTensor q;
  q.spec = {.format = FormatId::nvfp4, .outer = OuterScale::row};
  q.rows = t, q.cols = 8, q.codes = codes.data(), q.block_scales = block.data(), q.outer = outer.data();
  sink.codes({0, "qkv", Point::input}, q);
  sink.experts(0, {expert, slot_of, 2});
  sink.value({0, "experts.down", Point::output}, {packed.data(), 2 * t, 1});
  sink.scored(scored);
  for (const int32_t row : scored) {
    for (int64_t v = 0; v < 4; ++v) logits.push_back(0.01f * rows[static_cast<size_t>(row)].value(v));
  }
  const auto n = static_cast<int64_t>(scored.size());
  for (int64_t begin = 0; begin < n; ++begin)  // a row at a time, as a large vocabulary comes in pieces
    sink.value({-1, "lm_head", Point::output}, {logits.data() + begin * 4, 1, 4});
}

/// Tells the sink what the sequences were.
void tell(CaptureSink& sink) {
  for (int64_t s = 0; s < 2; ++s) {
    std::vector<int32_t> tokens;
    std::vector<float> logp, entropy;
    for (int32_t p = 0; p < kLength; ++p) tokens.push_back(Row{s, p}.token());
    for (int32_t p = kPrompt; p < kLength; ++p) {
      logp.push_back(-Row{s, p}.value(1));
      entropy.push_back(Row{s, p}.value(2));
    }
    sink.sequence(s, {tokens, kPrompt, logp, entropy});
  }
}

/// The capture of `batches` in `folder`.
Capture capture(const std::filesystem::path& folder, const std::vector<std::vector<Row>>& batches,
                CaptureSelection selection = {}, int64_t shard_bytes = 1 << 20) {
  std::filesystem::create_directories(folder);
  CaptureSink sink(folder, std::move(selection), {0.5, 2, 1.0}, 2);
  for (const auto& rows : batches) pass(sink, rows);
  tell(sink);
  CaptureManifest m;
  m.role = "sampler";
  m.model = {{"num_experts_per_tok", 2}, {"num_experts", kExperts}};
  m.tensors = sink.finish(shard_bytes);
  write_capture_manifest(folder, m);
  return Capture(folder);
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (int64_t s = 0; s < 2; ++s) {
    for (int32_t p = 0; p < kLength - 1; ++p) rows.push_back({s, p});
  }
  return rows;
}

TEST(CaptureSink, FilesDoNotDependOnBatches) {
  const TempFolder folder;
  const Capture whole = capture(folder / "whole", {all_rows()});
  std::vector<std::vector<Row>> steps;
  for (const Row& r : all_rows()) steps.insert(steps.begin(), {r});
  (void)capture(folder / "steps", steps);
  (void)capture(folder / "mixed", {{{1, 0}, {0, 0}, {1, 1}, {0, 1}}, {{0, 2}, {1, 2}}, {{1, 3}, {0, 3}}});
  EXPECT_EQ(bytes_below(folder / "steps"), bytes_below(folder / "whole"));
  EXPECT_EQ(bytes_below(folder / "mixed"), bytes_below(folder / "whole"));
  ASSERT_EQ(whole.rows().size(), 8u);
  EXPECT_EQ(whole.rows()[5], (RowId{0, 1, 1, 11}));  // sequence 1 is sample 1 of request 0
  EXPECT_EQ(whole.scored()[3], (RowId{0, 1, 2, 12}));
  const auto down = whole.values<float>("layers.0.experts.down.output", io::StoredType::f32);
  const auto slot = whole.slots(0), expert = whole.experts(0);
  for (size_t i = 0; i < down.size(); ++i) {
    const Row row = all_rows()[static_cast<size_t>(slot[i] / 2)];
    EXPECT_EQ(down[i], row.value(slot[i] % 2));
    EXPECT_EQ(expert[i], (row.token() + 1 - slot[i] % 2) % kExperts);
  }
  const auto logp = whole.values<float>("logprob", io::StoredType::f32);
  EXPECT_EQ(logp[3], -(Row{1, 2}.value(1)));
  EXPECT_EQ(whole.find("scored.lse")->provenance, Provenance::replay);
  EXPECT_EQ(whole.find("layers.0.qkv.input.codes")->scale_domain, "row");
  EXPECT_EQ(whole.find("lm_head.output"), nullptr);  // its digest only
}

TEST(CaptureSink, ManySmallFilesHoldTheSameTensors) {
  const TempFolder folder;
  const Capture one = capture(folder / "one", {all_rows()}),
                many = capture(folder / "many", {all_rows()}, {}, 64);
  EXPECT_GT(bytes_below(folder / "many").size(), bytes_below(folder / "one").size() + 5);
  for (const CapturedTensor& t : one.manifest().tensors) {
    const auto a = one.tensor(t.name).bytes, b = many.tensor(t.name).bytes;
    EXPECT_TRUE(std::ranges::equal(a, b)) << t.name;
  }
}

TEST(CaptureSink, StoresWhatIsAskedFor) {
  const TempFolder folder;
  CaptureSelection selection;
  selection.wanted = [](int, std::string_view, std::string_view point) { return point == "output"; };
  selection.max_tokens = 2;
  selection.logits = true;
  const Capture c = capture(folder / "some", {all_rows()}, selection);
  EXPECT_EQ(c.rows().size(), 4u);
  EXPECT_EQ(c.scored().size(), 2u);
  EXPECT_EQ(c.find("layers.0.qkv.input.codes"), nullptr);
  EXPECT_EQ(c.tensor("layers.0.experts.down.output").shape, (std::vector<int64_t>{8, 1}));
  const auto logits = c.values<float>("lm_head.output", io::StoredType::f32);
  EXPECT_EQ(logits, (std::vector<float>{0.01f * 10, 0.01f * 11, 0.01f * 12, 0.01f * 13, 0.01f * 110,
                                        0.01f * 111, 0.01f * 112, 0.01f * 113}));
  EXPECT_EQ(c.sequences()[1].tokens.size(), 5u);  // tokens are always whole
}

TEST(CaptureSink, ARowThatComesTwiceIsAnError) {
  const TempFolder folder;
  expect_error(ErrorCode::internal, {"sequence 0", "position 1", "twice"}, [&] {
    (void)capture(folder / "twice", {all_rows(), {{0, 1}}});
  });
}

}  // namespace
}  // namespace minite::diagnostics
