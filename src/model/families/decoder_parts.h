#pragma once
// What the families share: attention, norms, embedding and head. A family adds its MLP.
#include <array>
#include <functional>

#include "model/families/table.h"

namespace minite {

inline constexpr std::array<FieldLimit, 6> kQwen3Limits = {{
    {"attention_bias", "false", "biases in the attention projections are not implemented"},
    {"use_sliding_window", "false", "sliding window attention is not implemented"},
    {"layer_types", "\"full_attention\"", "every layer attends to all earlier tokens"},
    {"rope_scaling", "null", "scaled rotary embeddings are not implemented"},
    {"hidden_act", "\"silu\"", "the gated MLP uses silu"},
    {"attention_dropout", "0.0", "dropout is not implemented"},
}};

/// Adds a linear module of the current layer: name without "layers.L.", n, k, covered, count.
using AddModule = std::function<void(std::string_view, int64_t, int64_t, bool, int64_t)>;
/// All modules; `add_mlp` is called once a layer.
[[nodiscard]] std::vector<LinearModule> decoder_modules(const ModelConfig& config,
                                                        const std::function<void(const AddModule&)>& add_mlp);

/// Adds a parameter of the current layer: name without "layers.L.", columns, start, checkpoint tensors
/// without "model.layers.L." and ".weight", quantization units.
using AddParameter =
    std::function<void(std::string_view, int64_t, Init, std::vector<CheckpointPiece>, int64_t)>;
/// All parameters; `add_mlp` is called once a layer. Weights of the norms on q and k are there where the
/// configuration's family has them.
[[nodiscard]] std::vector<ParameterSpec> decoder_weights(
    const ModelConfig& config, const std::function<void(const AddParameter&)>& add_mlp);

}  // namespace minite
