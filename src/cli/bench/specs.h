#pragma once
// The rows of `minite bench kernels`: problems, and what each must reach.
#include <cstdint>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/rivals.h"

namespace minite::cli {

/// What is timed.
enum class Job : uint8_t { quantize, w4a4, w4a16, gemv };
/// The unit of a job's rate.
[[nodiscard]] const char* unit_of(Job job);

/// One comparison of a kernel. `must` and `aim` are of the ratio, or without a rival of our rate; 0: not
/// stated.
struct Goal {
  RivalId rival;
  double must = 0, aim = 0;
  int threads = 0;  ///< they are stated for this number of threads only; 0: for any
};

struct Spec {
  const char* name;
  Job job;
  const char* level;  ///< an instruction set, or "auto"
  int threads;        ///< 0: as the options say
  int64_t m, n, k;
  std::span<const Goal> goals;
};

/// The expression of --filter. Throws invalid_argument when it is none.
[[nodiscard]] std::regex parse_filter(const std::string& filter);
/// The rows whose name holds the regular expression `filter`. Throws invalid_argument when it is none or
/// names nothing.
[[nodiscard]] std::vector<Spec> chosen(const std::string& filter);

}  // namespace minite::cli
