#include "diagnostics/align_where.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace minite::diagnostics {
namespace {

std::string row_text(const Aligned& s, const CapturedTensor& t, size_t at) {
  const auto i = static_cast<size_t>(pairs_of(s, t)[at].first);
  switch (row_table(t.module, t.point)) {
    case RowTable::scored:
      return to_string(s.a.scored()[i]);
    case RowTable::experts: {
      const int64_t k = std::max<int64_t>(s.a.manifest().model_number("num_experts_per_tok", 1), 1);
      const auto row = static_cast<size_t>(s.a.slots(t.layer)[i] / k);
      return fmt::format("{} at expert {}", to_string(s.a.rows()[row]), s.a.experts(t.layer)[i]);
    }
    default:
      return to_string(s.a.rows()[i]);
  }
}

/// The scales of a code: "block scale 0x38, outer scale 0.001".
std::string scales_of(const Capture& side, const CapturedTensor& codes, int64_t row, int64_t column) {
  const std::string stem = codes.name.substr(0, codes.name.size() - std::string_view("codes").size());
  std::vector<std::string> parts;
  const Format* format = known_format(codes.format);
  if (side.find(stem + "block_scales") != nullptr && format != nullptr && format->block > 0) {
    const io::TensorInfo& scales = side.tensor(stem + "block_scales");
    const auto at = static_cast<size_t>(row * row_elements(scales) + column / format->block);
    if (at < scales.bytes.size())
      parts.push_back(fmt::format("block scale 0x{:02x}", static_cast<uint8_t>(scales.bytes[at])));
  }
  if (side.find(stem + "outer_scale") != nullptr) {
    const auto outer = side.values<float>(stem + "outer_scale", io::StoredType::f32);
    if (static_cast<size_t>(row) < outer.size())
      parts.push_back(fmt::format("outer scale {}", outer[static_cast<size_t>(row)]));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Of a point that is told of both sides or has no table: a weight, digests, experts, scored tokens.
std::string unit_text(const Aligned& s, const PointResult& p) {
  if (p.diff.row < 0) return "";
  if (p.point == "weight.digest")
    return p.diff.rows > 1 ? fmt::format("expert {}", p.diff.row) : "the whole parameter";
  if (p.point == "experts") {
    const auto row = s.comparison.rows.pairs[static_cast<size_t>(p.diff.row)].first;
    return to_string(s.a.rows()[static_cast<size_t>(row)]);
  }
  const auto row = weight_pairs(s, p.name)[static_cast<size_t>(p.diff.row)].first;
  const CapturedTensor& about = *s.a.find(p.name);
  if (!p.module.starts_with("experts.")) return fmt::format("row {} of the weight", row);
  const std::vector<int32_t> experts = s.a.stacked_experts(p.name);
  const int64_t each = flat(about, s.a.tensor(p.name)).shape.front() / static_cast<int64_t>(experts.size());
  return fmt::format("row {} of expert {}", row % each, experts[static_cast<size_t>(row / each)]);
}

}  // namespace

const RowPairs& pairs_of(const Aligned& s, const CapturedTensor& t) {
  switch (row_table(t.module, t.point)) {
    case RowTable::scored:
      return s.comparison.scored.pairs;
    case RowTable::experts:
      return s.comparison.experts.at(t.layer).pairs;
    default:
      return s.comparison.rows.pairs;
  }
}

io::TensorInfo flat(const CapturedTensor& about, io::TensorInfo tensor) {
  if (!about.point.starts_with("weight")) return tensor;
  const int64_t cols = about.point.ends_with("outer_scale") || tensor.shape.empty() ? 1 : tensor.shape.back();
  tensor.shape = {tensor.count() / std::max<int64_t>(cols, 1), cols};
  return tensor;
}

bool other_experts(const Aligned& s, const std::string& name) {
  const CapturedTensor &x = *s.a.find(name), &y = *s.b.find(name);
  const bool said = !x.experts.empty() || !y.experts.empty();
  return said && s.a.stacked_experts(name) != s.b.stacked_experts(name);
}

RowPairs weight_pairs(const Aligned& s, const std::string& name) {
  const CapturedTensor& about = *s.a.find(name);
  const int64_t rows = flat(about, s.a.tensor(name)).shape.front();
  if (!other_experts(s, name)) return same_rows(rows);
  const std::vector<int32_t> x = s.a.stacked_experts(name), y = s.b.stacked_experts(name);
  const int64_t each = rows / std::max<int64_t>(static_cast<int64_t>(x.size()), 1);
  RowPairs pairs;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = std::ranges::lower_bound(y, x[i]);
    if (at == y.end() || *at != x[i]) continue;
    for (int64_t r = 0; r < each; ++r)
      pairs.emplace_back(static_cast<int64_t>(i) * each + r, (at - y.begin()) * each + r);
  }
  return pairs;
}

const Format* known_format(const std::string& name) {
  const auto all = formats();
  const auto at = std::ranges::find(all, name, &Format::name);
  return at == all.end() ? nullptr : &*at;
}

Divergence locate(const Aligned& s) {
  const PointResult& p = s.comparison.points[*s.comparison.first];
  Divergence w;
  w.column = p.diff.column, w.a = p.diff.a, w.b = p.diff.b;
  if (p.status == PointStatus::format) {
    w.a = p.spec_a.empty() ? "no codes" : p.spec_a;
    w.b = p.spec_b.empty() ? "no codes" : p.spec_b;
    return w;
  }
  const CapturedTensor* x = s.a.find(p.name);
  if (x == nullptr || row_table(x->module, x->point) == RowTable::none) {
    w.row = unit_text(s, p);
    return w;
  }
  const auto at = static_cast<size_t>(p.diff.row);
  w.row = row_text(s, *x, at);
  if (!p.point.ends_with("codes")) return w;
  w.scale_a = scales_of(s.a, *x, pairs_of(s, *x)[at].first, p.diff.column);
  w.scale_b = scales_of(s.b, *x, pairs_of(s, *x)[at].second, p.diff.column);
  return w;
}

}  // namespace minite::diagnostics
