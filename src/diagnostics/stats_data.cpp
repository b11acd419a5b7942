#include "diagnostics/stats_data.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/fail.h"
#include "io/json_file.h"

namespace minite::diagnostics {
namespace {

namespace fs = std::filesystem;

auto key(const StatRow& r) { return std::tie(r.side, r.layer, r.module, r.tensor, r.expert); }

int64_t index_or_none(const nlohmann::json& value) { return value.is_null() ? -1 : value.get<int64_t>(); }

StatRow row_of(const nlohmann::json& line) {
  StatRow row;
  line.at("global_step").get_to(row.global_step);
  line.at("step").get_to(row.step);
  line.at("stage").get_to(row.stage);
  line.at("side").get_to(row.side);
  line.at("tensor").get_to(row.tensor);
  line.at("count").get_to(row.count);
  row.layer = index_or_none(line.at("layer"));
  row.expert = index_or_none(line.at("expert"));
  row.module = line.at("module").get<std::string>();
  if (row.layer >= 0) row.module = fmt::format("layers.{}.{}", row.layer, row.module);
  for (const Statistic& s : statistics()) {
    const std::string name(s.name);
    if (s.get != nullptr && line.contains(name)) row.values[name] = io::logged_number(line, name);
  }
  if (const auto list = line.find(std::string(kScaleHistogram)); list != line.end())
    list->get_to(row.histogram);
  return row;
}

}  // namespace

bool StatRow::same_tensor(const StatRow& other) const { return key(*this) == key(other); }

const double* StatRow::find(std::string_view statistic) const {
  const auto at = values.find(std::string(statistic));
  return at == values.end() ? nullptr : &at->second;
}

std::vector<StatRow> read_stats(const fs::path& run) {
  const fs::path file = run / "stats.jsonl";
  std::error_code error;
  if (!fs::exists(file, error)) {
    require(fs::exists(run / "metrics.jsonl", error), "{} holds no run (no metrics.jsonl); check the path",
            run.string());
    fail(ErrorCode::not_found,
         "{} has no stats.jsonl: the run did not look at its tensors. Start it with --probe stats, or go on "
         "with --resume {} --probe stats",
         run.string(), run.string());
  }
  const io::JsonLines lines = io::read_json_lines(file);
  std::vector<StatRow> rows;
  for (size_t i = 0; i < lines.rows.size(); ++i) {
    try {
      rows.push_back(row_of(lines.rows[i]));
    } catch (const nlohmann::json::exception& problem) {
      fail(ErrorCode::corrupt_data, "{}:{}: not a line of statistics: {}", file.string(), lines.numbers[i],
           problem.what());
    }
  }
  return rows;
}

std::vector<StatSeries> series_of(const std::vector<StatRow>& rows, std::string_view stage) {
  std::vector<StatRow> chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen),
               [&](const StatRow& row) { return row.stage == stage; });
  std::stable_sort(chosen.begin(), chosen.end(), [](const StatRow& a, const StatRow& b) {
    return std::tuple_cat(key(a), std::tie(a.global_step)) < std::tuple_cat(key(b), std::tie(b.global_step));
  });
  std::vector<StatSeries> all;
  for (StatRow& row : chosen) {
    if (all.empty() || !all.back().back().same_tensor(row)) all.emplace_back();
    all.back().push_back(std::move(row));
  }
  return all;
}

Trend trend(const StatSeries& series, std::string_view statistic) {
  std::vector<double> values;
  for (const StatRow& row : series) {
    const double* value = row.find(statistic);
    if (value != nullptr && std::isfinite(*value)) values.push_back(*value);
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kNone, kNone, kNone};
  Trend t{values.front(), 0, values.back()};
  std::sort(values.begin(), values.end());
  t.median = values[(values.size() - 1) / 2];
  return t;
}

std::vector<Finding> findings(const std::vector<StatSeries>& all) {
  std::vector<Finding> found;
  for (const Sign& sign : signs()) {
    const size_t begin = found.size();
    for (const StatSeries& series : all) {
      Finding worst{&sign, nullptr, sign.limit, 0};
      for (const StatRow& row : series) {
        const double* value = row.find(sign.statistic);
        if (value == nullptr || *value <= sign.limit) continue;
        ++worst.steps;
        if (worst.row == nullptr || *value > worst.value) worst.row = &row, worst.value = *value;
      }
      if (worst.row != nullptr) found.push_back(worst);
    }
    std::stable_sort(found.begin() + static_cast<std::ptrdiff_t>(begin), found.end(),
                     [](const Finding& a, const Finding& b) { return a.value > b.value; });
  }
  return found;
}

}  // namespace minite::diagnostics
