#include "cli/gap_document.h"

#include <numeric>

#include "cli/output.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

diagnostics::GapOperands operands(const std::string& recipe) {
  const MatmulSpec& fprop = get_recipe(recipe).params.fprop;
  return {format(fprop.b.format).name, format(fprop.a.format).name};
}

std::string_view kv_name(const rl::GapScores& scores) { return kv_format(scores.side.kv).name; }

/// A list of {first: at, second: value}.
template <class At, class Values>
ordered_json pairs(const char* first, const At& at, const char* second, const Values& values) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < at.size(); ++i) {
    ordered_json row = {{first, at[i]}};
    set_number(row, second, values[i]);
    list.push_back(std::move(row));
  }
  return list;
}

ordered_json to_json(const rl::GapRegions& r) {
  const auto region = [](const rl::GapRegion& x) {
    return ordered_json{{"share", x.share}, {"share_normalized", x.share_normalized}, {"tokens", x.tokens}};
  };
  ordered_json json = {{"neg_neg", region(r.neg_neg)},
                       {"neg_pos", region(r.neg_pos)},
                       {"pos_neg", region(r.pos_neg)},
                       {"pos_pos", region(r.pos_pos)}};
  set_number(json, "rho_asym", r.rho_asym);
  set_number(json, "rho_asym_normalized", r.rho_asym_normalized);
  return json;
}

ordered_json to_json(const rl::GapSegments& s) {
  ordered_json json = {{"size", s.size}, {"count", s.items.size()}, {"q05", s.q05},
                       {"q50", s.q50},   {"lowest", s.lowest},      {"heavy", s.heavy}};
  set_number(json, "tail_in_top", s.tail_in_top);
  ordered_json items = ordered_json::array();
  for (const rl::GapSegment& i : s.items) {
    items.push_back({{"response", i.response},
                     {"begin", i.begin},
                     {"end", i.end},
                     {"tokens", i.tokens},
                     {"mean", i.mean},
                     {"mean_abs", i.abs_mean},
                     {"max_abs", i.abs_max},
                     {"advantage", i.advantage},
                     {"tail", i.tail}});
  }
  json["items"] = std::move(items);
  return json;
}

ordered_json to_json(const std::vector<rl::GapResponse>& responses, int64_t samples) {
  ordered_json list = ordered_json::array();
  for (const rl::GapResponse& r : responses) {
    list.push_back({{"response", r.response},
                    {"problem", r.response / samples},
                    {"tokens", r.tokens},
                    {"mean", r.mean},
                    {"mean_abs", r.abs_mean},
                    {"max_abs", r.abs_max},
                    {"advantage", r.advantage}});
  }
  return list;
}

ordered_json to_json(const rl::GapDetails& d, int64_t samples) {
  ordered_json json = {{"quantiles", pairs("p", rl::kTailQuantiles, "gap", d.tails.quantile)},
                       {"above", pairs("nats", rl::kTailBounds, "share", d.tails.above)},
                       {"negative_depth", d.tails.negative_depth},
                       {"regions", to_json(d.regions)}};
  json["tail"] = {{"threshold", d.tail.threshold}, {"fraction", d.tail.fraction}};
  set_number(json["tail"], "adjacent", d.tail.adjacent);
  json["segments"] = ordered_json::array();
  for (const rl::GapSegments& s : d.segments) json["segments"].push_back(to_json(s));
  json["concentration"] = {{"tokens", pairs("top", rl::kTopShares, "share", d.concentration.tokens)},
                           {"responses", pairs("top", rl::kTopShares, "share", d.concentration.responses)}};
  json["outliers"] = d.outliers;
  json["responses"] = to_json(d.responses, samples);
  return json;
}

/// The names of a cell: what every row begins with.
ordered_json names(const rl::GapGrid& grid, const rl::GapCell& cell) {
  const rl::GapScores &learner = grid.learners[cell.learner], &sampler = grid.samplers[cell.sampler];
  return {{"learner", learner.side.recipe},
          {"sampler", sampler.side.recipe},
          {"kv_cache", kv_name(sampler)},
          {"learner_kv", kv_name(learner)},
          {"router_replay", rl::name_of(learner.replay)}};
}

ordered_json row_of(const GapRequest& request, const rl::GapGrid& grid, const rl::GapCell& cell) {
  ordered_json row = names(grid, cell);
  set_number(row, "mean_abs_gap", cell.abs_mean);
  set_number(row, "max_abs_gap", cell.abs_max);
  set_number(row, "q05", cell.q05);
  set_number(row, "q01", cell.q01);
  row["tokens"] = cell.tokens;
  row["non_finite_tokens"] = cell.non_finite;
  row["router_mismatch"] = cell.router_mismatch ? ordered_json(*cell.router_mismatch) : ordered_json();
  row["causes"] = ordered_json::array();
  for (const rl::GapCause& cause : cell.causes)
    row["causes"].push_back({{"field", cause.field}, {"text", cause.text}});
  row["report"] = ordered_json::array();
  for (const diagnostics::PublishedGap& figure : published(request, grid, cell)) {
    ordered_json one = {{"source", figure.source}};
    set_number(one, "mean_abs_gap", figure.value);
    row["report"].push_back(std::move(one));
  }
  row["details"] = cell.details ? to_json(*cell.details, request.options.samples) : ordered_json();
  return row;
}

ordered_json outcome(double expect, const rl::GapGrid& grid) {
  ordered_json failed = ordered_json::array();
  for (const rl::GapCell& cell : grid.cells) {
    if (fails(cell, expect)) failed.push_back(names(grid, cell));
  }
  const bool ok = failed.empty();
  return {{"max_abs_gap", expect}, {"ok", ok}, {"failed", std::move(failed)}};
}

ordered_json replay_names(const std::vector<rl::RouterReplay>& modes) {
  ordered_json list = ordered_json::array();
  for (const rl::RouterReplay mode : modes) list.push_back(rl::name_of(mode));
  return list;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ordered_json side_names(const std::vector<rl::GapScores>& sides) {
  ordered_json list = ordered_json::array();
  for (const rl::GapScores& s : sides) {
    list.push_back({{"recipe", s.side.recipe}, {"kv", kv_name(s)}});
    if (!s.experts_of) continue;
    list.back()["router_replay"] = rl::name_of(s.replay);
    list.back()["experts_of"] = *s.experts_of;
  }
  return list;
}

ordered_json logps(const std::vector<rl::GapScores>& sides, int64_t token) {
  ordered_json list = ordered_json::array();
  for (const rl::GapScores& s : sides) list.push_back(s.logp[token]);  // NaN becomes null
  return list;
}

}  // namespace

std::vector<diagnostics::PublishedGap> published(const GapRequest& request, const rl::GapGrid& grid,
                                                 const rl::GapCell& cell) {
  const rl::GapScores &learner = grid.learners[cell.learner], &sampler = grid.samplers[cell.sampler];
  return diagnostics::published_gaps({operands(learner.side.recipe), operands(sampler.side.recipe),
                                      kv_name(learner), kv_name(sampler), request.model.num_experts > 0});
}

bool fails(const rl::GapCell& cell, double expect) { return !(cell.abs_max <= expect); }

ordered_json gap_document(const GapRequest& request, const rl::GapGrid& grid) {
  const rl::GapGridOptions& o = request.options;
  const rl::GapScores& first = grid.samplers.front();
  ordered_json json = {{"checkpoint", request.checkpoint},
                       {"data", request.data},
                       {"problems", request.problems},
                       {"samples", o.samples},
                       {"max_new_tokens", o.max_new_tokens},
                       {"temperature", o.temperature},
                       {"seed", o.seed},
                       {"policy", request.config.sampler_policy},
                       {"backend", request.backend},
                       {"experts", request.model.num_experts},
                       {"router_replay", replay_names(o.replay)},
                       {"drawn_by", {{"recipe", first.side.recipe}, {"kv_cache", kv_name(first)}}},
                       {"responses", grid.rollout.responses()},
                       {"tokens", grid.rollout.offsets.back()},
                       {"reward", mean_of(grid.rollout.rewards)},
                       {"redrawn_tokens", grid.redrawn},
                       {"weight_tensors_quantized", grid.quantized},
                       {"rows", ordered_json::array()}};
  for (const rl::GapCell& cell : grid.cells) json["rows"].push_back(row_of(request, grid, cell));
  if (request.expect) json["expect"] = outcome(*request.expect, grid);
  return json;
}

ordered_json token_document(const GapRequest& request, const rl::GapGrid& grid,
                            const io::Tokenizer& tokenizer) {
  const rl::Rollout& r = grid.rollout;
  ordered_json list = ordered_json::array();
  for (int64_t i = 0; i < r.responses(); ++i) {
    const Sequence& s = r.sequences[i];
    const std::span<const int32_t> all(s.tokens);
    ordered_json tokens = ordered_json::array();
    for (int64_t t = 0; t < s.response(); ++t) {
      const auto one = all.subspan(static_cast<size_t>(s.prompt + t), 1);
      tokens.push_back({{"position", s.prompt + t},
                        {"id", one[0]},
                        {"text", tokenizer.decode(one)},
                        {"learner", logps(grid.learners, r.offsets[i] + t)},
                        {"sampler", logps(grid.samplers, r.offsets[i] + t)}});
    }
    list.push_back({{"sequence", i},
                    {"problem", i / request.options.samples},
                    {"prompt", tokenizer.decode(all.first(static_cast<size_t>(s.prompt)))},
                    {"reward", r.rewards[i]},
                    {"advantage", grid.advantage[i]},
                    {"finished", r.finished[i] != 0},
                    {"tokens", std::move(tokens)}});
  }
  return {{"checkpoint", request.checkpoint},
          {"temperature", request.options.temperature},
          {"learners", side_names(grid.learners)},
          {"samplers", side_names(grid.samplers)},
          {"sequences", std::move(list)}};
}

}  // namespace minite::cli
