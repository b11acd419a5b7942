#include "cli/compare_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/output.h"

namespace minite::cli {
namespace {

using diagnostics::Comparison;
using diagnostics::PointResult;
using diagnostics::PointStatus;
using diagnostics::RowMatch;
using nlohmann::ordered_json;

ordered_json rows_json(const RowMatch& rows) {
  return {{"matched", rows.pairs.size()},
          {"only_a", rows.only_a.size()},
          {"only_b", rows.only_b.size()},
          {"padding", rows.padding},
          {"other_tokens", rows.diverged}};
}

ordered_json point_json(const PointResult& p) {
  ordered_json row = {{"name", p.name},
                      {"layer", p.layer},
                      {"module", p.module},
                      {"point", p.point},
                      {"status", to_string(p.status)},
                      {"provenance", {to_string(p.provenance_a), to_string(p.provenance_b)}},
                      {"format", {p.spec_a, p.spec_b}},
                      {"rows", p.diff.rows},
                      {"differing_rows", p.diff.differing_rows},
                      {"elements", p.diff.elements},
                      {"differing", p.diff.differing},
                      {"bits", p.diff.bits}};
  set_number(row, "max_abs", p.diff.max_abs);
  set_number(row, "relative_l2", p.diff.relative_l2);
  return row;
}

ordered_json first_json(const Comparison& c) {
  if (!c.first) return nullptr;
  const PointResult& p = c.points[*c.first];
  return {{"name", p.name},
          {"layer", p.layer},
          {"module", p.module},
          {"point", p.point},
          {"row", c.where.row},
          {"column", c.where.column},
          {"a", c.where.a},
          {"b", c.where.b},
          {"scale_a", c.where.scale_a},
          {"scale_b", c.where.scale_b}};
}

ordered_json slips_json(const Comparison& c) {
  ordered_json rows = ordered_json::array();
  for (const diagnostics::SemanticFit& f : c.slips) {
    ordered_json row = {{"slip", f.name}, {"text", f.text}, {"fits", f.fits}, {"tokens", f.tokens}};
    set_number(row, "error", f.error);
    rows.push_back(std::move(row));
  }
  return rows;
}

/// "kernel", or what is weaker on either side.
std::string provenance_text(const PointResult& p) {
  return p.provenance_a == p.provenance_b
             ? std::string(to_string(p.provenance_a))
             : fmt::format("{}/{}", to_string(p.provenance_a), to_string(p.provenance_b));
}

std::string rows_text(std::string_view what, const RowMatch& rows) {
  std::string text = fmt::format("{}: {} in both", what, rows.pairs.size());
  const auto add = [&](size_t count, std::string_view words) {
    if (count > 0) text += fmt::format(", {} {}", count, words);
  };
  add(rows.only_a.size(), "in A only");
  add(rows.only_b.size(), "in B only");
  add(static_cast<size_t>(rows.padding), "padding");
  add(static_cast<size_t>(rows.diverged), "behind a token that differs");
  return text + "\n";
}

ordered_json experts_json(const Comparison& c) {
  ordered_json rows = ordered_json::array();
  for (const auto& [layer, m] : c.experts) {
    rows.push_back({{"layer", layer},
                    {"rows", m.rows},
                    {"other_experts", m.other},
                    {"fewer_experts", m.fewer},
                    {"other_order", m.order},
                    {"dropped_pairs", {m.dropped_a, m.dropped_b}},
                    {"dropped_rows", {m.whole_a, m.whole_b}},
                    {"absent_pairs", {m.absent_a, m.absent_b}},
                    {"padding", m.padding}});
  }
  return rows;
}

ordered_json cause_json(const diagnostics::Cause& cause) {
  return {
      {"class", cause.cause}, {"layer", cause.layer}, {"module", cause.module}, {"evidence", cause.evidence}};
}

/// Layers in which rows were not dispatched alike, or experts were not captured.
std::string experts_text(const Comparison& c) {
  Table table({"layer", "rows", "other experts", "fewer", "other order", "dropped at A", "at B",
               "not held at A", "at B"});
  bool any = false;
  for (const auto& [layer, m] : c.experts) {
    if (m.differing() + m.order + m.absent_a + m.absent_b == 0) continue;
    any = true;
    table.add({std::to_string(layer), std::to_string(m.rows), std::to_string(m.other),
               std::to_string(m.fewer), std::to_string(m.order), std::to_string(m.dropped_a),
               std::to_string(m.dropped_b), std::to_string(m.absent_a), std::to_string(m.absent_b)});
  }
  return any ? "\ndispatch to experts\n" + table.to_text(2) : "";
}

std::string also_text(const Comparison& c) {
  if (c.also.empty()) return "";
  std::string text = "\nalso differs, whatever the first divergence did\n";
  for (const diagnostics::Cause& cause : c.also) {
    text += fmt::format("  {}", cause.cause);
    if (cause.layer >= 0) text += fmt::format(" in layer {}", cause.layer);
    text += fmt::format(", {}\n    {}\n", cause.module, cause.evidence);
  }
  return text;
}

std::string points_text(const Comparison& c, bool all) {
  Table table({"point", "status", "differing", "of", "rows", "max |diff|", "relative L2", "from"});
  int64_t shown = 0;
  for (const PointResult& p : c.points) {
    if (!all && p.status == PointStatus::equal) continue;
    ++shown;
    const bool meets = p.status != PointStatus::format;
    table.add({p.name, std::string(to_string(p.status)), meets ? std::to_string(p.diff.differing) : "-",
               meets ? std::to_string(p.diff.elements) : "-",
               meets ? std::to_string(p.diff.differing_rows) : "-",
               p.diff.numbers ? number_text(p.diff.max_abs, 3) : "-",
               p.diff.numbers ? number_text(p.diff.relative_l2, 3) : "-", provenance_text(p)});
  }
  return shown == 0 ? "" : "\n" + table.to_text();
}

std::string waterfall_text(const Comparison& c) {
  Table table({"after", "relative L2", ""});
  for (const diagnostics::WaterfallStep& step : diagnostics::waterfall(c)) {
    table.add({step.name, number_text(step.relative_l2, 3), step.replayed ? "replayed" : ""});
  }
  return "\nwaterfall\n" + table.to_text(2);
}

std::string first_text(const Comparison& c) {
  const PointResult& p = c.points[*c.first];
  std::string text = fmt::format("\nfirst divergence: {}\n", p.name);
  if (!c.where.row.empty()) text += fmt::format("  {}", c.where.row);
  if (c.where.column >= 0) text += fmt::format(", column {}", c.where.column);
  if (!c.where.row.empty()) text += "\n";
  const auto side = [](const std::string& value, const std::string& scale) {
    return scale.empty() ? value : fmt::format("{} ({})", value, scale);
  };
  if (!c.where.a.empty() || !c.where.b.empty())
    text +=
        fmt::format("  A {}\n  B {}\n", side(c.where.a, c.where.scale_a), side(c.where.b, c.where.scale_b));
  text += fmt::format("cause: {}", c.cause->cause);
  if (c.cause->layer >= 0) text += fmt::format(" in layer {}", c.cause->layer);
  text += fmt::format(", {}\n  {}\n", c.cause->module, c.cause->evidence);
  for (const diagnostics::SemanticFit& f : c.slips) {
    text += fmt::format("  {} {}: {} ({} tokens, error {})\n", f.fits ? "fits" : "does not fit", f.name,
                        f.text, f.tokens, number_text(f.error, 3));
  }
  return text;
}

/// The counts of what agrees, apart by how it was taken.
std::string verdict(const Comparison& c) {
  int64_t executed = 0, replayed = 0;
  for (const PointResult& p : c.points) {
    if (p.status == PointStatus::equal) ++(p.replayed() ? replayed : executed);
  }
  std::string text;
  if (c.same() && executed == 0) {
    text = fmt::format("0 differing bits, but all {} points are replayed: nothing is known about what ran\n",
                       replayed);
    return text;
  }
  text = fmt::format("{} differing bits; {} of {} points are equal as they were executed\n", c.bits, executed,
                     c.points.size());
  if (replayed > 0) text += fmt::format("{} points are equal in replay only\n", replayed);
  int64_t absent = 0;
  for (const auto& [layer, m] : c.experts) absent += m.absent_a + m.absent_b;
  if (absent > 0)
    text +=
        fmt::format("{} (row, expert) pairs were not compared: one side does not hold the expert\n", absent);
  return text;
}

}  // namespace

ordered_json compare_document(const Comparison& c) {
  ordered_json contract = ordered_json::array(), points = ordered_json::array(),
               steps = ordered_json::array();
  for (const auto& d : c.contract) contract.push_back({{"field", d.field}, {"a", d.a}, {"b", d.b}});
  for (const PointResult& p : c.points) points.push_back(point_json(p));
  for (const diagnostics::WaterfallStep& s : diagnostics::waterfall(c)) {
    ordered_json step = {{"name", s.name}, {"layer", s.layer}, {"replayed", s.replayed}};
    set_number(step, "relative_l2", s.relative_l2);
    steps.push_back(std::move(step));
  }
  ordered_json cause = nullptr;
  if (c.cause) {
    cause = cause_json(*c.cause);
  }
  ordered_json also = ordered_json::array();
  for (const diagnostics::Cause& other : c.also) also.push_back(cause_json(other));
  const auto injected = [](const std::string& name) {
    return name.empty() ? ordered_json(nullptr) : ordered_json(name);
  };
  return {{"a", c.a},
          {"b", c.b},
          {"roles", {c.role_a, c.role_b}},
          {"injected", {injected(c.injected_a), injected(c.injected_b)}},
          {"same", c.same()},
          {"differing_bits", c.bits},
          {"contract", contract},
          {"rows", rows_json(c.rows)},
          {"scored", rows_json(c.scored)},
          {"expert_padding", c.expert_padding},
          {"expert_ranks", {c.ranks_a, c.ranks_b}},
          {"experts", experts_json(c)},
          {"first", first_json(c)},
          {"cause", cause},
          {"also", also},
          {"slips", slips_json(c)},
          {"waterfall", steps},
          {"points", points},
          {"not_compared", c.not_compared}};
}

std::string compare_text(const Comparison& c, bool all) {
  std::string text = fmt::format("A {} ({}{})\nB {} ({}{})\n", c.a, c.role_a,
                                 c.injected_a.empty() ? "" : ", injected " + c.injected_a, c.b, c.role_b,
                                 c.injected_b.empty() ? "" : ", injected " + c.injected_b);
  for (const auto& d : c.contract) text += fmt::format("{}: {} and {}\n", d.field, d.a, d.b);
  text += rows_text("rows read", c.rows) + rows_text("tokens scored", c.scored);
  if (c.expert_padding > 0) text += fmt::format("padding of experts: {} rows\n", c.expert_padding);
  if (c.ranks_a + c.ranks_b > 2)
    text += fmt::format("experts lie on: {} ranks at A, {} at B\n", c.ranks_a, c.ranks_b);
  text += points_text(c, all) + experts_text(c);
  if (!c.not_compared.empty()) text += fmt::format("\n{} tensors on one side only\n", c.not_compared.size());
  if (!c.same()) text += waterfall_text(c) + first_text(c) + also_text(c);
  return text + "\n" + verdict(c);
}

}  // namespace minite::cli
