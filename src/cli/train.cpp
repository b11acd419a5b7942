#include "cli/train.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "cli/output.h"
#include "cli/profile_report.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "diagnostics/probe_rules.h"
#include "diagnostics/report.h"
#include "io/json_file.h"

namespace minite::cli {
namespace {

struct TrainArgs {
  std::string preset, config, data, output, resume, recipe, learner_recipe, sampler_recipe, rules, policy,
      rollout_is, router_replay, triage, init, kv_cache, learner_kv, probe, probe_rules, profile;
  std::string device = "cpu";
  std::optional<int64_t> steps, threads;
  std::optional<uint64_t> seed;
  std::vector<std::string> set;
  bool print_config = false;
  ReportStyle style = ReportStyle::text;
  rl::Stages stages = rl::Stages::all;
  Purpose purpose = Purpose::train;
};

/// An option that sets one field of the configuration when given.
struct FieldOption {
  std::string TrainArgs::*value;
  const char* key;
};
constexpr FieldOption kFieldOptions[] = {
    {&TrainArgs::recipe, "learner_recipe"},
    {&TrainArgs::recipe, "sampler_recipe"},
    {&TrainArgs::learner_recipe, "learner_recipe"},
    {&TrainArgs::sampler_recipe, "sampler_recipe"},
    {&TrainArgs::policy, "sampler_policy"},
    {&TrainArgs::kv_cache, "kv_cache"},
    {&TrainArgs::learner_kv, "learner_kv"},
    {&TrainArgs::rollout_is, "rl.rollout_is"},
    {&TrainArgs::router_replay, "rl.router_replay"},
    {&TrainArgs::triage, "rl.triage"},
    {&TrainArgs::init, "init"},
    {&TrainArgs::probe, "probe"},
};

constexpr const char* kBlind = "none";  ///< --probe

void apply(const TrainArgs& args, rl::RunConfig& c) {
  if (!args.data.empty()) c.data = {args.data, "", "", 0, c.data.seed, ""};
  for (const FieldOption& option : kFieldOptions) {
    if (!(args.*option.value).empty()) rl::set_field(c, option.key, args.*option.value);
  }
  if (!args.rules.empty()) {
    c.rules = read_text_file(args.rules);
    (void)parse_rules(c.rules, args.rules);
  }
  if (!args.probe_rules.empty()) {
    c.probe_rules = read_text_file(args.probe_rules);
    (void)diagnostics::parse_probe_rules(c.probe_rules, args.probe_rules);
  }
  if (args.steps) (args.stages == rl::Stages::sft_only ? c.sft.steps : c.rl.steps) = *args.steps;
  if (args.seed) c.seed = *args.seed;
  if (args.threads) c.threads = *args.threads;
  for (const std::string& assignment : args.set) rl::set_assignment(c, assignment);
}

rl::RunConfig configure(const TrainArgs& args) {
  rl::RunConfig c;
  if (!args.preset.empty()) c = rl::run_preset(args.preset);
  if (!args.config.empty()) c = rl::parse_config(read_text_file(args.config), args.config, c);
  require(!args.preset.empty() || !args.config.empty() || !args.data.empty(),
          "say what to train on: --preset NAME, --config FILE.yaml or --data FILE.jsonl");
  apply(args, c);
  return c;
}

/// CLI11 would wrap "-5" round to a huge unsigned number.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} must not be negative", text) : "";
}

/// Only what changes no bit may differ from the run's own configuration.
rl::RunConfig configure_resume(const TrainArgs& args) {
  rl::RunConfig c = rl::load_run_config(args.resume);
  require(args.output.empty(), "--resume {} goes on in that folder; leave -o {} out", args.resume,
          args.output);
  rl::RunConfig asked = c;
  apply(args, asked);
  // Who stops looking has no more use for the rules.
  if (args.probe == kBlind && args.probe_rules.empty()) asked.probe_rules.clear();
  c.threads = asked.threads;
  c.probe = asked.probe;
  c.probe_rules = asked.probe_rules;
  const bool named = !args.preset.empty() || !args.config.empty();
  require(!named && rl::to_yaml(asked) == rl::to_yaml(c),
          "--resume {} repeats the run's own config.yaml; only --threads, --probe and --probe-rules may be "
          "given with it. Start another run with -o to change settings",
          args.resume);
  return c;
}

int finish(const TrainArgs& args, const std::filesystem::path& run, const ProfileSession& profile) {
  const auto summary = io::read_json_file(run / "summary.json");
  write_file_atomically(run / "report.html", diagnostics::render_report(diagnostics::read_run(run)));
  if (args.style == ReportStyle::json) {
    nlohmann::ordered_json document(summary);
    if (!profile.json().is_null()) document["profile"] = profile.json();
    print_json(document);
    return kOk;
  }
  const auto line = [&](const char* key, const char* label) {
    if (summary.contains(key)) print(fmt::format("{:<22}{}\n", label, summary[key].dump()));
  };
  line("reward_first", "reward, first 20");
  line("reward_last", "reward, last 20");
  line("gap_max", "gap, largest");
  line("gap_mean", "gap, mean");
  line("contrast_gap_mean", "contrast gap, mean");
  print(fmt::format("{:<22}{}\n{:<22}{}\n", "checkpoint",
                    (run / summary["checkpoint"].get<std::string>()).string(), "report",
                    (run / "report.html").string()));
  if (!profile.text().empty()) print("\n" + profile.text());
  return kOk;
}

/// A folder for a run that nobody keeps.
class PassingRun {
 public:
  explicit PassingRun(const std::string& trace) : path_(trace + ".run") {
    require(!std::filesystem::exists(path_), "{} is in the way: the profiled run needs it for a while",
            path_.string());
  }
  ~PassingRun() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PassingRun(const PassingRun&) = delete;
  PassingRun& operator=(const PassingRun&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

int profile_run(const TrainArgs& args, const rl::RunConfig& config, rl::RunObserver& observer) {
  ProfileSession profile(args.profile);
  const PassingRun run(args.profile);
  rl::run_training(config, run.path(), args.stages, observer, profile.trace());
  profile.finish();
  if (args.style == ReportStyle::json) {
    print_json(profile.json());
  } else {
    print(profile.text());
  }
  return kOk;
}

int train(const TrainArgs& args) {
  if (args.device != "cpu") {
    fail(ErrorCode::unsupported, "--device {}: training runs on the CPU in this version; use --device cpu",
         args.device);
  }
  ProgressObserver observer;
  const bool resumed = !args.resume.empty();
  const rl::RunConfig config = resumed ? configure_resume(args) : configure(args);
  if (args.print_config) {
    print(rl::to_yaml(config));
    return kOk;
  }
  if (args.purpose == Purpose::profile) return profile_run(args, config, observer);
  ProfileSession profile(args.profile);
  if (resumed) {
    rl::resume_training(config, args.resume, observer, profile.trace());
    profile.finish();
    return finish(args, args.resume, profile);
  }
  const std::string name = config.preset.empty() ? "run" : config.preset;
  const std::filesystem::path run = args.output.empty() ? "runs/" + name : args.output;
  rl::run_training(config, run, args.stages, observer, profile.trace());
  profile.finish();
  return finish(args, run, profile);
}

std::string preset_help() {
  std::string text = "named configuration:";
  for (const rl::RunPreset& preset : rl::run_presets())
    text += fmt::format(" {} ({})", preset.name, preset.does);
  return text;
}

}  // namespace

std::function<int()> add_training(CLI::App& app, rl::Stages stages, Purpose purpose) {
  auto args = std::make_shared<TrainArgs>();
  args->stages = stages;
  args->purpose = purpose;
  if (purpose == Purpose::train) {
    app.add_option("-o,--output", args->output, "run folder (default: runs/PRESET)");
    app.add_option("--resume", args->resume, "run folder to go on with, exactly where it stopped");
    app.add_option("--profile", args->profile,
                   "Chrome trace (JSON) of every step and op to write; prints a kernel table");
  } else {
    app.add_option("-o,--output", args->profile, "Chrome trace (JSON) to write; the run itself is not kept")
        ->required();
  }
  app.add_option("--preset", args->preset, preset_help());
  app.add_option("--config", args->config, "YAML of settings, as a run's config.yaml");
  app.add_option("--data", args->data, "JSONL of problems {\"prompt\", \"answer\"}");
  app.add_option("--init", args->init, "checkpoint folder to start from");
  app.add_option("--steps", args->steps, stages == rl::Stages::all ? "policy updates" : "supervised updates");
  app.add_option("--seed", args->seed, "seed of initialisation and sampling")->check(not_negative);
  app.add_option("--threads", args->threads, "threads, 0 for all; results do not depend on it");
  app.add_option("--device", args->device, "cpu");
  app.add_option("--recipe", args->recipe, "recipe of both sides");
  app.add_option("--learner-recipe", args->learner_recipe, "recipe of the learner");
  app.add_option("--sampler-recipe", args->sampler_recipe, "recipe of the sampler");
  app.add_option("--kv-cache", args->kv_cache,
                 "format of the sampler's keys and values, of `minite formats --kv` (default: bf16)");
  app.add_option("--learner-kv", args->learner_kv,
                 "format of the learner's keys and values, of `minite formats --kv` (default: bf16)");
  app.add_option("--rules", args->rules, "YAML file of per-layer recipes");
  app.add_option("--sampler-policy", args->policy, "batch_invariant (default), fastest or exact(KERNEL)");
  app.add_option("--rollout-is", args->rollout_is, "none, token, sequence or geometric");
  app.add_option("--router-replay", args->router_replay, "experts that the learner takes: off, R2 or R3");
  app.add_option("--triage", args->triage, "on or off");
  app.add_option("--probe", args->probe,
                 "none, or stats: statistics of tensors in RUN/stats.jsonl, which change no bit of the run");
  app.add_option("--probe-rules", args->probe_rules,
                 "YAML file that says which tensors of which steps (default: all of every 10th step)");
  app.add_option("--set", args->set, "any setting, key=value; --print-config lists them")->take_all();
  app.add_flag("--print-config", args->print_config, "print the configuration as YAML and stop");
  add_json_flag(app, args->style);
  return [args] { return train(*args); };
}

}  // namespace minite::cli
