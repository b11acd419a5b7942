#pragma once
// Checkpoints: a Hugging Face folder with BF16 weights, plus trainer.safetensors with FP32 masters and
// moments. What is read may be a GGUF file too.
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

/// The configuration of a checkpoint: config.json of a folder, with the tokens that end a sequence in
/// generation_config.json where that exists; or the values of a GGUF file (learn/gguf_model.h).
[[nodiscard]] ModelConfig load_model_config(const std::filesystem::path& checkpoint);
/// Throws invalid_argument unless every token of `tokenizer` has an embedding and its <eos> ends a sequence
/// of the model; `checkpoint` names it in the message.
void require_fit(const io::Tokenizer& tokenizer, const ModelConfig& config,
                 const std::filesystem::path& checkpoint);
/// Fills weights (and masters): from model.safetensors or its shards, with the scales of FP8 keys and values
/// (learn/kv_scales.h); or from a GGUF file, decoded and rounded to BF16. Errors: not_found (missing tensor,
/// named), invalid_argument (another shape: both are named).
void load_model(const std::filesystem::path& checkpoint, Weights& weights);
/// Fills masters, moments, weights and scales from trainer.safetensors. Errors as load_model.
TrainerState load_trainer(const std::filesystem::path& folder, Weights& weights);

}  // namespace minite
