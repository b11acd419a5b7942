#pragma once
// What a run looked at before it went on with another probe: comments at the top of its config.yaml, which
// readers of YAML skip.
#include <cstdint>
#include <string>

#include "rl/run_config.h"

namespace minite::rl {

/// The config.yaml of a run that goes on after global step `step` with the probe and probe rules of `now`;
/// `before` is its text so far, of the file `origin`. Everything else keeps its value. A line
///   # until step 14: {"probe":"none","probe_rules":""}
/// says what held up to a step; what was looked at after `step` is dropped, as its statistics are. The text
/// stays as it is when nothing changes. Error: corrupt_data for such a line that does not hold these words.
[[nodiscard]] std::string continued_config(const std::string& before, const std::string& origin, int64_t step,
                                           const RunConfig& now);

}  // namespace minite::rl
