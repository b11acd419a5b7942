#pragma once
// Products by group on a device beside a loop of cuBLAS products, one a group, in one graph.
#include <regex>

#include "backends/op_table.h"
#include "cli/bench/device_sides.h"

namespace minite::cli {

struct GroupedBench {
  const OpTable& op;
  Cublas* cublas;  ///< or nullptr
  int rounds;
  double copy_rate;  ///< bytes a second
};

/// Appends the rows that `filter` names: 128 experts with weights of 1536 x 2048, tokens spread evenly or
/// not. Between 1 and 8 GB of the device's memory.
void bench_grouped(const GroupedBench& bench, const std::regex& filter,
                   const std::function<void(const std::string&)>& progress, std::vector<BenchRow>& rows);

}  // namespace minite::cli
