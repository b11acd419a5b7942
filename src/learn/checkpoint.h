#pragma once
// Checkpoints: a Hugging Face folder with BF16 weights, plus trainer.safetensors with FP32 masters and
// moments.
#include <filesystem>
#include <string>

#include "io/tokenizer.h"
#include "model/weights.h"

namespace minite {

/// Where a run stands; stored as metadata of trainer.safetensors.
struct TrainerState {
  std::string stage = "sft";  ///< the stage of the last finished step
  int64_t step = 0;           ///< finished steps of that stage
  int64_t global_step = 0;    ///< finished steps of the run
  int64_t update = 0;         ///< updates since the moments were zero
};

/// Writes config.json and model.safetensors (BF16, Hugging Face names, fused tensors taken apart).
void save_model(const std::filesystem::path& folder, const Weights& weights);
/// Writes trainer.safetensors.
void save_trainer(const std::filesystem::path& folder, const Weights& weights, const TrainerState& state);

/// config.json of a checkpoint folder.
[[nodiscard]] ModelConfig load_model_config(const std::filesystem::path& folder);
/// Throws invalid_argument unless every token of `tokenizer` has an embedding and both agree on <eos>;
/// `folder` stands for the checkpoint in the message.
void require_fit(const io::Tokenizer& tokenizer, const ModelConfig& config,
                 const std::filesystem::path& folder);
/// Fills weights (and masters) from model.safetensors, and the scales of FP8 keys and values
/// (learn/kv_scales.h). Errors: not_found (missing tensor, named), invalid_argument (another shape: both are
/// named).
void load_model(const std::filesystem::path& folder, Weights& weights);
/// Fills masters, moments, weights and scales from trainer.safetensors. Errors as load_model.
TrainerState load_trainer(const std::filesystem::path& folder, Weights& weights);

}  // namespace minite
