#include "diagnostics/run_data.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"
#include "diagnostics/axis.h"
#include "diagnostics/html.h"
#include "io/json_file.h"

namespace minite::diagnostics {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kHead = {"global_step", "step", "stage"};
constexpr std::string_view kTokens = "tokens";  // a count that the training loop logs beside the seconds
constexpr int kDeepestSetting = 8;              // config.yaml is untrusted text: aliases can fold a huge tree
constexpr size_t kMostSettings = 4096;

struct Line {
  const json& row;
  std::string place;  // "FILE:LINE"

  [[nodiscard]] double step() const {
    const auto it = row.find("step");
    if (it == row.end() || !it->is_number_integer())
      fail(ErrorCode::corrupt_data, "{}: the line has no whole number step", place);
    return it->get<double>();
  }
  [[nodiscard]] std::string stage() const {
    const auto it = row.find("stage");
    if (it == row.end() || !it->is_string())
      fail(ErrorCode::corrupt_data, "{}: the line has no stage", place);
    return it->get<std::string>();
  }
};

void add_metrics(const Line& line, RunData& run) {
  StageData& stage = run.stages[line.stage()];
  const double step = line.step();
  ++stage.lines;
  for (const auto& [name, value] : line.row.items()) {
    const bool head = std::find(kHead.begin(), kHead.end(), name) != kHead.end();
    if (head || !(value.is_number() || value.is_null())) continue;
    Column& column = stage.metrics[name];
    column.step.push_back(step);
    column.value.push_back(io::logged_number(line.row, name));
    column.nonfinite += std::isfinite(column.value.back()) ? 0 : 1;
  }
}

void add_timings(const Line& line, RunData& run) {
  const auto seconds = line.row.find("seconds");
  if (seconds == line.row.end() || !seconds->is_object()) {
    fail(ErrorCode::corrupt_data, "{}: the line has no object seconds", line.place);
  }
  StageData& stage = run.stages[line.stage()];
  double total = 0;
  for (const auto& [name, value] : seconds->items()) {
    if (name == kTokens || !value.is_number() || value.get<double>() < 0 || !drawable(value.get<double>()))
      continue;
    stage.seconds[name].sum += value.get<double>();
    ++stage.seconds[name].steps;
    total += value.get<double>();
  }
  if (total > 0) {
    stage.throughput.step.push_back(line.step());
    stage.throughput.value.push_back(total);
  }
}

// The seconds that add_timings() gathered become tokens a second, where a step has both.
void divide_tokens(StageData& stage) {
  const Column seconds = std::exchange(stage.throughput, {});
  const Column* tokens = stage.find(kTokens);
  if (tokens == nullptr) return;
  std::map<double, double> tokens_of;
  for (size_t i = 0; i < tokens->step.size(); ++i) tokens_of[tokens->step[i]] = tokens->value[i];
  for (size_t i = 0; i < seconds.step.size(); ++i) {
    const auto it = tokens_of.find(seconds.step[i]);
    if (it == tokens_of.end()) continue;
    stage.throughput.step.push_back(seconds.step[i]);
    stage.throughput.value.push_back(it->second / seconds.value[i]);
  }
}

void read_log(const fs::path& path, RunData& run, void (*add)(const Line&, RunData&)) {
  const auto lines = io::read_json_lines(path);
  for (size_t i = 0; i < lines.rows.size(); ++i) {
    add({lines.rows[i], fmt::format("{}:{}", path.string(), lines.numbers[i])}, run);
  }
  if (lines.cut_line > 0) {
    run.notes.push_back(fmt::format("Line {} of {} was cut short by an interruption and is left out.",
                                    lines.cut_line, path.filename().string()));
  }
}

void put_setting(RunData& run, const std::string& path, const std::string& value) {
  if (run.settings.size() >= kMostSettings) return;
  run.settings[path] = value;
  // The short name serves when only one place uses it; the outermost, read first, wins.
  const size_t dot = path.rfind('.');
  if (dot != std::string::npos) run.settings.emplace(path.substr(dot + 1), value);
}

void flatten(const YAML::Node& node, const std::string& path, int depth, RunData& run) {
  if (depth > kDeepestSetting || run.settings.size() >= kMostSettings) return;
  if (node.IsScalar() && !path.empty()) {
    put_setting(run, path, node.Scalar());
    if (run.config_settings.size() < kMostSettings) run.config_settings.emplace_back(path, node.Scalar());
  }
  if (!node.IsMap()) return;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) continue;
    flatten(entry.second, path.empty() ? entry.first.Scalar() : path + "." + entry.first.Scalar(), depth + 1,
            run);
  }
}

void flatten(const json& node, const std::string& path, int depth, RunData& run) {
  if (depth > kDeepestSetting) return;
  if (node.is_object()) {
    for (const auto& [key, value] : node.items())
      flatten(value, path.empty() ? key : path + "." + key, depth + 1, run);
  } else if (node.is_number()) {
    put_setting(run, path, node.is_number_float() ? short_number(node.get<double>()) : node.dump());
  } else if (node.is_string()) {
    put_setting(run, path, node.get<std::string>());
  } else if (node.is_boolean()) {
    put_setting(run, path, node.dump());
  }
}

void read_config(const fs::path& path, RunData& run) {
  run.config = read_text_file(path.string());
  try {
    flatten(YAML::Load(run.config), "", 0, run);
  } catch (const YAML::Exception& error) {
    run.notes.push_back(fmt::format("config.yaml is not valid YAML ({}); it is shown as it is.",
                                    printable(error.what(), 200)));
  }
}

}  // namespace

const Column* StageData::find(std::string_view metric) const {
  const auto it = metrics.find(std::string(metric));
  return it == metrics.end() ? nullptr : &it->second;
}

const StageData* RunData::find(std::string_view stage) const {
  const auto it = stages.find(std::string(stage));
  return it == stages.end() ? nullptr : &it->second;
}

std::optional<std::string> RunData::setting(const std::vector<std::string_view>& keys) const {
  for (const auto key : keys) {
    if (const auto it = settings.find(std::string(key)); it != settings.end()) return it->second;
  }
  return std::nullopt;
}

RunData read_run(const fs::path& path) {
  RunData run;
  run.path = path.string();
  std::error_code ignored;
  const fs::path folder = path.filename().empty() ? path.parent_path() : path;
  run.name = fs::absolute(folder, ignored).lexically_normal().filename().string();
  if (!fs::exists(path / "metrics.jsonl", ignored)) {
    fail(ErrorCode::not_found, "{} holds no run (no metrics.jsonl); name a run folder such as runs/PRESET",
         path.string());
  }
  read_log(path / "metrics.jsonl", run, add_metrics);
  const auto present = [&](const char* name, const char* otherwise) {
    if (fs::exists(path / name, ignored)) return true;
    run.notes.emplace_back(otherwise);
    return false;
  };
  if (present("timings.jsonl", "There is no timings.jsonl, so stage times are not shown.")) {
    read_log(path / "timings.jsonl", run, add_timings);
    for (auto& [name, stage] : run.stages) divide_tokens(stage);
  }
  if (fs::exists(path / "plans.json", ignored)) run.plans = io::read_json_file(path / "plans.json");
  if (present("config.yaml", "There is no config.yaml, so the configuration is not shown.")) {
    read_config(path / "config.yaml", run);
  }
  if (present("summary.json",
              "There is no summary.json: the run has not finished, and the headline numbers come "
              "from metrics.jsonl.")) {
    run.summary = io::read_json_file(path / "summary.json");
    if (!run.summary.is_object()) {
      fail(ErrorCode::corrupt_data, "{}: must be one JSON object, this is {}",
           (path / "summary.json").string(), run.summary.type_name());
    }
    flatten(run.summary, "", 0, run);
  }
  return run;
}

}  // namespace minite::diagnostics
