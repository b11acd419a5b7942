#pragma once
// Rows of `bench kernels --device cuda` for quantizers, their fused producers and the decoder.
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "backends/op_table.h"
#include "cli/bench/kernels.h"

namespace minite::cli {

/// Times against a copy of the compulsory bytes (each input read once, each output written once) in the same
/// rounds, and of fused ops against their parts, one after the other. Rows whose names hold no match of
/// `filter` are left out.
[[nodiscard]] std::vector<BenchRow> bench_quantizers(const OpTable& op, int rounds, const std::regex& filter,
                                                     const std::function<void(const std::string&)>& progress);

}  // namespace minite::cli
