#pragma once
// What a line of a run's logs is about.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace minite::learn {

/// A phase of a run, in the order in which a run goes through them.
enum class Stage : uint8_t { sft, rl, contrast };
inline constexpr std::array<std::string_view, 3> kStageNames = {"sft", "rl", "contrast"};
[[nodiscard]] constexpr std::string_view stage_name(Stage stage) {
  return kStageNames[static_cast<size_t>(stage)];
}

/// The keys of a line that say where it belongs; no metric has their names.
inline constexpr std::array<std::string_view, 3> kLineHead = {"global_step", "step", "stage"};

/// Where in a run a line was written.
struct StepId {
  int64_t global_step = 0;  ///< grows with every step over all stages; the sort key of both logs
  int64_t step = 0;         ///< counts within the stage
  Stage stage = Stage::sft;
};

/// Sorted by name, so that lines are byte-identical from run to run.
using Metrics = std::map<std::string, double>;

}  // namespace minite::learn
