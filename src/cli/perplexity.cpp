// minite perplexity CKPT FILE: how well each recipe predicts the tokens of a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/loaded_model.h"
#include "cli/output.h"
#include "cli/scores.h"
#include "cli/verb.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/text_file.h"

namespace minite::cli {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 30;

struct PerplexityArgs {
  LoadOptions load;
  std::string file;
  std::vector<std::string> recipes;
  int64_t window = 0, stride = 0;  ///< 0: kScoreWindow or what the model has room for; the window
  int64_t limit = 0;               ///< tokens of the text; 0: all
  ReportStyle style = ReportStyle::text;
};

struct Row {
  std::string recipe;
  double nll = 0;  ///< nats a token
};

void fit_windows(PerplexityArgs& args, const ModelConfig& model) {
  const int64_t room = model.max_position_embeddings;
  if (args.window == 0) args.window = std::min(kScoreWindow, room);
  if (args.stride == 0) args.stride = args.window;
  require(args.window <= room, "--window {} exceeds the model's max_position_embeddings={}", args.window,
          room);
  require(args.stride <= args.window,
          "--stride {} is longer than --window {}; tokens between would be left out", args.stride,
          args.window);
}

struct Report {
  size_t bytes = 0;
  int64_t tokens = 0, scored = 0;
  std::vector<Row> rows;
};

Report score(PerplexityArgs& args) {
  const std::string text = read_text_file(args.file, kMaxBytes);
  Report report;
  report.bytes = text.size();
  for (const std::string& recipe : args.recipes) {
    args.load.recipe = recipe;
    LoadedModel model(args.load);
    fit_windows(args, model.config());
    std::vector<int32_t> ids = model.tokenizer().encode_prompt(text);
    if (args.limit > 0 && args.limit < std::ssize(ids)) ids.resize(static_cast<size_t>(args.limit));
    require(ids.size() >= 2, "{}: {} tokens; a perplexity needs two, the first is only read", args.file,
            ids.size());
    const std::vector<float> logp = model.score(windows_of(ids, args.window, args.stride));
    report.tokens = std::ssize(ids), report.scored = std::ssize(logp);
    report.rows.push_back({model.recipe(), mean_nll(logp)});
  }
  return report;
}

void print_document(const PerplexityArgs& args, const Report& report) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : report.rows) {
    list.push_back({{"recipe", row.recipe}});
    set_number(list.back(), "nll", row.nll);
    set_number(list.back(), "perplexity", std::exp(row.nll));
  }
  print_json({{"file", args.file},
              {"bytes", report.bytes},
              {"tokens", report.tokens},
              {"scored", report.scored},
              {"window", args.window},
              {"stride", args.stride},
              {"kv_cache", args.load.kv_cache},
              {"rows", list}});
}

int perplexity(PerplexityArgs args) {
  if (args.recipes.empty()) args.recipes = {std::string(env_recipe())};
  const Report report = score(args);
  if (args.style == ReportStyle::json) {
    print_document(args, report);
    return kOk;
  }
  Table table({"recipe", "perplexity", "nats a token", "more than the first"});
  for (const Row& row : report.rows) {
    table.add({row.recipe, fixed_text(std::exp(row.nll), 4), fixed_text(row.nll, 5),
               fixed_text(row.nll - report.rows.front().nll, 5)});
  }
  print(fmt::format("{}: {} tokens, {} scored, window {}, stride {}, KV {}\n", args.file, report.tokens,
                    report.scored, args.window, args.stride, args.load.kv_cache) +
        table.to_text());
  return kOk;
}

}  // namespace

std::function<int()> add_perplexity(CLI::App& app) {
  auto args = std::make_shared<PerplexityArgs>();
  add_load_options(app, args->load);
  app.remove_option(app.get_option("--recipe"));
  app.add_option("FILE", args->file, "text, UTF-8")->required();
  app.add_option("--recipe", args->recipes, "recipes, with commas (default: MINITE_RECIPE, else bf16)")
      ->delimiter(',');
  app.add_option("--window", args->window,
                 fmt::format("tokens of one forward pass (default: {}, or the model's room)", kScoreWindow))
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 24));
  app.add_option("--stride", args->stride, "tokens from one window to the next (default: the window)")
      ->check(CLI::PositiveNumber);
  app.add_option("--max-tokens", args->limit, "take the first N tokens of the text; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  add_json_flag(app, args->style);
  return [args] { return perplexity(*args); };
}

}  // namespace minite::cli
