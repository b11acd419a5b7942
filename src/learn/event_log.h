#pragma once
// tensorboard/events.out.tfevents.0.minite: the numbers of metrics.jsonl for TensorBoard.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "io/append_file.h"
#include "learn/step.h"

namespace minite::learn {

/// One event a line of metrics.jsonl: the tags STAGE/METRIC, the step within the stage, values rounded to
/// float32 (the format has no other), NaN and infinities as such. The file is a function of the lines but for
/// the wall times.
class EventLog {
 public:
  /// Opens or creates the file in folder `run`, whose metrics.jsonl holds `lines`. Events that agree with the
  /// lines stay with their wall times. From the first that does not, or that is cut or damaged, the file is
  /// written anew. It is cut in place, so that a TensorBoard that is reading it goes on at the same byte.
  EventLog(const std::filesystem::path& run, const std::vector<nlohmann::json>& lines);

  /// Appends the event of one line, in one write.
  void append(const StepId& id, const Metrics& metrics);
  /// fdatasync.
  void sync() { file_.sync(); }

 private:
  io::AppendFile file_;
};

}  // namespace minite::learn
