#pragma once
// What a run looks at while it trains.
#include <memory>

#include "diagnostics/step_probe.h"
#include "model/weights.h"
#include "rl/run_config.h"

namespace minite::rl {

/// The probe of `config`, or nullptr for probe=none. Decodes on `table` with `pool`. Throws invalid_argument
/// for another mode, for rules that do not parse, and for a rule that matches no module or parameter of the
/// model.
[[nodiscard]] std::unique_ptr<diagnostics::StepProbe> make_step_probe(const RunConfig& config,
                                                                      const Weights& weights,
                                                                      const OpTable& table, ThreadPool& pool);

/// Shows the main gradients, which the last update of the step left.
void show_gradients(diagnostics::StepProbe& probe, const Weights& weights);

}  // namespace minite::rl
