#pragma once
// What looking at a learner's step costs: each way of looking beside the bare step, in one process.
#include "cli/bench/kernels.h"

namespace minite::cli {

/// Rows of `bench learner`; a ratio is the bare step's time over that of a step that is looked at. Uses the
/// filter, threads and rounds of the options. Throws invalid_argument as bench_kernels().
[[nodiscard]] BenchTable bench_learner(const BenchOptions& options,
                                       const std::function<void(const std::string&)>& progress);

}  // namespace minite::cli
