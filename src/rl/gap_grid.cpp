#include "rl/gap_grid.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/fail.h"
#include "rl/replay.h"

namespace minite::rl {
namespace {

/// Every network of the grid over one cache: sides with the same codes share them.
class Networks {
 public:
  Networks(const GapInput& input, const GapGridOptions& options) : input_(input), cache_(input.weights) {
    for (const auto* sides : {&options.samplers, &options.learners}) {
      for (const GapSide& side : *sides) {
        if (find(side) != nullptr) continue;
        rows_.push_back(
            {side, make_network(input.weights, cache_, input.config, side.recipe, side.kv, input.table)});
      }
    }
    quantized_ = cache_.refresh(Context{&input_.table, &input_.pool, nullptr, {}});
  }

  [[nodiscard]] const Network& at(const GapSide& side) const { return *find(side); }
  [[nodiscard]] int64_t quantized() const { return quantized_; }

 private:
  struct Row {
    GapSide side;
    std::unique_ptr<Network> network;
  };
  [[nodiscard]] const Network* find(const GapSide& side) const {
    const auto at = std::ranges::find(rows_, side, &Row::side);
    return at == rows_.end() ? nullptr : at->network.get();
  }

  const GapInput& input_;
  WeightCache cache_;
  std::vector<Row> rows_;
  int64_t quantized_ = 0;
};

std::string name_of(const GapSide& side) {
  return fmt::format("{} (KV {})", side.recipe, kv_format(side.kv).name);
}

void check_sides(std::string_view role, const std::vector<GapSide>& sides) {
  require(!sides.empty(), "gap: name at least one {}", role);
  for (size_t i = 0; i < sides.size(); ++i) {
    require(std::find(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(i), sides[i]) ==
                sides.begin() + static_cast<std::ptrdiff_t>(i),
            "gap: {} {} is named twice", role, name_of(sides[i]));
  }
}

void check_replay(const ModelConfig& model, const std::vector<RouterReplay>& modes) {
  require(!modes.empty(), "gap: name at least one mode of router replay");
  for (size_t i = 0; i < modes.size(); ++i) {
    const auto end = modes.begin() + static_cast<std::ptrdiff_t>(i);
    require(std::find(modes.begin(), end, modes[i]) == end, "gap: router replay {} is named twice",
            name_of(modes[i]));
    require(model.num_experts > 0 || modes[i] == RouterReplay::off,
            "gap: router replay {} replays experts, but the model has none; leave it off", name_of(modes[i]));
  }
}

void check(const GapInput& input, const GapGridOptions& options) {
  check_sides("learner", options.learners);
  check_sides("sampler", options.samplers);
  require(options.samples >= 1, "gap: samples={} must be positive", options.samples);
  require(options.max_new_tokens >= 1, "gap: max_new_tokens={} must be positive", options.max_new_tokens);
  require(options.temperature >= 0.0f && std::isfinite(options.temperature),
          "gap: temperature={} must not be negative", options.temperature);
  check_replay(input.weights.config(), options.replay);
  require(!input.problems.empty(), "gap: no problem to draw responses to");
}

class GridRun {
 public:
  GridRun(const GapInput& input, const GapGridOptions& options,
          const std::function<void(const std::string&)>& message)
      : input_(input), options_(options), message_(message), networks_(input, options) {
    grid_.quantized = networks_.quantized();
    make_requests();
  }

  GapGrid finish() {
    for (const GapSide& side : options_.samplers) add_sampler(side);
    for (const GapSide& side : options_.learners) add_learner(side);
    add_cells();
    return std::move(grid_);
  }

 private:
  void make_requests() {
    const int64_t room = input_.weights.config().max_position_embeddings;
    int64_t longest = 0;
    for (const tasks::Problem& problem : input_.problems) {
      check_prompt(input_.tokenizer, problem, room);
      const std::vector<int32_t> prompt = encode_prompt(input_.tokenizer, problem);
      longest = std::max(longest, static_cast<int64_t>(prompt.size()));
      for (int64_t j = 0; j < options_.samples; ++j) {
        requests_.push_back({prompt, requests_.size()});
        problem_of_.push_back(&problem);
      }
    }
    max_length_ = std::min(room, longest + options_.max_new_tokens);
  }

  void say(const std::string& text) const {
    if (message_) message_(text);
  }

  /// Log-probs at temperature 1 when drawing is greedy, as the sampler records them.
  [[nodiscard]] float temperature() const {
    return options_.temperature > 0.0f ? options_.temperature : 1.0f;
  }

  [[nodiscard]] bool experts() const { return input_.weights.config().num_experts > 0; }

  [[nodiscard]] io::Contract contract_of(const GapSide& side) const {
    io::Contract c =
        numeric_contract(side.recipe, resolve_side(input_.weights.config(), input_.config, side.recipe),
                         side.kv, input_.config.sampler_policy);
    c.temperature = as_written(options_.temperature);
    c.weight_version = input_.weights.version();
    c.weights_digest = digest_of(weight_digests(input_.weights));
    return c;
  }

  void draw(Sampler& sampler, const GapSide& side) {
    say(fmt::format("drawing {} responses with {}", requests_.size(), name_of(side)));
    SampleParams params;
    params.temperature = options_.temperature;
    params.max_new_tokens = options_.max_new_tokens;
    params.seed = options_.seed;
    grid_.rollout = rewarded(requests_, sampler.generate(requests_, params), problem_of_, input_.tokenizer);
    grid_.rollout.contract = contract_of(side);
    const std::vector<double>& logp = grid_.rollout.logp_sampler;
    const auto bad = std::ranges::find_if(logp, [](double x) { return !std::isfinite(x); });
    if (bad != logp.end()) {
      fail(ErrorCode::non_finite,
           "the first sampler, {}, gives {} as the log-prob of token {}: what it draws means nothing. Put a "
           "recipe first in --sampler whose log-probs are finite",
           name_of(side), *bad, bad - logp.begin());
    }
    const Rollout& r = grid_.rollout;
    for (const Sequence& s : r.sequences)
      responses_.emplace_back(s.tokens.begin() + s.prompt, s.tokens.end());
    grid_.advantage.assign(r.rewards.size(), 0.0);
    if (options_.samples > 1) {
      group_advantages(parse<AdvEstimator>(input_.config.rl.adv_estimator), options_.samples, r.rewards,
                       grid_.advantage);
    }
  }

  void add_sampler(const GapSide& side) {
    const auto slots =
        std::min<int64_t>(input_.config.sampler_sequences, static_cast<int64_t>(requests_.size()));
    Sampler sampler(networks_.at(side), input_.table, input_.pool, {slots, max_length_, kPrefillRows});
    if (grid_.samplers.empty()) draw(sampler, side);
    say(fmt::format("sampler {} scores {} tokens", name_of(side), grid_.rollout.offsets.back()));
    GapScores scores{side};
    for (Sample& s : sampler.score(requests_, responses_, {temperature(), experts()})) {
      scores.logp.insert(scores.logp.end(), s.logp.begin(), s.logp.end());
      if (experts()) scores.routes.push_back(std::move(s.routes));
    }
    if (grid_.samplers.empty()) {
      for (size_t t = 0; t < scores.logp.size(); ++t) {
        const bool same =
            std::bit_cast<uint64_t>(scores.logp[t]) == std::bit_cast<uint64_t>(grid_.rollout.logp_sampler[t]);
        grid_.redrawn += same ? 0 : 1;
      }
    }
    grid_.samplers.push_back(std::move(scores));
  }

  void add_learner(const GapSide& side) {
    const Rollout& r = grid_.rollout;
    int64_t all = 0;
    for (const Sequence& s : r.sequences) all += static_cast<int64_t>(s.tokens.size());
    const int64_t micro = std::max(max_length_, std::min(input_.config.micro_tokens, all));
    Learner learner(input_.weights, networks_.at(side), input_.table, input_.pool,
                    LearnerLimits{micro, max_length_});
    for (const RouterReplay mode : options_.replay) {
      GapScores scores{side, mode};
      if (!row_of(kRouterReplay, mode).old_pass) {
        score(learner, std::move(scores));
        continue;
      }
      for (size_t s = 0; s < grid_.samplers.size(); ++s) {
        scores.experts_of = s;
        score(learner, scores);
      }
    }
  }

  void score(Learner& learner, GapScores scores) {
    const Rollout& r = grid_.rollout;
    const std::string taken =
        scores.experts_of
            ? fmt::format(" with the experts of {}", name_of(grid_.samplers[*scores.experts_of].side))
            : "";
    say(fmt::format("learner {} scores {} tokens{}", name_of(scores.side), r.offsets.back(), taken));
    std::vector<float> logp(static_cast<size_t>(r.offsets.back()));
    if (experts()) scores.routes.resize(r.sequences.size());
    Routing routing{{}, {}, scores.routes};
    if (scores.experts_of) routing.replay = grid_.samplers[*scores.experts_of].routes;
    learner.score(r.sequences, temperature(), logp, {}, routing);
    scores.logp.assign(logp.begin(), logp.end());
    grid_.learners.push_back(std::move(scores));
  }

  /// Share of rows whose experts differ.
  [[nodiscard]] static double mismatch(const GapScores& learner, const GapScores& sampler) {
    RouteDifference all;
    for (size_t i = 0; i < learner.routes.size(); ++i)
      all += compare_routes(learner.routes[i], sampler.routes[i]);
    return all.rows == 0 ? 0.0 : static_cast<double>(all.experts) / static_cast<double>(all.rows);
  }

  void add_cells() {
    const Rollout& r = grid_.rollout;
    std::vector<double> advantage(r.mask.size());
    broadcast_advantage(r.offsets, grid_.advantage, advantage);
    for (size_t l = 0; l < grid_.learners.size(); ++l) {
      for (size_t s = 0; s < grid_.samplers.size(); ++s) {
        const GapScores &learner = grid_.learners[l], &sampler = grid_.samplers[s];
        if (learner.experts_of.value_or(s) != s) continue;
        GapCell cell = gap_cell(r.offsets, learner.logp, sampler.logp, advantage, options_.tail_threshold);
        cell.learner = l;
        cell.sampler = s;
        if (experts()) cell.router_mismatch = mismatch(learner, sampler);
        if (!(cell.abs_max == 0.0)) {
          cell.causes = gap_causes(input_.weights.config(), input_.config, learner.side, sampler.side);
        }
        grid_.cells.push_back(std::move(cell));
      }
    }
  }

  static constexpr int64_t kPrefillRows = 4096;

  const GapInput& input_;
  const GapGridOptions& options_;
  const std::function<void(const std::string&)>& message_;
  Networks networks_;
  std::vector<SampleRequest> requests_;
  std::vector<const tasks::Problem*> problem_of_;
  std::vector<std::vector<int32_t>> responses_;
  int64_t max_length_ = 0;
  GapGrid grid_;
};

}  // namespace

GapCell gap_cell(std::span<const int64_t> offsets, std::span<const double> learner,
                 std::span<const double> sampler, std::span<const double> advantage,
                 std::optional<double> tail_threshold) {
  std::vector<uint8_t> mask(learner.size(), 1);
  GapCell cell;
  cell.tokens = static_cast<int64_t>(mask.size());
  cell.non_finite = mask_non_finite(learner, mask) + mask_non_finite(sampler, mask);
  if (cell.non_finite < cell.tokens) {
    const Batch batch{offsets, sampler, learner, mask, advantage};
    const GapStats stats = gap_stats(batch);
    cell.abs_mean = stats.abs_mean, cell.abs_max = stats.abs_max, cell.q05 = stats.q05, cell.q01 = stats.q01;
    cell.details = gap_details(batch, tail_threshold);
  }
  if (cell.non_finite > 0)
    cell.abs_mean = cell.abs_max = cell.q05 = cell.q01 = std::numeric_limits<double>::quiet_NaN();
  return cell;
}

GapGrid gap_grid(const GapInput& input, const GapGridOptions& options,
                 const std::function<void(const std::string&)>& message) {
  check(input, options);
  return GridRun(input, options, message).finish();
}

}  // namespace minite::rl
