#pragma once
// The static scales of FP8 keys and values in checkpoints.
#include "io/safetensors.h"
#include "learn/model_tensors.h"
#include "model/weights.h"

namespace minite {

/// Reads the scales of every layer from the weights of a folder: `model.layers.L.self_attn.k_proj.k_scale`
/// and `v_proj.v_scale` (ModelOpt) or `self_attn.k_scale` and `v_scale` (compressed-tensors), one FP32 or
/// BF16 element each; what is absent is 1. Errors: invalid_argument, which names the tensor, for another type
/// or size, for a scale that is not positive and finite, and for two names with different values.
void load_kv_scales(const ModelTensors& file, Weights& weights);
/// Whether load_kv_scales reads a tensor of this name.
[[nodiscard]] bool names_kv_scale(const Weights& weights, std::string_view name);
/// Adds ModelOpt's names to `tensors`, in FP32; nothing when every scale is 1. The views are into `weights`.
void add_kv_scales(const Weights& weights, io::TensorMap& tensors);

/// The same for trainer.safetensors: `kv_scale` [layers, 2], absent when every scale is 1.
void load_trainer_kv_scales(const io::SafetensorsFile& file, Weights& weights);
void add_trainer_kv_scales(const Weights& weights, io::TensorMap& tensors);

}  // namespace minite
