#include "cli/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/registry.h"
#include "cli/scores.h"
#include "cli/verb.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "diagnostics/error_stats.h"
#include "learn/checkpoint.h"
#include "learn/stored_codes.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kMaxBytes = int64_t{1} << 30;
constexpr size_t kShown = 8;  ///< layers in the text report

struct Rung {
  std::string_view name;  ///< bf16, online, offline
  std::string recipe;
  std::optional<double> nll, accuracy;
};

/// The weights of a linear layer under a recipe, against BF16.
struct LayerRow {
  std::string recipe, module;
  diagnostics::ErrorStats online;
  std::optional<diagnostics::ErrorStats> offline;
  int64_t code_bytes = 0, differing = 0;  ///< bytes of codes and block scales; those that differ offline
};

struct Ladder {
  std::vector<Rung> rungs;
  std::vector<LayerRow> layers;
  std::vector<std::string> notes;
  int64_t scored = 0;
  size_t problems = 0;
};

Rung measure(const LadderArgs& args, std::string_view name, const std::string& recipe,
             const CodesSource* codes, const std::vector<tasks::Problem>& problems, Ladder& ladder) {
  LoadOptions load = args.load;
  load.recipe = recipe;
  load.codes = codes;
  LoadedModel model(load);
  Rung rung{name, recipe, {}, {}};
  if (!args.text.empty()) {
    const std::string text = read_text_file(args.text, kMaxBytes);
    std::vector<int32_t> ids = model.tokenizer().encode_prompt(text);
    if (args.limit > 0 && args.limit < std::ssize(ids)) ids.resize(static_cast<size_t>(args.limit));
    require(ids.size() >= 2, "{}: {} tokens; a perplexity needs two, the first is only read", args.text,
            ids.size());
    const int64_t window = std::min(kScoreWindow, model.config().max_position_embeddings);
    const std::vector<float> logp = model.score(windows_of(ids, window, window));
    ladder.scored = std::ssize(logp);
    rung.nll = mean_nll(logp);
  }
  if (!problems.empty()) {
    const std::vector<int64_t> right = right_answers(model, problems, 1, args.sample);
    rung.accuracy =
        static_cast<double>(std::count(right.begin(), right.end(), 1)) / static_cast<double>(problems.size());
  }
  return rung;
}

/// Why a recipe has no offline rung with this folder; "" when it has one.
std::string no_offline(const QuantSpec& spec, const learn::StoredCodes& stored) {
  const auto& modules = stored.folder().modules;
  if (!spec.quantized()) return "its weights are not quantized";
  if (modules.empty()) return "the folder holds no codes";
  const FormatId held = modules.begin()->second.layout->format;
  if (held != spec.format)
    return fmt::format("the folder holds {}, its weights are {}", format(held).name,
                       format(spec.format).name);
  if (spec.blocks != BlockShape::row)
    return "its weights have 2D blocks, those of the folder are blocks of a row";
  return {};
}

class LayerErrors {
 public:
  explicit LayerErrors(const LadderArgs& args)
      : args_(args),
        pool_(args.load.threads > 0 ? static_cast<int>(args.load.threads) : env_threads()),
        weights_(load_model_config(args.load.checkpoint), DType::bf16, Purpose::inference),
        table_(&backend(args.load.backend == "auto" ? env_backend() : args.load.backend)) {
    load_model(args.load.checkpoint, weights_);
  }
  void add(const std::string& recipe, const CodesSource* stored, std::vector<LayerRow>& rows) {
    const Context ctx{table_, &pool_, nullptr, {}};
    const std::vector<Rule> rules =
        args_.load.rules.empty() ? std::vector<Rule>{} : load_rules(args_.load.rules);
    for (const ResolvedLinear& linear : resolve(recipe, rules, linear_modules(weights_.config()),
                                                static_cast<int>(weights_.config().num_hidden_layers))) {
      if (!linear.params.fprop.b.quantized()) continue;
      WeightCache online(weights_), offline(weights_);
      const auto made = online.add_units(linear.module.name, linear.params);
      online.refresh(ctx);
      LayerRow row{recipe, linear.module.name, {}, {}, 0, 0};
      for (const LinearWeights& unit : made) row.online.merge(error(ctx, unit));
      if (stored != nullptr) {
        const auto held = offline.add_units(linear.module.name, linear.params);
        offline.refresh(ctx, stored);
        row.offline.emplace();
        for (size_t u = 0; u < held.size(); ++u) {
          row.offline->merge(error(ctx, held[u]));
          compare(made[u].fprop, held[u].fprop, row);
        }
      }
      rows.push_back(std::move(row));
    }
  }

 private:
  static void compare(const QTensor& a, const QTensor& b, LayerRow& row) {
    const auto count = [&](const uint8_t* x, const uint8_t* y, int64_t bytes) {
      row.code_bytes += bytes;
      for (int64_t i = 0; i < bytes; ++i) row.differing += x[i] != y[i] ? 1 : 0;
    };
    count(a.codes, b.codes, a.rows * a.code_stride());
    count(a.block_scales, b.block_scales, a.rows * a.scale_stride());
  }
  diagnostics::ErrorStats error(const Context& ctx, const LinearWeights& unit) {
    const int64_t rows = unit.dense.rows, cols = unit.dense.cols;
    decoded_.resize(static_cast<size_t>(rows * cols));
    ops::dequantize(ctx, {unit.fprop, TensorView(decoded_.data(), rows, cols)});
    diagnostics::ErrorStats all;
    std::vector<float> exact(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c)
        exact[static_cast<size_t>(c)] = static_cast<float>(unit.dense.row<const bf16>(r)[c]);
      all.add(exact, std::span<const float>(decoded_).subspan(static_cast<size_t>(r * cols),
                                                              static_cast<size_t>(cols)));
    }
    return all;
  }

  const LadderArgs& args_;
  ThreadPool pool_;
  Weights weights_;
  const OpTable* table_;
  std::vector<float> decoded_;
};

Ladder climb(const LadderArgs& args) {
  Ladder ladder;
  std::vector<tasks::Problem> problems;
  if (!args.data.empty()) problems = tasks::read_problems(args.data);
  ladder.problems = problems.size();
  std::unique_ptr<learn::StoredCodes> stored;
  if (!args.converted.empty()) stored = std::make_unique<learn::StoredCodes>(args.converted);
  ladder.rungs.push_back(measure(args, "bf16", "bf16", nullptr, problems, ladder));
  LayerErrors layers(args);
  for (const std::string& recipe : args.recipes) {
    const CodesSource* codes = stored.get();
    if (stored != nullptr) {
      const std::string why = no_offline(get_qlinear_params(recipe).fprop.b, *stored);
      if (!why.empty()) {
        ladder.notes.push_back(fmt::format("{} has no offline rung: {}", recipe, why));
        codes = nullptr;
      }
    }
    ladder.rungs.push_back(measure(args, "online", recipe, nullptr, problems, ladder));
    if (codes != nullptr) ladder.rungs.push_back(measure(args, "offline", recipe, codes, problems, ladder));
    layers.add(recipe, codes, ladder.layers);
  }
  return ladder;
}

void print_document(const LadderArgs& args, const Ladder& ladder) {
  ordered_json rows = ordered_json::array(), layers = ordered_json::array();
  for (const Rung& rung : ladder.rungs) {
    ordered_json row = {{"rung", rung.name}, {"recipe", rung.recipe}};
    if (rung.nll) {
      set_number(row, "nll", *rung.nll);
      set_number(row, "perplexity", std::exp(*rung.nll));
    }
    if (rung.accuracy) row["pass@1"] = *rung.accuracy;
    rows.push_back(std::move(row));
  }
  for (const LayerRow& layer : ladder.layers) {
    ordered_json row = {{"recipe", layer.recipe}, {"module", layer.module}};
    set_number(row, "online_relative_l2", layer.online.relative_l2());
    if (layer.offline) {
      set_number(row, "offline_relative_l2", layer.offline->relative_l2());
      row["bytes"] = layer.code_bytes;
      row["differing_bytes"] = layer.differing;
    }
    layers.push_back(std::move(row));
  }
  print_json({{"checkpoint", args.load.checkpoint},
              {"text", args.text},
              {"scored", ladder.scored},
              {"data", args.data},
              {"problems", ladder.problems},
              {"converted", args.converted},
              {"rows", rows},
              {"layers", layers},
              {"notes", ladder.notes}});
}

std::string rungs_text(const Ladder& ladder) {
  Table table({"rung", "recipe", "perplexity", "nats a token", "to the rung before", "pass@1"});
  const Rung* above = nullptr;
  for (const Rung& rung : ladder.rungs) {
    // Online stands below BF16 whatever recipe came before it; offline below its own online rung.
    const Rung* before = rung.name == "offline"  ? above
                         : rung.name == "online" ? &ladder.rungs.front()
                                                 : nullptr;
    table.add({std::string(rung.name), rung.recipe, rung.nll ? fixed_text(std::exp(*rung.nll), 4) : "",
               rung.nll ? fixed_text(*rung.nll, 5) : "",
               rung.nll && before != nullptr ? fixed_text(*rung.nll - *before->nll, 5) : "",
               rung.accuracy ? fixed_text(*rung.accuracy, 4) : ""});
    above = &rung;
  }
  return table.to_text();
}

std::string layers_text(const Ladder& ladder) {
  std::vector<const LayerRow*> worst;
  for (const LayerRow& layer : ladder.layers) worst.push_back(&layer);
  const auto error = [](const LayerRow* l) {
    return std::max(l->online.relative_l2(), l->offline ? l->offline->relative_l2() : 0.0);
  };
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const LayerRow* a, const LayerRow* b) { return error(a) > error(b); });
  if (worst.size() > kShown) worst.resize(kShown);
  Table table({"weights of", "recipe", "online L2", "offline L2", "bytes that differ"});
  for (const LayerRow* layer : worst)
    table.add({layer->module, layer->recipe, number_text(layer->online.relative_l2()),
               layer->offline ? number_text(layer->offline->relative_l2()) : "",
               layer->offline ? fmt::format("{} of {}", layer->differing, layer->code_bytes) : ""});
  return fmt::format("\nThe {} layers furthest from BF16, of {} (--json has all):\n{}", worst.size(),
                     ladder.layers.size(), table.to_text());
}

}  // namespace

std::vector<std::string> ladder_recipes() {
  return {"nvfp4_w4a16", "nvfp4_w4a8_mxfp8", "nvfp4_per_token", "nvfp4_2d"};
}

int ladder(const LadderArgs& args) {
  require(!args.data.empty() || !args.text.empty(), "--ladder needs --data, --text or both");
  const Ladder found = climb(args);
  if (args.style == ReportStyle::json) {
    print_document(args, found);
    return kOk;
  }
  std::string text = rungs_text(found);
  if (!found.layers.empty()) text += layers_text(found);
  for (const std::string& note : found.notes) text += note + "\n";
  print(text);
  return kOk;
}

}  // namespace minite::cli
