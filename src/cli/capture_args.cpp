#include "cli/capture_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "core/fail.h"
#include "diagnostics/capture_manifest.h"
#include "rl/capture_fault.h"

namespace minite::cli {
namespace {

namespace fs = std::filesystem;

void add_run_options(CLI::App& app, CaptureArgs& args) {
  app.add_option("--data", args.data, "JSONL of problems {\"prompt\", \"answer\"}");
  app.add_option("--problems", args.problems, "take the first N problems; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--role", args.role, "learner (packed forward pass) or sampler (prefill and decode)")
      ->required()
      ->check(CLI::IsMember({"learner", "sampler"}));
  app.add_option("--tokens", args.tokens, "score the prompts and responses of this capture, as it drew them");
  app.add_option("--samples", args.samples, "responses a prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--max-new-tokens", args.draw.max_new_tokens, "longest response")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", args.temperature,
                 "of drawing and of log-probs (default: 1, or as --tokens)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-k", args.top_k, "of drawing, 0: all (default: 0, or as --tokens)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", args.top_p, "of drawing (default: 1, or as --tokens)")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option(
      "--router-replay", args.replay,
      "whose experts a learner takes: off, R2 (of a learner's --tokens) or R3 (of any) (default: off, "
      "or as --tokens)");
  app.add_option("--seed", args.draw.seed, "seed of the draws")->capture_default_str();
}

void add_fault_options(CLI::App& app, CaptureArgs& args) {
  std::vector<std::string_view> names;
  for (const rl::Fault& fault : rl::faults()) names.push_back(fault.name);
  app.add_option("--inject", args.inject,
                 fmt::format("run this side with faults, with commas: {}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--inject-layer", args.inject_layer, "layer of the fault (default: the middle)");
}

void add_store_options(CLI::App& app, CaptureArgs& args) {
  app.add_option("-o,--output", args.output, "folder to write; a capture that exists is replaced")
      ->required();
  app.add_option("--points", args.points,
                 "store these points only, with commas: patterns for POINT or MODULE.POINT, e.g. "
                 "output,qkv.*,weight.*")
      ->delimiter(',');
  app.add_option("--layers", args.layers, "store these layers only, with commas")->delimiter(',');
  app.add_option("--max-tokens", args.max_tokens, "store the first N positions of a sequence; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--expert-ranks", args.expert_ranks,
                 "store experts as if they lay on N ranks, each with a run of them; no number changes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--logits", args.logits, "store lm_head.output, one row of the vocabulary a token, too");
}

}  // namespace

void add_capture_options(CLI::App& app, CaptureArgs& args) {
  add_load_options(app, args.load);
  add_run_options(app, args);
  add_fault_options(app, args);
  add_store_options(app, args);
  add_json_flag(app, args.style);
}

void check_output(const CaptureArgs& args) {
  const fs::path output = args.output;
  require(args.tokens.empty() || !fs::exists(output) || !fs::equivalent(output, args.tokens),
          "-o {} is the capture that --tokens reads; choose another folder", args.output);
  if (!fs::exists(output) || (fs::is_directory(output) && fs::is_empty(output))) return;
  try {
    (void)diagnostics::read_capture_manifest(output);
  } catch (const Error&) {
    fail(ErrorCode::invalid_argument, "-o {} exists and is no capture; choose another folder", args.output);
  }
}

void check_places(const CaptureArgs& args, const ModelConfig& model) {
  for (const int layer : args.layers) {
    require(layer >= 0 && layer < model.num_hidden_layers,
            "--layers {} is no layer of the model, which has layers 0 to {}", layer,
            model.num_hidden_layers - 1);
  }
  require(args.expert_ranks == 1 || args.expert_ranks <= model.num_experts,
          "--expert-ranks {} leaves ranks without experts: the model has {}", args.expert_ranks,
          model.num_experts);
}

}  // namespace minite::cli
