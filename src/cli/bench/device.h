#pragma once
// `bench kernels --device cuda`: kernels of the device beside their rivals, replayed from graphs.
#include "cli/bench/kernels.h"

namespace minite::cli {

/// Rows of the device; rates of `unit`, or times in us, of which the ratio is theirs / ours. Throws
/// unsupported without a device, invalid_argument as bench_kernels().
[[nodiscard]] BenchTable bench_device(const BenchOptions& options,
                                      const std::function<void(const std::string&)>& progress);

}  // namespace minite::cli
