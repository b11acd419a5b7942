#include "cli/bench/learner.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/recording.h"
#include "backends/registry.h"
#include "cli/bench/specs.h"
#include "core/cpu.h"
#include "core/fail.h"
#include "core/philox.h"
#include "diagnostics/profile.h"
#include "learn/learner.h"
#include "rl/probing.h"

namespace minite::cli {
namespace {

/// A model and the tokens of a step.
struct Size {
  const char* name;
  int64_t hidden, intermediate, layers, heads, vocab, sequences, length;
};
constexpr Size kSizes[] = {
    {"learner/demo", 96, 256, 3, 4, 32, 16, 64},
    {"learner/width512", 512, 1536, 2, 8, 512, 4, 64},
};
constexpr const char* kRecipe = "nvfp4_per_token";
constexpr int kPairs = 6;       ///< a round, at least: the fewest that a median's interval takes
constexpr int64_t kEvery = 10;  ///< steps from one with statistics to the next

ModelConfig model_of(const Size& s) {
  ModelConfig c;
  c.vocab_size = s.vocab;
  c.hidden_size = s.hidden;
  c.intermediate_size = s.intermediate;
  c.num_hidden_layers = s.layers;
  c.num_attention_heads = s.heads;
  c.num_key_value_heads = s.heads / 2;
  c.head_dim = s.hidden / s.heads;
  c.max_position_embeddings = s.length;
  c.rope_theta = 10000;
  return c;
}

/// A learner with a step of its own: forward, backward, optimizer, quantization of the weights.
class Step {
 public:
  Step(const Size& size, const OpTable& table, ThreadPool& pool)
      : weights_(model_of(size), DType::bf16, Purpose::training),
        cache_(weights_),
        network_(weights_, cache_,
                 resolve(kRecipe, {}, linear_modules(weights_.config()), static_cast<int>(size.layers)),
                 table, Policy{}),
        learner_(weights_, network_, table, pool, {size.sequences * size.length, size.length}) {
    weights_.initialize(1);
    cache_.refresh(learner_.context());
    for (int64_t s = 0; s < size.sequences; ++s) {
      Sequence sequence{{}, 8};
      for (int64_t t = 0; t < size.length; ++t) {
        const auto word = Philox::generate(2, static_cast<uint64_t>(s * size.length + t), 0)[0];
        sequence.tokens.push_back(static_cast<int32_t>(word % static_cast<uint32_t>(size.vocab)));
      }
      sequences_.push_back(std::move(sequence));
    }
  }

  void run(Probe* probe) {
    learner_.set_probe(probe);
    StepResult result =
        learner_.accumulate(sequences_, 1.0f, Learner::EntropyGradient::none,
                            [](const MicroBatch& m) { std::fill(m.dlogp.begin(), m.dlogp.end(), -1e-3f); });
    learner_.apply({}, ++update_, result);
    cache_.refresh(learner_.context());
  }
  [[nodiscard]] const Weights& weights() const { return weights_; }

 private:
  Weights weights_;
  WeightCache cache_;
  Network network_;
  Learner learner_;
  std::vector<Sequence> sequences_;
  int64_t update_ = 0;
};

/// Is told of everything and declines it, counting.
class SilentProbe : public Probe {
 public:
  void value(const Tap& /*at*/, const TensorView& /*value*/) override { ++told; }
  void codes(const Tap& /*at*/, const QTensor& /*codes*/) override { ++told; }
  void columns(const Tap& /*at*/, const TensorView& /*value*/, const QTensor& /*codes*/) override { ++told; }
  void batch(const BatchRows& /*rows*/) override { ++told; }
  void scored(std::span<const int32_t> /*rows*/) override { ++told; }
  void experts(int /*layer*/, const ExpertRows& /*rows*/) override { ++told; }

  int64_t told = 0;
};

/// A way of looking, and the time of a step with it relative to the bare one.
struct Look {
  const char* name;
  const char* what;
  double must;
  std::function<double(double bare, double looked)> time;  ///< of a step, from the two that were timed
  std::function<void()> run;
};

BenchRow row_of(const Size& size, const std::string& name, const std::string& what, double must) {
  BenchRow row;
  row.name = fmt::format("{}/{}", size.name, name);
  row.problem = fmt::format("{}; {} layers of {}, {} tokens, {}", what, size.layers, size.hidden,
                            size.sequences * (size.length - 1), kRecipe);
  row.unit = "steps/s";
  row.rival = RivalId::bare_step;
  row.against = rival_name(row.rival);
  row.must = must;
  return row;
}

/// Pairs of a bare step and one that is looked at, each pair the other way round than the last: a machine
/// that slows down slows both, and neither always comes second.
BenchRow measure(const Size& size, const Look& look, const std::function<void()>& bare,
                 const BenchOptions& options, int threads) {
  const int pairs = std::max(calls_for(bare, threads), kPairs) * options.rounds;
  look.run();  // warm
  const bool cpu = threads == 1;
  std::vector<double> ours, theirs, ratios, wall;
  for (int pair = 0; pair < pairs; ++pair) {
    Times plain, looked;
    if (pair % 2 == 0) plain = times(bare);
    looked = times(look.run);
    if (pair % 2 == 1) plain = times(bare);
    const double base = cpu ? plain.cpu : plain.wall;
    theirs.push_back(1 / base);
    ours.push_back(1 / look.time(base, cpu ? looked.cpu : looked.wall));
    ratios.push_back(ours.back() / theirs.back());
    wall.push_back(plain.wall / look.time(plain.wall, looked.wall));
  }
  BenchRow row = row_of(size, look.name, look.what, look.must);
  row.paired = Paired{median_interval(ratios), median_interval(wall), pairs, cpu ? "cpu" : "wall"};
  row.ours = spread(ours), row.theirs = spread(theirs), row.ratio = spread(ratios);
  row.ratio.median = row.paired->ratio.median;
  return row;
}

/// Seconds of a test of a context's probe that finds none, with the loop around it.
double null_check() {
  constexpr int64_t kTests = 1 << 22;
  Context context;
  const TensorView nothing;
  const double spent = seconds(
      [&] {
        for (int64_t i = 0; i < kTests; ++i) {
          asm volatile("" : "+m"(context.probe));  // another value each time, for all that the compiler knows
          context.observe(0, "down", nothing);
        }
      },
      1);
  return spent / static_cast<double>(kTests);
}

/// What a run without a probe pays for having the places where one could listen: there is no build without
/// them to compare with. Each that a listener is told of is a test of a pointer when there is none; some
/// share a test.
BenchRow unlistened(const Size& size, const std::function<void()>& bare, SilentProbe& silent,
                    const std::function<void()>& told, const BenchOptions& options, int threads) {
  silent.told = 0;
  told();
  const auto places = static_cast<double>(silent.told);
  std::vector<double> ours, theirs, ratios;
  double test = 0;
  for (int round = 0; round < kPairs * options.rounds; ++round) {
    const double plain = seconds(bare, threads), each = null_check();
    test = std::max(test, each);
    theirs.push_back(1 / plain);
    ratios.push_back((plain - places * each) / plain);
    ours.push_back(theirs.back() * ratios.back());
  }
  BenchRow row = row_of(
      size, "probe_off",
      fmt::format("{} places to listen, {:.2f} ns at most for a test that finds nobody", places, 1e9 * test),
      0.99);
  row.paired = Paired{median_interval(ratios), median_interval(ratios), static_cast<int64_t>(ratios.size()),
                      threads == 1 ? "cpu" : "wall"};
  row.ours = spread(ours), row.theirs = spread(theirs), row.ratio = spread(ratios);
  row.ratio.median = row.paired->ratio.median;
  return row;
}

/// The ways of looking at `step`; `recorded` is the same step on a recorded backend.
std::vector<Look> looks(Step& step, Step& recorded, SilentProbe& silent, diagnostics::StepProbe& stats) {
  const auto itself = [](double, double looked) { return looked; };
  const auto tenth = [](double bare, double looked) {
    return (static_cast<double>(kEvery - 1) * bare + looked) / static_cast<double>(kEvery);
  };
  return {
      {"declined", "a listener that is told of everything and declines it", 0.99, itself,
       [&] { step.run(&silent); }},
      {"stats_10th", "the usual statistics on every 10th step", 0.95, tenth,
       [&] {
         stats.begin(1, {});
         step.run(stats.side(diagnostics::Side::learner));
         rl::show_gradients(stats, step.weights());
         (void)stats.finish();
       }},
      {"profile", "every op recorded", 0, itself, [&] { recorded.run(nullptr); }},
  };
}

}  // namespace

BenchTable bench_learner(const BenchOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  require(options.rounds >= 1, "--rounds {}: at least 1", options.rounds);
  BenchTable table;
  table.threads = options.threads == 0 ? cpu_info().hardware_threads : options.threads;
  const OpTable& plain = backend("auto");
  table.backend = plain.name;
  const std::regex filter = parse_filter(options.filter);
  ThreadPool pool(table.threads);
  for (const Size& size : kSizes) {
    diagnostics::TraceRecorder recorder;
    const Recording recording(plain, recorder);
    Step step(size, plain, pool), recorded(size, recording.table(), pool);
    SilentProbe silent;
    diagnostics::StepProbe stats(
        diagnostics::parse_probe_rules(std::string(diagnostics::default_probe_rules()), "the default rules"),
        Context{&plain, &pool, nullptr, {}});
    const auto bare = [&] { step.run(nullptr); };
    const auto wanted = [&](const char* look) {
      const std::string name = fmt::format("{}/{}", size.name, look);
      if (!std::regex_search(name, filter)) return false;
      progress(name);
      return true;
    };
    if (wanted("probe_off")) {
      table.rows.push_back(unlistened(
          size, bare, silent, [&] { step.run(&silent); }, options, table.threads));
    }
    for (const Look& look : looks(step, recorded, silent, stats)) {
      if (wanted(look.name)) table.rows.push_back(measure(size, look, bare, options, table.threads));
    }
  }
  require(!table.rows.empty(), "--filter '{}' names no row of bench learner", options.filter);
  return table;
}

}  // namespace minite::cli
