#include "cli/gap_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "cli/output.h"

namespace minite::cli {
namespace {

using rl::GapCell;
using rl::GapGrid;

constexpr size_t kWorst = 5;  ///< responses and segments listed

std::string_view kv_name(const rl::GapSide& side) { return kv_format(side.kv).name; }

/// "bf16 / nvfp4_per_token", with the formats of keys and values where one is not the default.
std::string label(const GapGrid& grid, const GapCell& cell) {
  const rl::GapScores& learner = grid.learners[cell.learner];
  const rl::GapSide &l = learner.side, &s = grid.samplers[cell.sampler].side;
  std::string text = fmt::format("{} / {}", l.recipe, s.recipe);
  if (learner.replay != rl::RouterReplay::off) text += fmt::format(", {}", rl::name_of(learner.replay));
  if (l.kv != KvFormat{} || s.kv != KvFormat{}) text += fmt::format(", KV {}/{}", kv_name(l), kv_name(s));
  return text;
}

std::string percent(double share) { return number_text(100 * share, 3) + " %"; }

std::string published_text(const std::vector<diagnostics::PublishedGap>& figures) {
  std::vector<std::string> texts;
  for (const auto& f : figures) texts.push_back(fmt::format("{} ({})", number_text(f.value, 4), f.source));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Cells whose gap is not 0 and has details, largest mean first.
std::vector<const GapCell*> with_gap(const GapGrid& grid) {
  std::vector<const GapCell*> cells;
  for (const GapCell& cell : grid.cells) {
    if (cell.abs_max > 0.0) cells.push_back(&cell);
  }
  std::ranges::stable_sort(cells, std::greater(), [](const GapCell* c) { return c->abs_mean; });
  return cells;
}

std::string grid_table(const GapRequest& request, const GapGrid& grid) {
  std::vector<std::string> headers = {"learner", "KV", "sampler", "KV"};
  const bool experts = request.model.num_experts > 0;
  if (experts) headers.insert(headers.end(), {"replay", "other experts"});
  headers.insert(headers.end(), {"mean |gap|", "max |gap|", "q05", "q01", "report: mean |gap|"});
  Table table(headers);
  for (const GapCell& cell : grid.cells) {
    const rl::GapSide &l = grid.learners[cell.learner].side, &s = grid.samplers[cell.sampler].side;
    const std::string mean = number_text(cell.abs_mean, 4) +
                             (cell.non_finite > 0 ? fmt::format(" ({} tokens)", cell.non_finite) : "");
    std::vector<std::string> row = {l.recipe, std::string(kv_name(l)), s.recipe, std::string(kv_name(s))};
    if (experts) {
      row.emplace_back(rl::name_of(grid.learners[cell.learner].replay));
      row.push_back(percent(cell.router_mismatch.value()));
    }
    row.insert(row.end(), {mean, number_text(cell.abs_max, 4), number_text(cell.q05, 4),
                           number_text(cell.q01, 4), published_text(published(request, grid, cell))});
    table.add(std::move(row));
  }
  return table.to_text();
}

std::string summary(const GapGrid& grid) {
  const auto zero = std::ranges::count_if(grid.cells, [](const GapCell& c) { return c.abs_max == 0.0; });
  std::string text = fmt::format("\n{} of {} cells are exactly 0\n", zero, grid.cells.size());
  const std::vector<const GapCell*> cells = with_gap(grid);
  if (!cells.empty()) {
    const GapCell& c = *cells.front();
    const rl::GapDetails& d = *c.details;
    text += fmt::format("largest: {}\n", label(grid, c));
    text += fmt::format("  tokens above 0.1, 0.5, 1 nat: {}, {}, {}; q01 {}, q99 {}\n",
                        percent(d.tails.above[0]), percent(d.tails.above[1]), percent(d.tails.above[2]),
                        number_text(d.tails.quantile[1], 4), number_text(d.tails.quantile[7], 4));
    text += fmt::format("  the largest 1 % of tokens carry {} of it, 5 % {}; {} of {} responses stand out\n",
                        percent(d.concentration.tokens[0]), percent(d.concentration.tokens[1]), d.outliers,
                        d.responses.size());
    text += fmt::format("  share of |A| where an update widens the gap: {} (A<0, gap<0), {} (A>0, gap>0)\n",
                        percent(d.regions.neg_neg.share), percent(d.regions.pos_pos.share));
  }
  if (grid.redrawn > 0) {
    text += fmt::format(
        "{} tokens have another log-prob in teacher forcing than when they were drawn: the first sampler's "
        "numbers depend on the batch\n",
        grid.redrawn);
  }
  return text;
}

std::string tails_text(const GapGrid& grid, const std::vector<const GapCell*>& cells) {
  std::vector<std::string> headers = {"learner / sampler"};
  for (const double p : rl::kTailQuantiles) headers.push_back(fmt::format("q{}", p));
  for (const double bound : rl::kTailBounds) headers.push_back(fmt::format(">{} nat", bound));
  Table table(headers);
  for (const GapCell* cell : cells) {
    std::vector<std::string> row = {label(grid, *cell)};
    for (const double q : cell->details->tails.quantile) row.push_back(number_text(q, 3));
    for (const double share : cell->details->tails.above) row.push_back(percent(share));
    table.add(std::move(row));
  }
  return "\ntails: quantiles of the gap (learner - sampler), share of tokens beyond\n" + table.to_text(2);
}

std::string regions_text(const GapGrid& grid, const std::vector<const GapCell*>& cells) {
  Table table(
      {"learner / sampler", "A<0 gap<0", "A<0 gap>0", "A>0 gap<0", "A>0 gap>0", "rho_asym", "normalized"});
  for (const GapCell* cell : cells) {
    const rl::GapRegions& r = cell->details->regions;
    table.add({label(grid, *cell), percent(r.neg_neg.share), percent(r.neg_pos.share),
               percent(r.pos_neg.share), percent(r.pos_pos.share), number_text(r.rho_asym, 3),
               number_text(r.rho_asym_normalized, 3)});
  }
  return "\nregions: share of |A| by sign of advantage and gap\n" + table.to_text(2);
}

std::string segments_text(const GapGrid& grid, const std::vector<const GapCell*>& cells) {
  Table table({"learner / sampler", "size", "segments", "lowest mean", "q05", "median", "tail-heavy",
               "tail in top 5 %", "most negative at"});
  for (const GapCell* cell : cells) {
    for (const rl::GapSegments& s : cell->details->segments) {
      const auto worst = std::ranges::min_element(s.items, {}, &rl::GapSegment::mean);
      table.add({label(grid, *cell), fmt::format("{}", s.size), fmt::format("{}", s.items.size()),
                 number_text(s.lowest, 3), number_text(s.q05, 3), number_text(s.q50, 3), percent(s.heavy),
                 percent(s.tail_in_top),
                 fmt::format("response {}, {}..{}", worst->response, worst->begin, worst->end)});
    }
  }
  return "\nsegments: mean gap of windows of 64 and 128 positions\n" + table.to_text(2);
}

std::string concentration_text(const GapGrid& grid, const std::vector<const GapCell*>& cells) {
  Table table({"learner / sampler", "tokens 1 %", "tokens 5 %", "responses 1 %", "responses 5 %",
               "tail below", "tail tokens", "next in tail"});
  for (const GapCell* cell : cells) {
    const rl::GapConcentration& c = cell->details->concentration;
    const rl::GapTail& tail = cell->details->tail;
    table.add({label(grid, *cell), percent(c.tokens[0]), percent(c.tokens[1]), percent(c.responses[0]),
               percent(c.responses[1]), number_text(tail.threshold, 3), percent(tail.fraction),
               percent(tail.adjacent)});
  }
  return "\nconcentration: share of the summed |gap| in the largest; amplifying tail (A<0)\n" +
         table.to_text(2);
}

std::string responses_text(const GapGrid& grid, const std::vector<const GapCell*>& cells) {
  Table table(
      {"learner / sampler", "response", "tokens", "mean |gap|", "max |gap|", "mean gap", "advantage"});
  for (const GapCell* cell : cells) {
    std::vector<rl::GapResponse> all = cell->details->responses;
    std::ranges::stable_sort(all, std::greater(), &rl::GapResponse::abs_mean);
    all.resize(std::min(all.size(), kWorst));
    for (const rl::GapResponse& r : all) {
      table.add({label(grid, *cell), fmt::format("{}", r.response), fmt::format("{}", r.tokens),
                 number_text(r.abs_mean, 4), number_text(r.abs_max, 4), number_text(r.mean, 4),
                 number_text(r.advantage, 3)});
    }
  }
  return "\nresponses with the largest mean |gap|\n" + table.to_text(2);
}

}  // namespace

std::string gap_text(const GapRequest& request, const GapGrid& grid) {
  const rl::GapGridOptions& o = request.options;
  const std::vector<double>& rewards = grid.rollout.rewards;
  const double reward =
      std::accumulate(rewards.begin(), rewards.end(), 0.0) / static_cast<double>(rewards.size());
  const rl::GapSide& first = grid.samplers.front().side;
  std::string text = fmt::format(
      "{} responses to {} prompts, {} tokens, drawn by {} (KV {}) at temperature {}, seed {}; reward {}\n\n",
      grid.rollout.responses(), request.problems, grid.rollout.offsets.back(), first.recipe, kv_name(first),
      o.temperature, o.seed, number_text(reward, 3));
  return text + grid_table(request, grid) + summary(grid);
}

std::string gap_details_text(const GapGrid& grid) {
  const std::vector<const GapCell*> cells = with_gap(grid);
  if (cells.empty()) return "";
  std::string text;
  for (const auto part : {tails_text, regions_text, segments_text, concentration_text, responses_text})
    text += part(grid, cells);
  return text;
}

std::string gap_failures(const GapGrid& grid, double expect) {
  std::string text;
  for (const GapCell& cell : grid.cells) {
    if (!fails(cell, expect)) continue;
    text += cell.non_finite > 0
                ? fmt::format("  {}: {} of {} tokens have no finite gap\n", label(grid, cell),
                              cell.non_finite, cell.tokens)
                : fmt::format("  {}: max |gap| {}\n", label(grid, cell), number_text(cell.abs_max, 4));
    for (const rl::GapCause& cause : cell.causes)
      text += fmt::format("    {}: {}\n", cause.field, cause.text);
  }
  return text;
}

}  // namespace minite::cli
