// minite capture CKPT --role learner|sampler -o DIR: everything that one side computed, by what each row is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <filesystem>
#include <memory>

#include "backends/registry.h"
#include "cli/capture_args.h"
#include "cli/capture_routes.h"
#include "cli/capture_tokens.h"
#include "cli/verb.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "diagnostics/capture_sink.h"
#include "io/atomic_folder.h"
#include "learn/checkpoint.h"
#include "learn/run_folder.h"
#include "minite/version.h"
#include "recipes/glob.h"
#include "rl/capture_run.h"
#include "rl/replay.h"
#include "tasks/jsonl.h"

namespace minite::cli {
namespace {

namespace fs = std::filesystem;
using diagnostics::Capture;
using diagnostics::CaptureSink;

/// The number of a folder step_NNNNNN, else 0.
int64_t version_of(const fs::path& checkpoint) {
  const std::string name = (checkpoint / "").lexically_normal().parent_path().filename().string();
  int64_t number = 0;
  if (name.starts_with("step_")) std::from_chars(name.data() + 5, name.data() + name.size(), number);
  return number;
}

/// The newest checkpoint of the same run that is older, or nothing.
std::optional<learn::Checkpoint> earlier_than(const fs::path& checkpoint) {
  const fs::path folder = fs::absolute(checkpoint / "").lexically_normal().parent_path().parent_path();
  if (folder.filename() != "checkpoints") return {};
  std::optional<learn::Checkpoint> best;
  for (learn::Checkpoint& c : learn::list_checkpoints(folder.parent_path())) {
    if (c.global_step < version_of(checkpoint)) best = std::move(c);
  }
  return best;
}

/// What was asked to be stored, for the manifest.
nlohmann::json selection_json(const CaptureArgs& args) {
  return {{"points", args.points},
          {"layers", args.layers},
          {"max_tokens", args.max_tokens},
          {"logits", args.logits}};
}

diagnostics::CaptureSelection selection(const CaptureArgs& args, const ModelConfig& model) {
  const auto wanted = [points = args.points, layers = args.layers](int layer, std::string_view module,
                                                                   std::string_view point) {
    if (layer >= 0 && !layers.empty() && std::ranges::count(layers, layer) == 0) return false;
    const std::string full = fmt::format("{}.{}", module, point);
    return points.empty() || std::ranges::any_of(points, [&](const std::string& pattern) {
             return glob_match(pattern, point) || glob_match(pattern, full);
           });
  };
  return {wanted, args.max_tokens, args.logits, args.expert_ranks, model.num_experts};
}

rl::RunConfig config_of(const LoadOptions& load) {
  rl::RunConfig c;
  if (!load.rules.empty()) {
    c.rules = read_text_file(load.rules);
    (void)parse_rules(c.rules, load.rules);
  }
  c.sampler_policy = load.policy;
  c.backend = load.backend;
  c.sampler_sequences = load.sequences;
  return c;
}

/// How tokens were drawn: as the capture that gives them says, unless the command line does.
SampleParams draw_of(const CaptureArgs& args, const Capture* tokens) {
  SampleParams draw = args.draw;
  if (tokens != nullptr) {
    const io::Contract& c = tokens->manifest().contract;
    draw.temperature = static_cast<float>(c.temperature);
    draw.top_k = c.top_k;
    draw.top_p = static_cast<float>(c.top_p);
  }
  if (args.temperature) draw.temperature = static_cast<float>(*args.temperature);
  if (args.top_k) draw.top_k = *args.top_k;
  if (args.top_p) draw.top_p = static_cast<float>(*args.top_p);
  return draw;
}

/// Whose experts are replayed: as the capture that gives the tokens says, unless the command line does.
rl::RouterReplay replay_of(const CaptureArgs& args, const Capture* tokens, const ModelConfig& model) {
  const std::string inherited = tokens == nullptr ? "off" : tokens->manifest().contract.replay;
  const auto replay = rl::parse<rl::RouterReplay>(args.replay.value_or(inherited));
  require(replay == rl::RouterReplay::off || model.num_experts > 0,
          "--router-replay {} replays experts, but the model has none (num_experts={})", rl::name_of(replay),
          model.num_experts);
  return replay;
}

/// Whether this side takes the experts of --tokens. A sampler never does; a learner that scores a sampler's
/// tokens is the pass for l_old, one that scores a learner's is an update.
bool replays(const CaptureArgs& args, rl::RouterReplay replay, const Capture* tokens) {
  if (args.role != "learner" || tokens == nullptr) return false;
  const rl::RouterReplayRow& row = rl::row_of(rl::kRouterReplay, replay);
  return tokens->manifest().role == "sampler" ? row.old_pass : row.updates;
}

rl::CaptureOptions options_of(const CaptureArgs& args, const SampleParams& draw, rl::RouterReplay replay,
                              const ModelConfig& model) {
  rl::CaptureOptions o;
  o.role = args.role == "learner" ? rl::Role::learner : rl::Role::sampler;
  o.recipe = get_recipe(args.load.recipe.empty() ? env_recipe() : std::string_view(args.load.recipe)).name;
  o.kv = parse_kv_format("--kv-cache", args.load.kv_cache);
  o.draw = draw;
  o.replay = replay;
  o.weight_version = version_of(args.load.checkpoint);
  for (const std::string& name : args.inject) {
    const rl::FaultId id = rl::fault_named(name).id;
    require(std::ranges::count(o.faults, id) == 0, "--inject {}: the fault is given twice", name);
    o.faults.push_back(id);
  }
  o.fault_layer = args.inject_layer.value_or(model.num_hidden_layers / 2);
  if (const auto earlier = earlier_than(args.load.checkpoint)) {
    o.earlier = earlier->path;
    o.earlier_version = earlier->global_step;
  }
  return o;
}

void tell_sequences(const rl::CaptureResult& result, CaptureSink& sink) {
  size_t at = 0;
  for (size_t i = 0; i < result.sequences.size(); ++i) {
    const Sequence& s = result.sequences[i];
    const auto count = static_cast<size_t>(s.response());
    sink.sequence(static_cast<int64_t>(i), {s.tokens, s.prompt, std::span(result.logp).subspan(at, count),
                                            std::span(result.entropy).subspan(at, count)});
    at += count;
  }
}

diagnostics::CaptureManifest manifest_of(const CaptureArgs& args, const rl::CaptureResult& result,
                                         const ModelConfig& model) {
  diagnostics::CaptureManifest m;
  m.role = args.role;
  m.producer = "minite " MINITE_VERSION_STRING;
  m.contract = result.contract;
  m.injected = fmt::format("{}", fmt::join(args.inject, ","));
  m.plans = result.plans;
  m.model = nlohmann::json::parse(to_json(model));
  m.weights = {result.version_in_use, result.in_use};
  m.selection = selection_json(args);
  return m;
}

void say(const CaptureArgs& args, const rl::CaptureResult& result, const diagnostics::CaptureManifest& m) {
  int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(args.output))
    bytes += static_cast<int64_t>(entry.file_size());
  nlohmann::ordered_json replayed = nullptr;
  std::string text;
  if (const auto& r = result.replayed) {
    replayed = {{"rows", r->rows}, {"other_experts", r->experts}, {"other_order", r->order}};
    text = fmt::format(", replayed: {} of {} rows would have gone to other experts", r->experts, r->rows);
  }
  if (args.style == ReportStyle::json) {
    print_json({{"capture", args.output},
                {"role", m.role},
                {"injected",
                 m.injected.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(m.injected)},
                {"contract", nlohmann::ordered_json(io::to_json(m.contract))},
                {"replayed", replayed},
                {"sequences", result.sequences.size()},
                {"response_tokens", result.logp.size()},
                {"tensors", m.tensors.size()},
                {"bytes", bytes}});
    return;
  }
  print(fmt::format("{}: {} with {} (KV {}), {} sequences, {} response tokens, {} tensors, {:.1f} MB{}{}\n",
                    args.output, m.role, m.contract.recipe, m.contract.kv_format, result.sequences.size(),
                    result.logp.size(), m.tensors.size(), static_cast<double>(bytes) * 1e-6, text,
                    m.injected.empty() ? "" : fmt::format(", injected: {}", m.injected)));
}

int capture(const CaptureArgs& args) {
  require(!args.data.empty() || !args.tokens.empty(),
          "capture needs prompts: --data FILE, or --tokens DIR with those of another capture");
  std::vector<tasks::Problem> problems;
  if (!args.data.empty()) problems = tasks::read_problems(args.data);
  if (args.problems > 0 && static_cast<size_t>(args.problems) < problems.size())
    problems.resize(static_cast<size_t>(args.problems));
  std::unique_ptr<Capture> tokens;
  if (!args.tokens.empty()) tokens = std::make_unique<Capture>(args.tokens);
  check_output(args);
  const std::unique_ptr<io::Tokenizer> tokenizer = io::load_tokenizer(args.load.checkpoint);
  Weights weights(
      load_model_config(args.load.checkpoint), DType::bf16,
      std::ranges::count(args.inject, "stale-weights") > 0 ? Purpose::training : Purpose::inference);
  const ModelConfig& model = weights.config();
  require_fit(*tokenizer, model, args.load.checkpoint);
  check_places(args, model);
  load_model(args.load.checkpoint, weights);
  CaptureInputTokens given = tokens ? from_capture(*tokens, problems, *tokenizer)
                                    : from_problems(problems, args.samples, *tokenizer, model);
  const rl::RouterReplay replay = replay_of(args, tokens.get(), model);
  if (replays(args, replay, tokens.get())) given.tokens.routes = recorded_routes(*tokens, model);
  const rl::CaptureOptions options = options_of(args, draw_of(args, tokens.get()), replay, model);
  const rl::RunConfig config = config_of(args.load);
  const OpTable& table = backend(config.backend == "auto" ? env_backend() : config.backend);
  ThreadPool pool(args.load.threads > 0 ? static_cast<int>(args.load.threads) : env_threads());
  io::AtomicFolder folder(args.output);
  CaptureSink sink(folder.path(), selection(args, model),
                   {static_cast<double>(options.draw.temperature), options.draw.top_k,
                    static_cast<double>(options.draw.top_p)},
                   given.samples);
  const rl::CaptureResult result =
      rl::run_capture({weights, config, table, pool}, options, given.tokens, sink);
  tell_sequences(result, sink);
  diagnostics::CaptureManifest manifest = manifest_of(args, result, model);
  manifest.tensors = sink.finish();
  write_capture_manifest(folder.path(), manifest);
  folder.commit();
  say(args, result, manifest);
  return kOk;
}

}  // namespace

std::function<int()> add_capture(CLI::App& app) {
  auto args = std::make_shared<CaptureArgs>();
  add_capture_options(app, *args);
  return [args] { return capture(*args); };
}

}  // namespace minite::cli
