// minite eval CKPT --data FILE: pass@1 and pass@k.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "cli/ladder.h"
#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/scores.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "tasks/jsonl.h"
#include "tasks/score.h"

namespace minite::cli {
namespace {

struct EvalArgs {
  LoadOptions load;
  std::string data;
  SampleParams sample;
  int64_t k = 1;
  int64_t samples = 0;  ///< 0: k
  ReportStyle style = ReportStyle::text;
  bool ladder = false;
  std::vector<std::string> recipes;  ///< of the ladder
  std::string text, converted;
  int64_t limit = 0;
};

int eval(EvalArgs args) {
  if (args.ladder) {
    require(args.load.recipe.empty(), "--ladder takes --recipes, not --recipe {}", args.load.recipe);
    require(args.k == 1 && args.samples == 0,
            "--ladder draws one answer a problem; --k and --samples do not apply");
    if (args.recipes.empty()) args.recipes = ladder_recipes();
    return ladder(
        {args.load, args.data, args.text, args.converted, args.recipes, args.sample, args.limit, args.style});
  }
  require(!args.data.empty(), "--data is missing: JSONL of problems");
  require(args.text.empty() && args.converted.empty() && args.recipes.empty() && args.limit == 0,
          "--text, --converted, --recipes and --max-tokens belong to --ladder");
  const int64_t n = args.samples == 0 ? args.k : args.samples;
  require(n >= args.k, "--samples {} is less than --k {}; pass@k needs at least k samples", n, args.k);
  require(n == 1 || args.sample.temperature > 0, "--temperature 0 repeats one answer; use it with --k 1");
  const std::vector<tasks::Problem> problems = tasks::read_problems(args.data);
  LoadedModel model(args.load);
  double pass_1 = 0, pass_k = 0;
  for (const int64_t right : right_answers(model, problems, n, args.sample)) {
    pass_1 += tasks::pass_at_k(n, right, 1);
    pass_k += tasks::pass_at_k(n, right, args.k);
  }
  const auto count = static_cast<double>(problems.size());
  if (args.style == ReportStyle::json) {
    print_json({{"recipe", model.recipe()},
                {"kv_cache", model.kv_cache()},
                {"problems", problems.size()},
                {"samples", n},
                {"k", args.k},
                {"pass@1", pass_1 / count},
                {"pass@k", pass_k / count}});
    return kOk;
  }
  print(fmt::format("{} problems, {} samples each, recipe {}, KV {}\npass@1  {:.4f}\n", problems.size(), n,
                    model.recipe(), model.kv_cache(), pass_1 / count));
  if (args.k > 1) print(fmt::format("pass@{}  {:.4f}\n", args.k, pass_k / count));
  return kOk;
}

}  // namespace

std::function<int()> add_eval(CLI::App& app) {
  auto args = std::make_shared<EvalArgs>();
  add_load_options(app, args->load);
  app.add_option("--data", args->data, "JSONL of problems");
  app.add_flag("--ladder", args->ladder,
               "what a score loses to the format and what to a conversion: BF16, weights quantized here, "
               "weights of --converted");
  app.add_option("--text", args->text, "--ladder: a text whose perplexity is measured too");
  app.add_option("--max-tokens", args->limit, "--ladder: take the first N tokens of the text; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--converted", args->converted, "--ladder: a folder that holds the weights in codes");
  app.add_option("--recipes", args->recipes,
                 fmt::format("--ladder: with commas (default: {})", fmt::join(ladder_recipes(), ",")))
      ->delimiter(',');
  app.add_option("--k", args->k, "attempts of pass@k")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--samples", args->samples, "samples a problem, at least k (default: k)");
  args->sample.max_new_tokens = 512;
  app.add_option("--max-new-tokens", args->sample.max_new_tokens,
                 "longest response; one that is cut counts as wrong")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", args->sample.temperature, "0: greedy")->capture_default_str();
  app.add_option("--seed", args->sample.seed, "seed of the draws")->capture_default_str();
  add_json_flag(app, args->style);
  return [args] { return eval(*args); };
}

}  // namespace minite::cli
