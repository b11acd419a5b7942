// minite gap CKPT --data FILE: the grid of gaps between learners and samplers.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "backends/registry.h"
#include "cli/gap_text.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "diagnostics/gap_page.h"
#include "learn/checkpoint.h"
#include "rl/loop.h"
#include "tasks/jsonl.h"

namespace minite::cli {
namespace {

struct GapArgs {
  std::string checkpoint, data, rules, policy, backend, tokens_json, html;
  std::vector<std::string> learner, sampler, kv_cache, learner_kv, replay;
  int64_t problems = 0, samples = 4, max_new_tokens = 128;
  std::optional<int64_t> threads;
  uint64_t seed = 0;
  double temperature = 1.0;
  std::optional<double> expect, tail;
  bool details = false;
  ReportStyle style = ReportStyle::text;
};

/// The configuration of the run that `checkpoint` belongs to (RUN/checkpoints/step_N), if it does.
std::optional<rl::RunConfig> run_of(const std::filesystem::path& checkpoint) {
  const std::filesystem::path folder =
      std::filesystem::absolute(checkpoint / "").lexically_normal().parent_path().parent_path();
  if (folder.filename() != "checkpoints" || !std::filesystem::exists(folder.parent_path() / "config.yaml"))
    return {};
  return rl::load_run_config(folder.parent_path());
}

/// Every recipe with every format of keys and values.
std::vector<rl::GapSide> sides(const std::vector<std::string>& recipes, std::string_view kv_option,
                               const std::vector<std::string>& formats) {
  std::vector<rl::GapSide> all;
  for (const std::string& recipe : recipes) {
    for (const std::string& kv : formats)
      all.push_back({std::string(get_recipe(recipe).name), parse_kv_format(kv_option, kv)});
  }
  return all;
}

std::vector<std::string> given_or(const std::vector<std::string>& given, std::vector<std::string> otherwise) {
  return given.empty() ? std::move(otherwise) : given;
}

GapRequest make_request(const GapArgs& args) {
  GapRequest request{args.checkpoint, args.data, "", 0, {}, {}, {}, args.expect};
  const std::optional<rl::RunConfig> run = run_of(args.checkpoint);
  if (run) request.config = *run;
  rl::RunConfig& c = request.config;
  if (!args.rules.empty()) {
    c.rules = read_text_file(args.rules);
    (void)parse_rules(c.rules, args.rules);
  }
  if (!args.policy.empty()) c.sampler_policy = args.policy;
  if (!args.backend.empty()) c.backend = args.backend;
  if (args.threads) c.threads = *args.threads;
  const std::vector<std::string> both = {"bf16", "nvfp4_per_token"};
  rl::GapGridOptions& o = request.options;
  o.learners = sides(given_or(args.learner, run ? std::vector{c.learner_recipe} : both), "--learner-kv",
                     given_or(args.learner_kv, {std::string(kv_format(c.learner_kv).name)}));
  o.samplers = sides(given_or(args.sampler, run ? std::vector{c.sampler_recipe} : both), "--kv-cache",
                     given_or(args.kv_cache, {std::string(kv_format(c.kv_cache).name)}));
  o.replay.clear();
  for (const std::string& mode : given_or(args.replay, {c.rl.router_replay}))
    o.replay.push_back(rl::parse<rl::RouterReplay>(mode));
  o.samples = args.samples;
  o.max_new_tokens = args.max_new_tokens;
  o.temperature = static_cast<float>(args.temperature);
  o.seed = args.seed;
  o.tail_threshold = args.tail;
  return request;
}

std::vector<tasks::Problem> problems_of(const GapArgs& args) {
  std::vector<tasks::Problem> all = tasks::read_problems(args.data);
  if (args.problems > 0 && static_cast<size_t>(args.problems) < all.size())
    all.resize(static_cast<size_t>(args.problems));
  return all;
}

/// Draws and scores; fills what the request learns on the way.
rl::GapGrid run_grid(const GapArgs& args, GapRequest& request, const io::Tokenizer& tokenizer) {
  const std::vector<tasks::Problem> problems = problems_of(args);
  Weights weights(load_model_config(args.checkpoint), DType::bf16, Purpose::inference);
  require_fit(tokenizer, weights.config(), args.checkpoint);
  load_model(args.checkpoint, weights);
  const rl::RunConfig& c = request.config;
  const OpTable& table = backend(c.backend == "auto" ? env_backend() : c.backend);
  ThreadPool pool(c.threads > 0 ? static_cast<int>(c.threads) : env_threads());
  request.backend = table.name;
  request.problems = static_cast<int64_t>(problems.size());
  request.model = weights.config();
  return rl::gap_grid({weights, c, tokenizer, problems, table, pool}, request.options,
                      [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); });
}

int gap(const GapArgs& args) {
  GapRequest request = make_request(args);
  const std::unique_ptr<io::Tokenizer> tokenizer = io::load_tokenizer(args.checkpoint);
  const rl::GapGrid grid = run_grid(args, request, *tokenizer);
  const nlohmann::ordered_json document = gap_document(request, grid);
  if (!args.tokens_json.empty())
    write_file_atomically(args.tokens_json, json_text(token_document(request, grid, *tokenizer)));
  if (!args.html.empty())
    write_file_atomically(args.html, diagnostics::render_gap(nlohmann::json(document), args.checkpoint));
  if (args.style == ReportStyle::json) {
    print_json(document);
  } else {
    print(gap_text(request, grid) + (args.details ? gap_details_text(grid) : ""));
  }
  if (!args.expect) return kOk;
  const std::string failures = gap_failures(grid, *args.expect);
  if (failures.empty()) return kOk;
  std::fprintf(stderr, "minite gap: --expect %g does not hold\n%s", *args.expect, failures.c_str());
  return kCheckFailed;
}

void add_grid_options(CLI::App& app, GapArgs& args) {
  app.add_option("--learner", args.learner,
                 "recipes of the learner, with commas (default: the run's, else bf16,nvfp4_per_token)")
      ->delimiter(',');
  app.add_option("--sampler", args.sampler,
                 "recipes of the sampler, with commas; the first draws the tokens (default: as --learner)")
      ->delimiter(',');
  app.add_option("--kv-cache", args.kv_cache,
                 "formats of the sampler's keys and values, with commas (default: the run's, else bf16)")
      ->delimiter(',');
  app.add_option("--learner-kv", args.learner_kv, "the same of the learner (default: the run's, else bf16)")
      ->delimiter(',');
  app.add_option("--router-replay", args.replay,
                 "experts that the learner takes, with commas: off, R3 (those of the cell's sampler) or R2, "
                 "which is off here: it replays in updates (default: the run's, else off)")
      ->delimiter(',');
  app.add_option("--rules", args.rules,
                 "YAML file of per-layer recipes, for both sides (default: the run's)");
  app.add_option("--sampler-policy", args.policy,
                 "batch_invariant, fastest or exact(KERNEL) (default: the run's, else batch_invariant)");
  app.add_option("--backend", args.backend, "auto, simd or ref (default: the run's, else auto)");
  app.add_option("--threads", args.threads, "threads, 0 for all; results do not depend on it")
      ->check(CLI::Range(0, 4096));
}

}  // namespace

std::function<int()> add_gap(CLI::App& app) {
  auto args = std::make_shared<GapArgs>();
  app.add_option("CKPT", args->checkpoint,
                 "checkpoint: a folder, e.g. RUN/checkpoints/step_000240, or a GGUF file")
      ->required();
  app.add_option("--data", args->data, "JSONL of problems {\"prompt\", \"answer\"}")->required();
  add_grid_options(app, *args);
  app.add_option("--problems", args->problems, "take the first N problems; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--samples", args->samples, "responses a prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-new-tokens", args->max_new_tokens, "longest response")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", args->temperature, "of drawing and of every log-prob; 0: greedy, at 1")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seed", args->seed, "seed of the draws")->capture_default_str();
  app.add_option("--expect", args->expect, "exit 1, with the cause, when a cell has a larger |gap|")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--tail-threshold", args->tail, "gap below which a token is in the tail (default: q05)");
  app.add_flag("--details", args->details, "also print tails, regions, segments, concentration, responses");
  app.add_option("--tokens-json", args->tokens_json, "also write every token with every side's log-prob");
  app.add_option("--html", args->html, "also write a page of figures");
  add_json_flag(app, args->style);
  return [args] { return gap(*args); };
}

}  // namespace minite::cli
