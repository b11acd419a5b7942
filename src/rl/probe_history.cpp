#include "rl/probe_history.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "core/fail.h"

namespace minite::rl {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kUntil = "# until step ";

/// What held up to a step.
struct Record {
  int64_t step = 0;
  ordered_json probe;
};

ordered_json probe_of(const RunConfig& c) { return {{"probe", c.probe}, {"probe_rules", c.probe_rules}}; }

Record parse_record(const std::string& line, const std::string& place) {
  try {
    const std::string text = line.substr(kUntil.size());
    const size_t colon = text.find(": ");
    Record record{std::stoll(text.substr(0, colon)), ordered_json::parse(text.substr(colon + 2))};
    (void)record.probe.at("probe").get<std::string>();
    (void)record.probe.at("probe_rules").get<std::string>();
    return record;
  } catch (const std::exception&) {
    fail(ErrorCode::corrupt_data, "{}: '{}' does not say what the probe was; delete the line", place, line);
  }
}

}  // namespace

std::string continued_config(const std::string& before, const std::string& origin, int64_t step,
                             const RunConfig& now) {
  RunConfig config = parse_config(before, origin);
  std::vector<Record> records;
  std::istringstream lines(before);
  std::string line;
  for (int number = 1; std::getline(lines, line) && line.starts_with(kUntil); ++number)
    records.push_back(parse_record(line, fmt::format("{}:{}", origin, number)));
  const bool looked_back = !records.empty();
  // What held at `step`: the first record that reaches it, or the setting of the file.
  ordered_json held = probe_of(config);
  const auto reaches = [&](const Record& r) { return r.step >= step; };
  if (const auto first = std::ranges::find_if(records, reaches); first != records.end()) {
    held = first->probe;
    records.erase(first, records.end());
  }
  if (step == 0) records.clear();
  if (step > 0 && held != probe_of(now)) records.push_back({step, held});
  if (!looked_back && records.empty() && probe_of(config) == probe_of(now)) return before;
  config.probe = now.probe;
  config.probe_rules = now.probe_rules;
  std::string text;
  for (const Record& r : records) text += fmt::format("{}{}: {}\n", kUntil, r.step, r.probe.dump());
  return text + to_yaml(config);
}

}  // namespace minite::rl
