#include "learn/event_log.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/fail.h"
#include "core/text_file.h"
#include "io/event_file.h"
#include "io/files.h"
#include "io/json_file.h"

namespace minite::learn {
namespace fs = std::filesystem;
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

io::Event head() { return {0, 0, std::string(io::kEventFileVersion), {}}; }

io::Event event_of(std::string_view stage, int64_t step, const Metrics& metrics) {
  io::Event event{0, step, "", {}};
  for (const auto& [name, value] : metrics)
    event.scalars.push_back({fmt::format("{}/{}", stage, name), static_cast<float>(value)});
  return event;
}

io::Event event_of(const nlohmann::json& line) {
  const auto stage = line.find("stage"), step = line.find("step");
  if (stage == line.end() || !stage->is_string() || step == line.end() || !step->is_number_integer())
    fail(ErrorCode::corrupt_data, "metrics.jsonl: a line has no stage or no whole number step");
  Metrics metrics;
  for (const auto& [name, value] : line.items()) {
    const bool metric = value.is_null() || value.is_number();
    const bool place = std::find(kLineHead.begin(), kLineHead.end(), name) != kLineHead.end();
    if (metric && !place) metrics[name] = io::logged_number(line, name);
  }
  return event_of(stage->get<std::string>(), step->get<int64_t>(), metrics);
}

/// How far the file agrees with the lines, and the events that come after that.
struct Reconciled {
  std::vector<io::Event> missing;
  uint64_t kept_bytes = 0;
};

Reconciled reconcile(const fs::path& path, const std::vector<nlohmann::json>& lines) {
  std::vector<io::Event> wanted = {head()};
  for (const nlohmann::json& line : lines) wanted.push_back(event_of(line));
  std::error_code error;
  const std::string bytes =
      fs::exists(path, error) ? read_text_file(path.string(), std::numeric_limits<int64_t>::max()) : "";
  const io::EventFile file = io::parse_events(bytes);
  Reconciled result;
  size_t same = 0;
  // Records are compared as bytes, so that NaN equals itself and no field is forgotten.
  for (; same < std::min(file.events.size(), wanted.size()); ++same) {
    io::Event event = wanted[same];
    event.wall_time = file.events[same].wall_time;
    const std::string_view record =
        std::string_view(bytes).substr(result.kept_bytes, file.ends[same] - result.kept_bytes);
    if (io::event_record(event) != record) break;
    result.kept_bytes = file.ends[same];
  }
  result.missing.assign(wanted.begin() + static_cast<std::ptrdiff_t>(same), wanted.end());
  return result;
}

fs::path file_in(const fs::path& run) {
  io::create_folders(run / "tensorboard");
  return run / "tensorboard" / "events.out.tfevents.0.minite";
}

}  // namespace

EventLog::EventLog(const fs::path& run, const std::vector<nlohmann::json>& lines) : file_(file_in(run)) {
  const Reconciled state = reconcile(file_.path(), lines);
  file_.truncate(state.kept_bytes);
  std::string records;
  for (io::Event event : state.missing) {
    event.wall_time = now();
    records += io::event_record(event);
  }
  if (!records.empty()) file_.append(records);
  io::sync_folder(file_.path().parent_path());
}

void EventLog::append(const StepId& id, const Metrics& metrics) {
  io::Event event = event_of(stage_name(id.stage), id.step, metrics);
  event.wall_time = now();
  file_.append(io::event_record(event));
}

}  // namespace minite::learn
