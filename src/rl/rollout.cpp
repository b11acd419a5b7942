#include "rl/rollout.h"

#include <algorithm>

#include "tasks/checker.h"

namespace minite::rl {
namespace {

/// Additive parts of the metrics of everything that a step samples.
struct Counts {
  int64_t samples = 0, groups = 0, mixed = 0, rollouts = 0;
  double reward = 0, finished = 0, length = 0, penalty = 0;
};

/// One rollout: which prompts it takes and which noise.
struct Draw {
  learn::Stage stage;
  int64_t step;
  int64_t index;  ///< rollout of the step, from 0

  /// First prompt. Further rollouts of a step take the prompts that lie a whole run later, so that the first
  /// one is the rollout of a run without filter_groups.
  [[nodiscard]] int64_t first(const RunConfig& c) const {
    const int64_t steps = std::max(c.rl.steps, c.contrast.steps);
    return (step + index * steps) * c.rl.train_batch_size;
  }
  /// Names the noise of response `j` of the rollout.
  [[nodiscard]] uint64_t noise(const RlConfig& c, int64_t j) const {
    return static_cast<uint64_t>(stage) << 56 | static_cast<uint64_t>(step) << 24 |
           static_cast<uint64_t>(index * c.train_batch_size * c.n + j);
  }
};

SampleParams sample_params(const RunConfig& c, const ModelConfig& model) {
  SampleParams params;
  params.temperature = static_cast<float>(c.rl.temperature);
  params.top_k = c.rl.top_k;
  params.top_p = static_cast<float>(c.rl.top_p);
  params.max_new_tokens = c.max_length;
  params.seed = c.seed;
  params.return_routed_experts = model.num_experts > 0;
  return params;
}

/// The penalty for a response of `length` tokens where `room` were left by its prompt.
double length_penalty(const RlConfig& c, int64_t length, int64_t room) {
  if (c.overlong_buffer_len == 0) return 0.0;
  return overlong_penalty(length, room, std::min(c.overlong_buffer_len, room), c.overlong_penalty_factor);
}

/// What the log-probs of a rollout at `step` mean.
io::Contract contract_of(const StageContext& ctx, int64_t step) {
  const RlConfig& c = ctx.config.rl;
  io::Contract contract = ctx.engine.sampler_contract(step);
  contract.temperature = c.temperature;
  contract.top_k = c.top_k;
  contract.top_p = c.top_p;
  contract.replay = c.router_replay;
  return contract;
}

Rollout sample(const StageContext& ctx, const Draw& draw, StepRecord& record) {
  const RlConfig& c = ctx.config.rl;
  std::vector<const tasks::Problem*> problems;
  std::vector<SampleRequest> requests;
  for (int64_t i = 0; i < c.train_batch_size; ++i) {
    const tasks::Problem& problem = ctx.problems.at(draw.first(ctx.config) + i);
    for (int64_t j = 0; j < c.n; ++j) {
      requests.push_back({encode_prompt(ctx.tokenizer, problem), draw.noise(c, i * c.n + j)});
      problems.push_back(&problem);
      record.tokens += static_cast<int64_t>(requests.back().prompt.size());
    }
  }
  Rollout r = rewarded(requests,
                       ctx.engine.sampler().generate(requests, sample_params(ctx.config, ctx.engine.model())),
                       problems, ctx.tokenizer);
  r.contract = contract_of(ctx, draw.step);
  for (int64_t i = 0; i < r.responses(); ++i) {
    const Sequence& s = r.sequences[i];
    r.penalties[i] = length_penalty(c, s.response(), ctx.config.max_length - s.prompt);
  }
  record.tokens += r.offsets.back();
  return r;
}

void count(const Rollout& r, int64_t mixed, const RlConfig& c, Counts& counts) {
  for (int64_t i = 0; i < r.responses(); ++i) {
    counts.reward += r.rewards[i];
    counts.penalty += r.penalties[i];
    counts.finished += r.finished[i];
  }
  counts.length += static_cast<double>(r.offsets.back());
  counts.samples += r.responses();
  counts.groups += c.train_batch_size;
  counts.mixed += mixed;
  ++counts.rollouts;
}

void write_metrics(const Counts& counts, const RlConfig& c, learn::Metrics& metrics) {
  const auto n = static_cast<double>(counts.samples);
  metrics["reward"] = counts.reward / n;
  metrics["response_finished"] = counts.finished / n;
  metrics["response_length_mean"] = counts.length / n;
  metrics["groups_with_signal"] = static_cast<double>(counts.mixed) / static_cast<double>(counts.groups);
  if (c.overlong_buffer_len > 0) metrics["overlong_penalty"] = counts.penalty / n;
  if (c.filter_groups) metrics["num_gen_batches"] = static_cast<double>(counts.rollouts);
}

/// Appends the groups of `from` that are in `groups` to `to` until it holds train_batch_size groups.
void take(Rollout& to, const Rollout& from, std::span<const int64_t> groups, const RlConfig& c) {
  for (const int64_t g : groups) {
    if (to.responses() < c.train_batch_size * c.n) to.append(from, g * c.n, (g + 1) * c.n);
  }
}

/// The groups of a rollout that are not in `kept`, which is in order.
std::vector<int64_t> others(std::span<const int64_t> kept, const RlConfig& c) {
  std::vector<int64_t> out;
  for (int64_t g = 0; g < c.train_batch_size; ++g) {
    if (!std::binary_search(kept.begin(), kept.end(), g)) out.push_back(g);
  }
  return out;
}

}  // namespace

void Rollout::append(const Rollout& other, int64_t begin, int64_t end) {
  const auto add = [](auto& to, const auto& from, int64_t first, int64_t last) {
    to.insert(to.end(), from.begin() + first, from.begin() + last);
  };
  const int64_t first = other.offsets[begin], last = other.offsets[end];
  const int64_t shift = offsets.back() - first;
  for (int64_t i = begin; i < end; ++i) offsets.push_back(other.offsets[i + 1] + shift);
  add(sequences, other.sequences, begin, end);
  add(rewards, other.rewards, begin, end);
  add(penalties, other.penalties, begin, end);
  add(finished, other.finished, begin, end);
  add(logp_sampler, other.logp_sampler, first, last);
  add(mask, other.mask, first, last);
  if (!other.routes.empty()) add(routes, other.routes, begin, end);
}

Rollout rewarded(std::span<const SampleRequest> requests, std::vector<Sample> samples,
                 std::span<const tasks::Problem* const> problems, const io::Tokenizer& tokenizer) {
  Rollout r;
  for (size_t i = 0; i < samples.size(); ++i) {
    Sample& s = samples[i];
    const std::vector<int32_t>& prompt = requests[i].prompt;
    Sequence sequence{prompt, static_cast<int64_t>(prompt.size())};
    sequence.tokens.insert(sequence.tokens.end(), s.tokens.begin(), s.tokens.end());
    r.sequences.push_back(std::move(sequence));
    r.offsets.push_back(r.offsets.back() + static_cast<int64_t>(s.tokens.size()));
    r.logp_sampler.insert(r.logp_sampler.end(), s.logp.begin(), s.logp.end());
    // A response that ran out of room has no answer, whatever its text says.
    r.rewards.push_back(s.finished ? tasks::reward(*problems[i], tokenizer.decode(s.tokens)) : 0.0);
    r.finished.push_back(s.finished ? 1 : 0);
    if (!s.routes.empty()) r.routes.push_back(std::move(s.routes));
  }
  r.penalties.assign(r.rewards.size(), 0.0);
  r.mask.assign(r.logp_sampler.size(), 1);
  return r;
}

Rollout roll_out(const StageContext& ctx, learn::Stage stage, int64_t step, StepRecord& record) {
  const RlConfig& c = ctx.config.rl;
  Counts counts;
  const auto draw = [&](int64_t index) { return sample(ctx, {stage, step, index}, record); };
  Rollout first = draw(0);
  const std::vector<int64_t> kept = groups_with_signal(c.n, first.rewards);
  count(first, static_cast<int64_t>(kept.size()), c, counts);
  if (!c.filter_groups) {
    write_metrics(counts, c, record.metrics);
    return first;
  }
  Rollout chosen;
  chosen.contract = first.contract;
  take(chosen, first, kept, c);
  while (chosen.responses() < c.train_batch_size * c.n && counts.rollouts < c.max_num_gen_batches) {
    const Rollout more = draw(counts.rollouts);
    const std::vector<int64_t> useful = groups_with_signal(c.n, more.rewards);
    count(more, static_cast<int64_t>(useful.size()), c, counts);
    take(chosen, more, useful, c);
  }
  take(chosen, first, others(kept, c), c);
  write_metrics(counts, c, record.metrics);
  return chosen;
}

}  // namespace minite::rl
