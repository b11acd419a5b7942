#include "learn/run_folder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "io/atomic_folder.h"
#include "io/files.h"
#include "io/json_file.h"
#include "io/json_line.h"
#include "io/manifest.h"

namespace minite::learn {
namespace fs = std::filesystem;
namespace {

constexpr const char* kConfig = "config.yaml";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kTimings = "timings.jsonl";
constexpr const char* kRollouts = "rollouts.jsonl";
constexpr const char* kStats = "stats.jsonl";
constexpr const char* kSummary = "summary.json";
constexpr const char* kCheckpoints = "checkpoints";
constexpr const char* kDumps = "dumps";
constexpr std::string_view kStepPrefix = "step_";
constexpr int64_t kBeforeFirst = -1;

std::string head(const StepId& id) {
  return fmt::format("\"global_step\":{},\"step\":{},\"stage\":\"{}\"", id.global_step, id.step,
                     stage_name(id.stage));
}

// Drops the lines past `global_step`; a line that is no JSON object with a global_step is an error.
void drop_later_lines(const fs::path& file, int64_t global_step) {
  io::keep_lines(file, [&](std::string_view line, int64_t line_number) {
    const auto row = io::parse_json(line, file.string(), line_number);
    if (!row.is_object() || !row.contains("global_step") || !row["global_step"].is_number_integer()) {
      fail(ErrorCode::corrupt_data, "{}:{}: the line has no whole number global_step", file.string(),
           line_number);
    }
    return row["global_step"].get<int64_t>() <= global_step;
  });
}

// A run that was killed while its folder was made has neither a configuration nor a line: it can start again.
bool holds_run(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / kConfig, error)) return true;
  const auto bytes = fs::file_size(path / kMetrics, error);
  return !error && bytes > 0;
}

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  name.remove_prefix(kStepPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool whole = error == std::errc() && end == name.data() + name.size() && step >= 0;
  return whole ? std::optional(step) : std::nullopt;
}

// Dumps of steps that will be run again.
void drop_later_dumps(const fs::path& folder, int64_t global_step) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  for (const auto& name : io::list_entries(folder)) {
    const auto step = step_of(name);
    if (!step || *step <= global_step) continue;
    fs::remove_all(folder / name, error);
    if (error) io::fail_errno(error.value(), "remove", folder / name);
  }
}

}  // namespace

std::string metrics_line(const StepId& id, const Metrics& metrics) {
  for (const auto& [name, value] : metrics) {
    require(std::find(kLineHead.begin(), kLineHead.end(), name) == kLineHead.end(),
            "a metric must not be named {}; the log uses that name itself", name);
  }
  const std::string body = io::json_members(metrics);
  return fmt::format("{{{}{}{}}}", head(id), body.empty() ? "" : ",", body);
}

std::string timings_line(const StepId& id, const Metrics& seconds) {
  return fmt::format("{{{},\"seconds\":{{{}}}}}", head(id), io::json_members(seconds));
}

std::vector<Checkpoint> list_checkpoints(const fs::path& run) {
  std::vector<Checkpoint> found;
  std::error_code error;
  for (const auto& name : io::list_entries(run / kCheckpoints)) {
    const auto step = step_of(name);
    const fs::path path = run / kCheckpoints / name;
    if (step && fs::is_directory(path, error)) found.push_back({*step, path});
  }
  std::sort(found.begin(), found.end(), [](const Checkpoint& a, const Checkpoint& b) {
    return std::tie(a.global_step, a.path) < std::tie(b.global_step, b.path);
  });
  return found;
}

CheckpointSearch latest_valid_checkpoint(const fs::path& run) {
  CheckpointSearch search;
  const auto all = list_checkpoints(run);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    const auto faults = io::verify_checkpoint(it->path);
    if (faults.empty()) {
      search.newest_valid = *it;
      break;
    }
    search.skipped.push_back(
        fmt::format("skipped checkpoint {}: {}", it->path.string(), fmt::join(faults, "; ")));
  }
  return search;
}

RunFolder::RunFolder(fs::path path, int64_t last_step)
    : path_(std::move(path)),
      metrics_{io::LineLog(path_ / kMetrics), last_step},
      timings_{io::LineLog(path_ / kTimings), last_step} {}

RunFolder RunFolder::create(const fs::path& path) {
  require(!holds_run(path),
          "{} already holds a run; continue it with --resume {} or choose another folder with -o",
          path.string(), path.string());
  io::create_folders(path / kCheckpoints);
  RunFolder folder(path, kBeforeFirst);
  io::sync_folder(path);
  return folder;
}

RunFolder RunFolder::resume(const fs::path& path, int64_t global_step) {
  if (!holds_run(path)) {
    fail(ErrorCode::not_found, "{} holds no run to resume (no {}); check the path", path.string(), kMetrics);
  }
  io::create_folders(path / kCheckpoints);
  io::remove_stale_temporaries(path);
  io::remove_stale_temporaries(path / kCheckpoints);
  drop_later_lines(path / kMetrics, global_step);
  drop_later_lines(path / kTimings, global_step);
  drop_later_lines(path / kRollouts, global_step);
  drop_later_lines(path / kStats, global_step);
  drop_later_dumps(path / kDumps, global_step);
  return RunFolder(path, global_step);
}

void RunFolder::keep_event_log() { events_.emplace(path_, io::read_json_lines(path_ / kMetrics).rows); }

void RunFolder::keep_stats_log() { stats_.emplace(Log{io::LineLog(path_ / kStats), metrics_.last_step}); }

fs::path RunFolder::dumps() const { return path_ / kDumps; }

void RunFolder::write_config(std::string_view yaml) const { write_file_atomically(path_ / kConfig, yaml); }

void RunFolder::write_summary(const nlohmann::json& summary) const {
  io::write_json_file(path_ / kSummary, summary);
}

void RunFolder::append(Log& log, const StepId& id, const std::string& line) {
  require(id.global_step > log.last_step,
          "global_step {} does not follow {}; steps must grow over all stages", id.global_step,
          log.last_step);
  log.file.write_line(line);
  log.last_step = id.global_step;
}

void RunFolder::write_metrics(const StepId& id, const Metrics& metrics) {
  append(metrics_, id, metrics_line(id, metrics));
  if (events_) events_->append(id, metrics);
}

void RunFolder::write_timings(const StepId& id, const Metrics& seconds) {
  append(timings_, id, timings_line(id, seconds));
}

void RunFolder::write_rollout(const StepId& id, std::string_view members) {
  if (!rollouts_) {
    // A resumed run has kept lines up to its checkpoint, which metrics.jsonl counts.
    rollouts_.emplace(Log{io::LineLog(path_ / kRollouts), id.global_step - 1});
    io::sync_folder(path_);
  }
  append(*rollouts_, id, fmt::format("{{{},{}}}", head(id), members));
}

void RunFolder::write_stats(const StepId& id, std::span<const std::string> members) {
  const int64_t before = stats_->last_step;
  for (const std::string& text : members) {
    stats_->last_step = before;  // the lines of a step share its number
    append(*stats_, id, fmt::format("{{{},{}}}", head(id), text));
  }
}

fs::path RunFolder::save_checkpoint(int64_t global_step, const FillCheckpoint& fill) {
  require(global_step >= 0, "a checkpoint needs a step >= 0, got {}", global_step);
  const fs::path final_path = checkpoint_path(path_, global_step);
  io::AtomicFolder folder(final_path);
  fill(folder.path());
  io::write_manifest(folder.path());
  // The logs first: a checkpoint never speaks of a step whose lines are lost.
  metrics_.file.sync();
  timings_.file.sync();
  if (events_) events_->sync();
  if (rollouts_) rollouts_->file.sync();
  if (stats_) stats_->file.sync();
  folder.commit();
  return final_path;
}

fs::path checkpoint_path(const fs::path& run, int64_t global_step) {
  return run / kCheckpoints / fmt::format("{}{:06}", kStepPrefix, global_step);
}

void RunFolder::prune_checkpoints(int64_t keep, std::span<const int64_t> always) const {
  require(keep >= 1, "at least one checkpoint must be kept, got {}", keep);
  const auto all = list_checkpoints(path_);
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i) {
    if (std::find(always.begin(), always.end(), all[i].global_step) != always.end()) continue;
    std::error_code error;
    fs::remove_all(all[i].path, error);
    if (error) io::fail_errno(error.value(), "remove", all[i].path);
  }
}

}  // namespace minite::learn
