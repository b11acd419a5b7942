// Qwen3 dense: grouped-query attention with a norm on every q and k head, SwiGLU, RMSNorm, no biases.
#include <array>

#include "model/families/decoder_parts.h"
#include "model/families/table.h"

namespace minite {
namespace {
constexpr std::array kLimits = kQwen3Limits;
}  // namespace

std::span<const FieldLimit> qwen3_limits() { return kLimits; }

}  // namespace minite
