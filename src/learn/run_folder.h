#pragma once
// The folder of one run: config.yaml, metrics.jsonl, timings.jsonl, rollouts.jsonl, stats.jsonl, tensorboard,
// dumps, checkpoints/step_NNNNNN, summary.json. It knows names and durability, not models: a checkpoint is a
// folder that the caller fills.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/line_log.h"
#include "learn/event_log.h"
#include "learn/step.h"

namespace minite::learn {

/// One line of metrics.jsonl: {"global_step":..,"step":..,"stage":"rl",NAME:VALUE,...}. Numbers are the
/// shortest text that reads back as the same double. JSON has no NaN or infinity: such a value is null,
/// followed by "NAME_nonfinite":"nan|inf|-inf". Error: invalid_argument when a metric takes a reserved name.
[[nodiscard]] std::string metrics_line(const StepId& id, const Metrics& metrics);
/// One line of timings.jsonl: {"global_step":..,"step":..,"stage":..,"seconds":{NAME:SECONDS,...}}.
[[nodiscard]] std::string timings_line(const StepId& id, const Metrics& seconds);

/// checkpoints/step_NNNNNN; the number is the global step.
struct Checkpoint {
  int64_t global_step = 0;
  std::filesystem::path path;
};

struct CheckpointSearch {
  std::optional<Checkpoint> newest_valid;
  std::vector<std::string> skipped;  ///< why each newer checkpoint was passed over, newest first
};

/// Where the checkpoint after `global_step` lies in a run folder.
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& run, int64_t global_step);

/// The checkpoints of a run folder by rising step; damaged ones included, unfinished (.tmp) ones not.
[[nodiscard]] std::vector<Checkpoint> list_checkpoints(const std::filesystem::path& run);

/// The newest checkpoint whose manifest holds, and a sentence for each newer one that does not.
[[nodiscard]] CheckpointSearch latest_valid_checkpoint(const std::filesystem::path& run);

class RunFolder {
 public:
  /// Makes a new run folder, parents too. Error: invalid_argument when `path` already holds a run (the
  /// message offers --resume and another folder); io or not_found when it cannot be written.
  [[nodiscard]] static RunFolder create(const std::filesystem::path& path);
  /// Opens an existing run to go on after `global_step` (that of the checkpoint in use): lines of the logs
  /// and dumps past it, cut last lines and stale temporary folders are dropped. Errors: not_found when `path`
  /// holds no run, corrupt_data for a damaged line "FILE:LINE: ...".
  [[nodiscard]] static RunFolder resume(const std::filesystem::path& path, int64_t global_step);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// From now on write_metrics() feeds the event file too; see EventLog for what happens to one that exists.
  void keep_event_log();

  /// Opens or creates stats.jsonl, for write_stats().
  void keep_stats_log();
  /// Where dumps of steps go; not created.
  [[nodiscard]] std::filesystem::path dumps() const;

  void write_config(std::string_view yaml) const;
  void write_summary(const nlohmann::json& summary) const;

  /// Appends a line. Error: invalid_argument when id.global_step does not exceed the last one of that log.
  void write_metrics(const StepId& id, const Metrics& metrics);
  void write_timings(const StepId& id, const Metrics& seconds);
  /// Appends a line of rollouts.jsonl, which the first one creates: `members` behind the step's own.
  void write_rollout(const StepId& id, std::string_view members);
  /// Appends a line of stats.jsonl for each of `members`, the JSON members behind the step's own. Needs
  /// keep_stats_log().
  void write_stats(const StepId& id, std::span<const std::string> members);

  /// Fills a checkpoint folder.
  using FillCheckpoint = std::function<void(const std::filesystem::path& temporary_folder)>;
  /// Calls `fill` with a temporary folder, adds manifest.json, makes the logs and the folder durable and
  /// renames it to checkpoints/step_NNNNNN, which is returned. When `fill` throws, nothing is left behind.
  std::filesystem::path save_checkpoint(int64_t global_step, const FillCheckpoint& fill);
  /// Removes all but the newest `keep` (>= 1) checkpoints and those of the steps in `always`.
  void prune_checkpoints(int64_t keep, std::span<const int64_t> always = {}) const;

 private:
  struct Log {
    io::LineLog file;
    int64_t last_step;
  };
  RunFolder(std::filesystem::path path, int64_t last_step);
  static void append(Log& log, const StepId& id, const std::string& line);

  std::filesystem::path path_;
  Log metrics_;
  Log timings_;
  std::optional<Log> rollouts_;
  std::optional<Log> stats_;
  std::optional<EventLog> events_;
};

}  // namespace minite::learn
