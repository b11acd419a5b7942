#include "rl/loop.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/recording.h"
#include "backends/registry.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "learn/checkpoint.h"
#include "rl/alarms.h"
#include "rl/probe_history.h"
#include "rl/probing.h"
#include "rl/summary.h"

namespace minite::rl {
namespace {

using learn::RunFolder;
using learn::Stage;
using learn::StepId;

/// One stage as a run executes it.
struct StagePlan {
  Stage stage;
  int64_t steps;
  Sides sides;
};

std::vector<StagePlan> plan_stages(const RunConfig& c) {
  std::vector<StagePlan> plan;
  if (c.sft.steps > 0) plan.push_back({Stage::sft, c.sft.steps, {c.learner_recipe, c.sampler_recipe}});
  if (c.rl.steps > 0) plan.push_back({Stage::rl, c.rl.steps, {c.learner_recipe, c.sampler_recipe}});
  if (c.contrast.steps > 0) {
    plan.push_back(
        {Stage::contrast, c.contrast.steps, {c.contrast.learner_recipe, c.contrast.sampler_recipe}});
  }
  return plan;
}

std::unique_ptr<io::Tokenizer> make_tokenizer(const RunConfig& c, const Problems& problems) {
  if (!c.init.empty()) return io::load_tokenizer(c.init);
  return std::make_unique<io::CharTokenizer>(problems.alphabet());
}

ModelConfig make_model(const RunConfig& c, const io::Tokenizer& tokenizer) {
  if (!c.init.empty()) return load_model_config(c.init);
  ModelConfig m;
  if (c.model.num_experts != 0) {
    m.family = "qwen3_moe";
    m.num_experts = c.model.num_experts;
    m.num_experts_per_tok = c.model.num_experts_per_tok;
    m.moe_intermediate_size = c.model.moe_intermediate_size;
    m.norm_topk_prob = c.model.norm_topk_prob;
  }
  m.vocab_size = tokenizer.vocab_size();
  m.hidden_size = c.model.hidden_size;
  m.intermediate_size = c.model.intermediate_size;
  m.num_hidden_layers = c.model.num_hidden_layers;
  m.num_attention_heads = c.model.num_attention_heads;
  m.num_key_value_heads = c.model.num_key_value_heads;
  m.head_dim = c.model.head_dim;
  m.tie_word_embeddings = c.model.tie_word_embeddings;
  m.max_position_embeddings = c.max_length;
  m.rope_theta = 10000.0;
  m.bos_token_id = tokenizer.bos_id();
  m.eos_token_id = tokenizer.eos_id();
  m.pad_token_id = tokenizer.pad_id();
  return m;
}

class Run {
 public:
  Run(const RunConfig& config, RunObserver& observer, Trace* trace)
      : config_(config),
        observer_(observer),
        trace_(trace),
        problems_(config.data),
        tokenizer_(make_tokenizer(config, problems_)),
        pool_(config.threads > 0 ? static_cast<int>(config.threads) : env_threads()),
        table_(choose_table()),
        weights_(make_model(config, *tokenizer_), DType::bf16, Purpose::training),
        plan_(plan_stages(config)),
        history_(config.rl.rollout_staleness),
        probe_(make_step_probe(config, weights_, table_, pool_)) {
    for (const StagePlan& stage : plan_) total_ += stage.steps;
    check();
    const std::string digest = problems_.digest();
    require(
        config_.data.digest.empty() || config_.data.digest == digest,
        "the problems of {} changed: their digest is {}, the configuration says {}; restore them, or start "
        "another run",
        config_.data.file.empty() ? config_.data.generator : config_.data.file, digest, config_.data.digest);
    config_.data.digest = digest;
  }

  /// The configuration with what the run found out about its data.
  [[nodiscard]] const RunConfig& config() const { return config_; }

  /// Where a resumed run goes on.
  [[nodiscard]] int64_t global_step() const { return state_.global_step; }
  [[nodiscard]] const RunFolder& folder() const { return *folder_; }

  /// From the first step, in a folder that holds no steps. `open` makes the folder once nothing is left that
  /// bad input could spoil.
  template <class Open>
  void start(const Open& open) {
    if (config_.init.empty()) {
      weights_.initialize(config_.seed);
    } else {
      load_model(config_.init, weights_);
    }
    folder_.emplace(open());
    keep_logs();
    // The starting point is a checkpoint too: a contrast without SFT begins there, and so does a resumed run.
    state_ = {std::string(learn::stage_name(plan_[0].stage)), 0, 0, 0};
    save();
  }

  void resume(const std::filesystem::path& path, const learn::Checkpoint& checkpoint) {
    state_ = load_trainer(checkpoint.path, weights_);
    if (samples()) history_.load(checkpoint.path, weights_, state_.step);
    folder_.emplace(RunFolder::resume(path, checkpoint.global_step));
    keep_logs();
  }

  void execute() {
    int64_t before = 0;  // global steps of the stages so far
    for (const StagePlan& stage : plan_) {
      if (state_.global_step < before + stage.steps) run_stage(stage, before);
      before += stage.steps;
    }
    folder_->write_summary(
        summarize(folder_->path(), {config_, std::string(table_.name), final_checkpoint()}));
  }

 private:
  /// The backend, with a recording around it when somebody listens.
  const OpTable& choose_table() {
    const OpTable& table = backend(config_.backend == "auto" ? env_backend() : config_.backend);
    return trace_ == nullptr ? table : recording_.emplace(table, *trace_).table();
  }

  void keep_logs() {
    if (config_.tensorboard) folder_->keep_event_log();
    if (probe_) folder_->keep_stats_log();
  }

  /// Finds what would stop the run hours later: recipes that do not fit the model, problems that do not fit.
  void check() const {
    require(!plan_.empty(), "nothing to do: sft.steps, rl.steps and contrast.steps are 0");
    const ModelConfig& model = weights_.config();
    require(config_.max_length <= model.max_position_embeddings,
            "max_length={} exceeds the model's max_position_embeddings={}", config_.max_length,
            model.max_position_embeddings);
    require(model.num_experts > 0 || parse<RouterReplay>(config_.rl.router_replay) == RouterReplay::off,
            "rl.router_replay={} replays experts, but the model has none (model.num_experts={}); set "
            "rl.router_replay=off",
            config_.rl.router_replay, model.num_experts);
    require_fit(*tokenizer_, model, config_.init);
    for (const StagePlan& stage : plan_) check_sides(weights_, config_, stage.sides, table_);
    for (int64_t i = 0; i < problems_.size(); ++i) {
      check_prompt(*tokenizer_, problems_.at(i), config_.max_length);
      if (config_.sft.steps > 0) (void)encode_example(*tokenizer_, problems_.at(i), config_.max_length);
    }
  }

  void run_stage(const StagePlan& stage, int64_t before) {
    const auto name = std::string(learn::stage_name(stage.stage));
    if (state_.stage != name || state_.global_step == before) begin_stage(stage, before);
    Engine engine(weights_, config_, stage.sides, table_, pool_);
    engine.synchronize();
    record_plans(name, engine.plans());
    observer_.message(fmt::format("{}: {} steps, learner {} (KV {}), sampler {} (KV {}), {} on {} threads",
                                  name, stage.steps, stage.sides.learner_recipe,
                                  kv_format(config_.learner_kv).name, stage.sides.sampler_recipe,
                                  kv_format(config_.kv_cache).name, table_.name, pool_.threads()));
    const std::unique_ptr<Reference> reference = make_reference(stage);
    const bool lagging = history_.depth() > 0 && samples();
    const StageContext ctx{config_,      problems_,       *tokenizer_,
                           engine,       reference.get(), lagging ? &history_ : nullptr,
                           probe_.get(), trace_};
    engine.learner().set_trace(trace_);
    Alarms alarms(config_, stage.stage);
    while (state_.step < stage.steps) {
      one_step(ctx, stage, alarms);
      const bool last = state_.step == stage.steps;
      if (last || state_.global_step % config_.checkpoint_every == 0) save();
    }
  }

  /// plans.json: by stage, the kernel and summation order of every product.
  void record_plans(const std::string& stage, const std::vector<std::string>& plans) const {
    const std::filesystem::path file = folder_->path() / "plans.json";
    nlohmann::json all = std::filesystem::exists(file) ? io::read_json_file(file) : nlohmann::json::object();
    all[stage] = plans;
    io::write_json_file(file, all);
  }

  /// Fresh moments; a contrast goes back to the weights that RL started from.
  void begin_stage(const StagePlan& stage, int64_t before) {
    if (stage.stage == Stage::contrast) (void)load_trainer(origin("the contrast starts from"), weights_);
    for (const Parameter& p : weights_.parameters()) {
      for (const TensorView& moment : {p.m, p.v}) std::fill_n(moment.as<float>(), moment.size(), 0.0f);
    }
    history_.clear();
    state_ = {std::string(learn::stage_name(stage.stage)), 0, before, 0};
  }

  /// Whether the stage of state_ samples.
  [[nodiscard]] bool samples() const { return state_.stage != learn::stage_name(Stage::sft); }

  /// The checkpoint that RL starts from; `use` says in an error what needs it.
  [[nodiscard]] std::filesystem::path origin(std::string_view use) const {
    std::filesystem::path path = checkpoint_path(config_.sft.steps);
    const std::vector<std::string> faults = io::verify_checkpoint(path);
    if (!faults.empty()) {
      fail(ErrorCode::corrupt_data, "{} {}, which cannot be used: {}. Run again with -o", use, path.string(),
           fmt::join(faults, "; "));
    }
    return path;
  }

  /// The policy that RL starts from, when the KL penalty needs it.
  [[nodiscard]] std::unique_ptr<Reference> make_reference(const StagePlan& stage) {
    if (stage.stage == Stage::sft || config_.rl.kl_loss_coef == 0) return nullptr;
    return std::make_unique<Reference>(weights_.config(), origin("rl.kl_loss_coef needs"), config_,
                                       stage.sides, table_, pool_);
  }

  /// Adds to an error where the state before the step is. After the first of several updates of a step that
  /// state is gone from memory.
  [[noreturn]] void rethrow(const Error& error, bool weights_changed) {
    if (weights_changed) {
      throw Error(error.code(), fmt::format("{}. Earlier updates of the step are lost; go on from the newest "
                                            "checkpoint of {}",
                                            error.what(), folder_->path().string()));
    }
    if (!std::filesystem::exists(checkpoint_path(state_.global_step))) save();
    throw Error(error.code(), fmt::format("{}. The state before the step is in {}", error.what(),
                                          checkpoint_path(state_.global_step).string()));
  }

  void one_step(const StageContext& ctx, const StagePlan& stage, Alarms& alarms) {
    StepRecord record;
    const Span span(trace_, "step");
    if (samples()) history_.keep(state_.step, weights_);
    if (probe_) probe_->begin(state_.global_step + 1, folder_->dumps());
    const auto version = weights_.version();
    try {
      record =
          stage.stage == Stage::sft ? sft_step(ctx, state_.step) : rl_step(ctx, stage.stage, state_.step);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::non_finite) throw;
      rethrow(error, weights_.version() != version);
    }
    ++state_.step;
    ++state_.global_step;
    ++state_.update;
    const StepId id{state_.global_step, state_.step, stage.stage};
    record.metrics["tokens"] = static_cast<double>(record.tokens);
    folder_->write_metrics(id, record.metrics);
    folder_->write_timings(id, record.seconds);
    if (!record.rollout.empty()) folder_->write_rollout(id, record.rollout);
    if (probe_) {
      show_gradients(*probe_, weights_);
      folder_->write_stats(id, probe_->finish());
    }
    observer_.step(id, state_.global_step, total_, record);
    for (const std::string& warning : alarms.check(state_.step, record.metrics)) observer_.message(warning);
  }

  void save() {
    const Span span(trace_, "checkpoint");
    folder_->save_checkpoint(state_.global_step, [&](const std::filesystem::path& path) {
      save_model(path, weights_);
      save_trainer(path, weights_, state_);
      history_.save(path, weights_, state_.step);
      tokenizer_->save(path);
    });
    // Two for resuming, and the ends of SFT (where a contrast starts) and of RL (the product).
    const std::array<int64_t, 2> ends = {config_.sft.steps, config_.sft.steps + config_.rl.steps};
    folder_->prune_checkpoints(2, ends);
  }

  [[nodiscard]] std::filesystem::path checkpoint_path(int64_t global_step) const {
    return learn::checkpoint_path(folder_->path(), global_step);
  }
  /// The product of the run: the end of RL, or of SFT when there was no RL.
  [[nodiscard]] std::string final_checkpoint() const {
    return std::filesystem::relative(checkpoint_path(config_.sft.steps + config_.rl.steps), folder_->path())
        .string();
  }

  RunConfig config_;
  std::optional<RunFolder> folder_;
  RunObserver& observer_;
  Trace* trace_;
  std::optional<Recording> recording_;
  Problems problems_;
  std::unique_ptr<io::Tokenizer> tokenizer_;
  ThreadPool pool_;
  const OpTable& table_;
  Weights weights_;
  std::vector<StagePlan> plan_;
  learn::WeightHistory history_;
  std::unique_ptr<diagnostics::StepProbe> probe_;  ///< null: nobody looks
  int64_t total_ = 0;
  TrainerState state_;
};

}  // namespace

void run_training(const RunConfig& config, const std::filesystem::path& path, Stages stages,
                  RunObserver& observer, Trace* trace) {
  RunConfig c = config;
  if (stages == Stages::sft_only) c.rl.steps = c.contrast.steps = 0;
  validate(c);
  // A run may be resumed from another folder than it was started in.
  if (!c.data.file.empty()) c.data.file = std::filesystem::absolute(c.data.file).lexically_normal().string();
  if (!c.init.empty()) c.init = std::filesystem::absolute(c.init).lexically_normal().string();
  Run run(c, observer, trace);
  run.start([&] {
    RunFolder folder = RunFolder::create(path);
    folder.write_config(to_yaml(run.config()));
    return folder;
  });
  run.execute();
}

void resume_training(const RunConfig& config, const std::filesystem::path& path, RunObserver& observer,
                     Trace* trace) {
  validate(config);
  const learn::CheckpointSearch search = learn::latest_valid_checkpoint(path);
  for (const std::string& reason : search.skipped) observer.message(reason);
  RunConfig c = config;
  // A checkpoint holds the tokenizer and the shape itself: the folder that the run began from may be gone.
  if (search.newest_valid && !c.init.empty()) c.init = search.newest_valid->path.string();
  Run run(c, observer, trace);
  if (search.newest_valid) {
    run.resume(path, *search.newest_valid);
    observer.message(fmt::format("resuming after step {} from {}", search.newest_valid->global_step,
                                 search.newest_valid->path.string()));
  } else {
    observer.message("no usable checkpoint: starting again from the first step");
    run.start([&] { return RunFolder::resume(path, 0); });
  }
  const std::string file = (path / "config.yaml").string(), before = read_text_file(file);
  const std::string text = continued_config(before, file, run.global_step(), config);
  if (text != before) run.folder().write_config(text);
  run.execute();
}

RunConfig load_run_config(const std::filesystem::path& path) {
  const std::string file = (path / "config.yaml").string();
  if (!std::filesystem::exists(file)) {
    fail(ErrorCode::not_found, "{} holds no run (no config.yaml); check the path, or start a run with -o",
         path.string());
  }
  return parse_config(read_text_file(file), file);
}

}  // namespace minite::rl
