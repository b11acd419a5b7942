#pragma once
// Alarms: what the metrics of a step say that should be heard at once, because means over a run would hide
// it.
#include <set>
#include <string>
#include <vector>

#include "learn/run_folder.h"
#include "rl/run_config.h"

namespace minite::rl {

/// Watches the steps of one stage. An alarm changes nothing and sounds once a stage.
class Alarms {
 public:
  /// `config` must outlive the object.
  Alarms(const RunConfig& config, learn::Stage stage) : config_(config), stage_(stage) {}

  /// Warnings about step `step` (from 1) of the stage; call for every step, in order.
  [[nodiscard]] std::vector<std::string> check(int64_t step, const learn::Metrics& metrics);

 private:
  const RunConfig& config_;
  learn::Stage stage_;
  learn::Metrics before_;  ///< of the step before; empty at first
  std::set<std::string_view> sounded_;
};

/// Nats a token. BF16 on both sides gives about 0.01 between engines, 4-bit sampling up to 0.1.
inline constexpr double kFirstGapAlarm = 0.2;
/// A gap this many times that of the step before, and larger by kFirstGapAlarm / 4.
inline constexpr double kGapJumpAlarm = 5.0;

}  // namespace minite::rl
