#include "diagnostics/figure_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace minite::diagnostics {
namespace {

constexpr std::string_view kMeanGap = "train_rollout_logprob_abs_diff";
constexpr std::string_view kMaxGap = "gap_max";
constexpr std::string_view kGateWeight = "triage_gate_weight_mean";
constexpr std::string_view kTokenWeight = "triage_token_weight_mean";
constexpr std::string_view kRepairActive = "triage_repair_active_segment_fraction";
constexpr std::string_view kRepairLoss = "triage_repair_loss";

bool all_equal(const Column* column, double value) {
  return column == nullptr ||
         std::all_of(column->value.begin(), column->value.end(), [&](double v) { return v == value; });
}

bool has(const StageData* stage, std::string_view metric) { return stage != nullptr && stage->find(metric); }

// Whether the stage logged a gap and every value of it is exactly 0.
bool gap_is_zero(const StageData* stage) {
  if (!has(stage, kMeanGap) && !has(stage, kMaxGap)) return false;
  return all_equal(stage->find(kMeanGap), 0) && all_equal(stage->find(kMaxGap), 0);
}

std::optional<Remark> gap_remark(const RunData& run) {
  const StageData* rl = run.find("rl");
  if (!gap_is_zero(rl)) return std::nullopt;
  const Column* column = rl->find(has(rl, kMaxGap) ? kMaxGap : kMeanGap);
  Remark remark;
  remark.sentence = fmt::format(
      "The gap is exactly 0 at every step ({} of {} RL steps): learner and sampler computed the same "
      "log-probability for every token.",
      column->value.size(), column->value.size());
  const StageData* contrast = run.find("contrast");
  const bool contrast_differs = (has(contrast, kMeanGap) || has(contrast, kMaxGap)) && !gap_is_zero(contrast);
  remark.figure = contrast_differs ? Remark::Figure::draw : Remark::Figure::leave_out;
  return remark;
}

// How a remark about the RL stage goes with its figure: drawn for the contrast's sake when that was active.
Remark::Figure draw_if(bool contrast_active) {
  return contrast_active ? Remark::Figure::draw : Remark::Figure::leave_out;
}

std::optional<Remark> gate_remark(const RunData& run) {
  const StageData* rl = run.find("rl");
  if (!has(rl, kGateWeight) && !has(rl, kTokenWeight)) return std::nullopt;
  if (!all_equal(rl->find(kGateWeight), 1) || !all_equal(rl->find(kTokenWeight), 1)) return std::nullopt;
  const char* why = gap_is_zero(rl) ? "because the gap is exactly 0: there is no mismatch to act on"
                                    : "because no window fell below its thresholds";
  const StageData* contrast = run.find("contrast");
  const bool active = has(contrast, kTokenWeight) && !all_equal(contrast->find(kTokenWeight), 1);
  return Remark{fmt::format("TRIAGE's gate was inert in RL, {}. Every weight stayed 1.", why),
                draw_if(active)};
}

std::optional<Remark> repair_remark(const RunData& run) {
  const StageData* rl = run.find("rl");
  if (!has(rl, kRepairActive) && !has(rl, kRepairLoss)) return std::nullopt;
  if (!all_equal(rl->find(kRepairActive), 0) || !all_equal(rl->find(kRepairLoss), 0)) return std::nullopt;
  const char* why = gap_is_zero(rl) ? "because the gap is exactly 0: there is nothing to repair"
                                    : "because no segment fell below its target";
  const StageData* contrast = run.find("contrast");
  const bool active = has(contrast, kRepairActive) && !all_equal(contrast->find(kRepairActive), 0);
  return Remark{
      fmt::format("TRIAGE's repair was inert in RL, {}. Active segments and repair loss stayed 0.", why),
      draw_if(active)};
}

constexpr std::string_view kLearning = "Learning";
constexpr std::string_view kGap = "Learner-sampler gap";
constexpr std::string_view kCorrections = "Corrections";
constexpr std::string_view kOptimizer = "Optimizer";
constexpr std::string_view kWarmUp = "Supervised warm-up";
constexpr std::array<std::string_view, 2> kRl = {"rl", ""};
constexpr std::array<std::string_view, 2> kRlAndContrast = {"rl", "contrast"};
constexpr std::array<std::string_view, 2> kSft = {"sft", ""};

using enum Panel::Width;
constexpr std::array<FigureRow, 15> kFigures = {{
    {"reward",
     kLearning,
     "Reward",
     "mean reward",
     "Mean reward of the responses sampled in a step.",
     {{{"reward", ""}, {}}},
     kRlAndContrast,
     Scale::linear,
     wide,
     nullptr},
    {"entropy",
     kLearning,
     "Entropy",
     "nats per token",
     "Mean entropy of the learner's next-token distribution.",
     {{{"entropy_loss", "entropy"}, {}}},
     kRl,
     Scale::linear,
     half,
     nullptr},
    {"length",
     kLearning,
     "Response length",
     "tokens",
     "Mean number of tokens in a response.",
     {{{"response_length_mean", "length"}, {}}},
     kRl,
     Scale::linear,
     half,
     nullptr},
    {"gap",
     kGap,
     "Log-probability gap",
     "|learner - sampler|, nats",
     "Difference between the log-probabilities that learner and sampler computed for the same sampled "
     "tokens.",
     {{{kMeanGap, "mean"}, {kMaxGap, "max"}}},
     kRlAndContrast,
     Scale::log,
     wide,
     gap_remark},
    {"router",
     kGap,
     "Router mismatch",
     "fraction of rows",
     "Rows (a token in a layer) whose experts differ between learner and sampler.",
     {{{"router_mismatch", ""}, {}}},
     kRlAndContrast,
     Scale::linear,
     half,
     nullptr,
     FigureRow::When::switched_on},
    {"clip",
     kCorrections,
     "Clip fraction",
     "fraction of tokens",
     "Tokens whose policy ratio was clipped.",
     {{{"pg_clipfrac", "policy"}, {"tis_clipfrac", "TIS"}}},
     kRlAndContrast,
     Scale::linear,
     wide,
     nullptr},
    {"tis",
     kCorrections,
     "Importance weight",
     "mean weight",
     "Mean truncated importance-sampling weight; 1 when learner and sampler agree.",
     {{{"tis", "TIS"}, {}}},
     kRlAndContrast,
     Scale::linear,
     half,
     nullptr},
    {"gate",
     kCorrections,
     "TRIAGE gate",
     "mean weight",
     "Mean weight of the gate and of all tokens; 1 when the gate is shut.",
     {{{kGateWeight, "gate"}, {kTokenWeight, "token"}}},
     kRlAndContrast,
     Scale::linear,
     wide,
     gate_remark},
    {"repair",
     kCorrections,
     "TRIAGE repair activity",
     "fraction of segments",
     "Segments that the repair term pulls on.",
     {{{kRepairActive, "active"}, {}}},
     kRlAndContrast,
     Scale::linear,
     half,
     repair_remark},
    {"repair-loss",
     kCorrections,
     "TRIAGE repair loss",
     "loss",
     "The repair term of the loss.",
     {{{kRepairLoss, "repair"}, {}}},
     kRlAndContrast,
     Scale::linear,
     half,
     repair_remark},
    {"grad-norm",
     kOptimizer,
     "Gradient norm",
     "norm before clipping",
     "Norm of the whole gradient.",
     {{{"grad_norm", "norm"}, {}}},
     kRl,
     Scale::log,
     wide,
     nullptr},
    {"experts",
     kOptimizer,
     "Busiest expert",
     "load over the mean",
     "Tokens of the busiest expert over the mean; 1 when all experts work alike.",
     {{{"expert_load_max", ""}, {}}},
     kRlAndContrast,
     Scale::linear,
     wide,
     nullptr,
     FigureRow::When::switched_on},
    {"sft-loss",
     kWarmUp,
     "Loss",
     "nats per token",
     "Cross-entropy of the reference answers.",
     {{{"loss", "loss"}, {}}},
     kSft,
     Scale::linear,
     half,
     nullptr},
    {"sft-accuracy",
     kWarmUp,
     "Accuracy",
     "fraction of tokens",
     "Reference tokens that were the most likely ones.",
     {{{"accuracy", "accuracy"}, {}}},
     kSft,
     Scale::linear,
     half,
     nullptr},
    {"sft-grad-norm",
     kWarmUp,
     "Gradient norm",
     "norm before clipping",
     "Norm of the whole gradient.",
     {{{"grad_norm", "norm"}, {}}},
     kSft,
     Scale::log,
     wide,
     nullptr},
}};

}  // namespace

std::span<const FigureRow> figure_table() { return kFigures; }

}  // namespace minite::diagnostics
