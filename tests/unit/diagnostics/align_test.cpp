// Causes and refusals of a comparison, on captures written by hand.
#include "diagnostics/align.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "align_pair.h"
#include "diagnostics/align_page.h"
#include "support/expect_error.h"
#include "support/xml_check.h"

namespace minite::diagnostics {
namespace {

using test_support::expect_error;
using test_support::HandCapture;
using test_support::slurp;
using test_support::spill;

TEST(Align, EqualSidesHaveNoDifferingBit) {
  Pair p;
  const Comparison c = p.compare();
  EXPECT_TRUE(c.same());
  EXPECT_EQ(c.bits, 0);
  EXPECT_FALSE(c.cause);
}

TEST(Align, OrderDispatchAndPaddingDoNotMatter) {
  Pair p;
  // b: rows backwards behind a row of padding, packed rows in another order with one of padding.
  p.b.rows("rows", {{-1, 0, 0, 0}, kRows[2], kRows[1], kRows[0]});
  p.b.values("embed", "output", 2, {9, 9, 5, 6, 3, 4, 1, 2}, -1);
  p.b.codes("qkv", "input.codes", {4, 1}, {0xFF, 0x65, 0x43, 0x21});
  p.b.values("qkv", "input.outer_scale", 1, {9, 0.125f, 0.25f, 0.5f});
  p.b.values("qkv", "output", 2, {9, 9, 3, 0, 0, 2, 1, 0});
  p.b.values("router", "output", 2, {9, 9, 1, 2, 1, 2, 1, 2});
  p.b.experts({0, 0, 1, 1, 0, 2, 2}, {6, 2, 7, 4, -1, 5, 3});
  p.b.values("experts.down", "output", 1, {10, 14, 11, 12, 99, 13, 15});
  p.b.values("combine", "output", 1, {9, 3, 2, 1});
  p.b.rows("scored", {kScored[1], kScored[2], kScored[0]});
  p.b.values("logprob", "output", 1, {-1.5f, -2.5f, -0.5f}, -1);
  const Comparison c = p.compare();
  EXPECT_TRUE(c.same()) << (c.cause ? c.cause->evidence : "");
  EXPECT_EQ(c.rows.pairs.size(), 3u);
  EXPECT_EQ(c.rows.padding, 1);
  EXPECT_EQ(c.expert_padding, 1);
}

TEST(Align, ExecutionIsAnOutputBehindEqualInputs) {
  Pair p;
  p.b.values("qkv", "output", 2, {1, 0, 0, 2.5f, 3, 0});
  p.expect("execution", "layers.0.qkv.output", "input.codes, input.outer_scale, weight.codes");
  const Comparison c = p.compare();
  EXPECT_EQ(c.where.row, "request 0 sample 0 position 1 (token 2)");
  EXPECT_EQ(c.where.column, 1);
  EXPECT_EQ(c.where.a + " " + c.where.b, "2 2.5");
  EXPECT_EQ(c.cause->layer, 0);
  const auto steps = waterfall(c);
  EXPECT_EQ(steps[0].relative_l2, 0.0);
  EXPECT_GT(steps[1].relative_l2, 0.0);
}

TEST(Align, RowsInOtherPlacesAreAPermutation) {
  Pair p;
  p.b.values("combine", "output", 1, {2, 1, 3});
  p.expect("permutation", "layers.0.combine.output", "same rows");
}

TEST(Align, ExpertsInOtherPlacesAreAPermutation) {
  Pair p;
  p.b.m.weights.digests["layers.0.experts.down"] = {"y", "x", "z"};
  p.expect("permutation", "layers.0.experts.down.weight.digest", "experts 0, 1");
}

TEST(Align, OtherWeightsAreWeightsAndStaleWhenTheVersionSaysSo) {
  Pair p;
  p.b.m.weights.digests["embed"] = {"f"};
  p.expect("weights", "embed.weight.digest", "1 of 1 parts of embed");
  EXPECT_EQ(p.compare().cause->evidence.find("Stale"), std::string::npos);
  p.b.m.weights.version = 3;
  p.expect("weights", "embed.weight.digest",
           "Stale: the contract says version 0, in use were 0 at A and 3 at B");
}

TEST(Align, OtherExpertsForEqualLogitsAreRouting) {
  Pair p;
  p.b.experts({0, 1, 1, 0, 0, 2}, {0, 1, 2, 3, 4, 5});
  p.expect("routing", "layers.0.router.experts", "1 of 3 rows");
}

TEST(Align, ScalesOfEqualCodesAreConversion) {
  Pair p;
  p.b.values("qkv", "input.outer_scale", 1, {1.0f, 0.5f, 0.25f});
  p.expect("conversion", "layers.0.qkv.input.outer_scale", "those of B are 2 times those of A");
  Pair experts;
  for (HandCapture* side : {&experts.a, &experts.b}) {
    side->codes("experts.down", "weight.codes", {3, 1, 1}, {1, 2, 3});
    auto about = side->about("layers.0.experts.down.weight.codes");
    about.name = "layers.0.experts.down.weight.outer_scale", about.point = "weight.outer_scale";
    const float middle = side == &experts.a ? 0.5f : 0.25f;
    side->add<float>(about, io::StoredType::f32, {3, 1}, {1.0f, middle, 0.25f});
  }
  experts.expect("conversion", "layers.0.experts.down.weight.outer_scale",
                 "expert 1 of B has the scales of expert 2");
}

TEST(Align, CodesThatDifferInFormatOrInDomain) {
  Pair format;
  format.b.codes("qkv", "input.codes", {3, 1}, {1, 2, 3}, "row", "mxfp4");
  format.expect("format", "layers.0.qkv.input.codes", "mxfp4");
  Pair absent;
  absent.b.remove("layers.0.qkv.input.codes");
  absent.expect("format", "layers.0.qkv.input.codes", "no codes at B");
  Pair domain;
  domain.b.codes("qkv", "input.codes", {3, 1}, {0x21, 0x43, 0x65}, "tensor");
  domain.expect("scale domain", "layers.0.qkv.input.codes", "a row at A and a tensor at B");
  Pair batch;  // one scale over other rows on both sides
  batch.a.codes("qkv", "input.codes", {3, 1}, {0x21, 0x43, 0x65}, "tensor");
  batch.b.codes("qkv", "input.codes", {3, 1}, {0x21, 0x43, 0x66}, "tensor");
  batch.expect("scale domain", "layers.0.qkv.input.codes", "all rows of a pass");
}

TEST(Align, LogProbsAloneAreSemanticOrARounding) {
  Pair slip;
  slip.b.values("logprob", "output", 1, {-0.4f, -0.5f, -2.5f}, -1);
  slip.expect("semantic", "logprob", "one position earlier");
  Pair unknown;
  unknown.b.values("logprob", "output", 1, {-0.5f, -1.25f, -2.5f}, -1);
  unknown.expect("semantic", "logprob", "no slip");
  Pair rounding;
  rounding.b.values("logprob", "output", 1, {-0.5f, -1.5000001f, -2.5f}, -1);
  rounding.expect("execution", "logprob", "another order of sums");
}

TEST(Align, WhatIsKnownOfLogitsMustFitTheTokens) {
  Pair p;
  p.a.list("scored.lse", io::StoredType::f64, std::vector<double>{1.0});
  p.b.values("logprob", "output", 1, {-0.5f, -1.25f, -2.5f}, -1);
  expect_error(ErrorCode::corrupt_data, {"scored.lse", "1 entries", "3 scored tokens"},
               [&] { (void)p.compare(); });
}

TEST(Align, ScoredPaddingIsSemantic) {
  Pair p;
  auto scored = kScored;
  scored.push_back({1, 0, 2, 0});
  p.b.rows("scored", scored).values("logprob", "output", 1, {-0.5f, -1.5f, -2.5f, -9.0f}, -1);
  p.expect("semantic", "scored.rows", "B scores 1 tokens");
}

TEST(Align, ReplayedAgreementIsMarked) {
  Pair p;
  p.b.about("layers.0.combine.output").provenance = Provenance::replay;
  const Comparison c = p.compare();
  for (const PointResult& point : c.points)
    EXPECT_EQ(point.replayed(), point.name == "layers.0.combine.output");
  p.b.values("combine", "output", 1, {1, 2, 4});
  p.b.about("layers.0.combine.output").provenance = Provenance::replay;
  p.expect("execution", "layers.0.combine.output", "replayed, not executed");
}

TEST(Align, ContractsThatMeanOtherThingsAreRefused) {
  Pair p;
  p.b.m.contract.temperature = 0.7;
  expect_error(ErrorCode::invalid_argument, {"contract.temperature", "1.0", "0.7", "/b/manifest.json"},
               [&] { (void)p.compare(); });
  p.b.m.contract = p.a.m.contract;
  p.b.m.contract.kv_format = "fp8";
  const Comparison c = p.compare();
  ASSERT_EQ(c.contract.size(), 1u);
  EXPECT_EQ(c.contract[0].field, "kv_format");
}

TEST(Align, DifferentModelsAndTensorsAreRefused) {
  Pair model;
  model.b.m.model["num_hidden_layers"] = 2;
  expect_error(ErrorCode::invalid_argument, {"different models", "num_hidden_layers", "1", "2"},
               [&] { (void)model.compare(); });
  Pair missing;
  missing.b.remove("layers.0.combine.output");
  expect_error(ErrorCode::invalid_argument, {"/b/manifest.json", "layers.0.combine.output", "missing"},
               [&] { (void)missing.compare(); });
  missing.b.m.selection = {{"logits", true}};  // asked for other things: listed, not refused
  EXPECT_EQ(missing.compare().not_compared, std::vector<std::string>{"layers.0.combine.output"});
  Pair shape;
  shape.b.values("combine", "output", 2, {1, 2, 3, 4, 5, 6});
  expect_error(ErrorCode::invalid_argument, {"layers.0.combine.output", "[3, 1]", "[3, 2]"},
               [&] { (void)shape.compare(); });
  Pair rows;
  for (auto* side : {&rows.b}) side->rows("rows", {{7, 0, 0, 1}, {7, 0, 1, 2}, {8, 0, 0, 1}});
  expect_error(ErrorCode::invalid_argument, {"no row in common", "--tokens"}, [&] { (void)rows.compare(); });
}

/// Every <svg> element of a page.
std::vector<std::string> drawings(const std::string& page) {
  std::vector<std::string> all;
  for (size_t begin = page.find("<svg"); begin != std::string::npos; begin = page.find("<svg", begin + 1))
    all.push_back(page.substr(begin, page.find("</svg>", begin) + 6 - begin));
  return all;
}

TEST(AlignPage, ShowsTheCauseAndEscapesWhatCapturesSay) {
  Pair p;
  p.b.m.injected = "<script>";
  p.b.values("combine", "output", 1, {1, 2, 4});
  const std::string page = render_comparison(p.compare());
  for (const char* text : {"execution", "layers.0.combine.output", "&lt;script&gt;", "Points that differ"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(page.find("<script"), std::string::npos);
  const auto svgs = drawings(page);
  EXPECT_GE(svgs.size(), 2u);
  for (const std::string& svg : svgs) EXPECT_EQ(test_support::XmlCheck::fault(svg), "");
}

TEST(AlignPage, OfEqualSidesNamesNoCause) {
  Pair p;
  const Comparison c = p.compare();
  const std::string page = render_comparison(c), all = std::to_string(c.points.size());
  EXPECT_EQ(page.find("Points that differ"), std::string::npos);
  EXPECT_NE(page.find(all + " of " + all), std::string::npos);
}

TEST(CaptureReader, DamageNamesFileAndTensor) {
  HandCapture c;
  fill(c);
  const auto path = c.write("damaged");
  const std::string manifest = slurp(path / "manifest.json"),
                    file = slurp(path / "tensors-00000.safetensors");
  const auto open = [&] { (void)Capture(path); };
  spill(path / "tensors-00000.safetensors", file.substr(0, file.size() - 8));
  expect_error(ErrorCode::corrupt_data, {"tensors-00000.safetensors", "cut short", "tensor rows.request"},
               open);
  std::filesystem::remove(path / "tensors-00000.safetensors");
  expect_error(ErrorCode::not_found, {"tensors-00000.safetensors", "rows.request"}, open);
  spill(path / "tensors-00000.safetensors", file);
  const auto edited = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    text.replace(text.find(from), from.size(), to);
    spill(path / "manifest.json", text);
  };
  edited("minite-capture/1", "minite-capture/9");
  expect_error(ErrorCode::unsupported, {"manifest.json", "minite-capture/9"}, open);
  edited("\"name\": \"layers.0.combine.output\"", "\"name\": \"layers.0.combine.outputs\"");
  expect_error(ErrorCode::not_found, {"tensors-00000.safetensors", "layers.0.combine.outputs"}, open);
  edited("\"provenance\": \"kernel\"", "\"provenance\": \"guess\"");
  expect_error(ErrorCode::corrupt_data, {"manifest.json", "guess"}, open);
  edited("\"temperature\"", "\"temper\"");
  expect_error(ErrorCode::corrupt_data, {"manifest.json", "temperature"}, open);
  edited("tensors-00000.safetensors", "../elsewhere.safetensors");
  expect_error(ErrorCode::corrupt_data, {"manifest.json", "../elsewhere.safetensors"}, open);
  spill(path / "manifest.json", "{}");
  expect_error(ErrorCode::corrupt_data, {"manifest.json", "no manifest of a capture"}, open);
  expect_error(ErrorCode::not_found, {"is no capture"}, [&] { (void)Capture(path / "nowhere"); });
}

TEST(CaptureReader, ATensorWithoutOneEntryARowIsNamed) {
  HandCapture c;
  fill(c);
  c.values("combine", "output", 1, {1, 2});
  expect_error(ErrorCode::corrupt_data, {"layers.0.combine.output", "2 rows", "3"}, [&] { (void)c.open(); });
  fill(c);
  c.list("rows.token", io::StoredType::i32, std::vector<int32_t>{1});
  expect_error(ErrorCode::corrupt_data, {"rows.token", "1", "3"}, [&] { (void)c.open(); });
}

}  // namespace
}  // namespace minite::diagnostics
