#pragma once
// The experts that a capture recorded, as a learner replays them.
#include <vector>

#include "diagnostics/capture_reader.h"
#include "minite/routes.h"

namespace minite::cli {

/// Routes of each sequence of `capture`, in its order, for a model of shape `model`. The last token of a
/// sequence was never read: its row is -1. Errors: invalid_argument that names the layer, and the token or
/// the tensor (no experts recorded, a token without all of its experts).
[[nodiscard]] std::vector<Routes> recorded_routes(const diagnostics::Capture& capture,
                                                  const ModelConfig& model);

}  // namespace minite::cli
