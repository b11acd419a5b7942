// Llama 2 and 3, SmolLM2, Mistral without a window: grouped-query attention, SwiGLU, RMSNorm, no biases, no
// norms on q and k.
#include <array>

#include "model/families/table.h"

namespace minite {
namespace {
constexpr std::array<FieldLimit, 6> kLimits = {{
    {"attention_bias", "false", "biases in the attention projections are not implemented"},
    {"mlp_bias", "false", "biases in the MLP are not implemented"},
    {"rope_interleaved", "false", "rotary embeddings turn pairs (i, i + head_dim / 2)"},
    {"hidden_act", "\"silu\"", "the gated MLP uses silu"},
    {"attention_dropout", "0.0", "dropout is not implemented"},
    {"pretraining_tp", "1", "projections that were cut for tensor parallelism are not implemented"},
}};
}  // namespace

std::span<const FieldLimit> llama_limits() { return kLimits; }

}  // namespace minite
