#include "diagnostics/gap_data.h"

#include <fmt/format.h>

#include "core/fail.h"
#include "diagnostics/html.h"
#include "io/json_file.h"

namespace minite::diagnostics {
namespace {

using nlohmann::json;

GapCellData read_cell(const json& row) {
  GapCellData cell;
  cell.learner = row.at("learner").get<std::string>();
  cell.sampler = row.at("sampler").get<std::string>();
  cell.learner_kv = row.at("learner_kv").get<std::string>();
  cell.kv_cache = row.at("kv_cache").get<std::string>();
  cell.replay = row.at("router_replay").get<std::string>();
  cell.mean_abs = io::logged_number(row, "mean_abs_gap");
  cell.max_abs = io::logged_number(row, "max_abs_gap");
  cell.tokens = row.at("tokens").get<int64_t>();
  cell.non_finite = row.at("non_finite_tokens").get<int64_t>();
  for (const json& cause : row.at("causes"))
    cell.causes.emplace_back(cause.at("field").get<std::string>(), cause.at("text").get<std::string>());
  for (const json& figure : row.at("report")) {
    cell.report += fmt::format("{}{} ({})", cell.report.empty() ? "" : ", ",
                               short_number(io::logged_number(figure, "mean_abs_gap")),
                               figure.at("source").get<std::string>());
  }
  cell.details = row.at("details");
  return cell;
}

}  // namespace

std::string GapCellData::label() const {
  constexpr std::string_view kDefault = "bf16", kOff = "off";
  std::string text = fmt::format("{} / {}", learner, sampler);
  if (replay != kOff) text += ", " + replay;
  if (learner_kv != kDefault || kv_cache != kDefault) text += fmt::format(", KV {}/{}", learner_kv, kv_cache);
  return text;
}

GapData read_gap(const json& document, const std::string& origin) {
  try {
    GapData gap;
    gap.checkpoint = document.at("checkpoint").get<std::string>();
    gap.data = document.at("data").get<std::string>();
    gap.policy = document.at("policy").get<std::string>();
    gap.backend = document.at("backend").get<std::string>();
    const json& drawn = document.at("drawn_by");
    gap.drawn_by = fmt::format("{} (KV {})", drawn.at("recipe").get<std::string>(),
                               drawn.at("kv_cache").get<std::string>());
    gap.responses = document.at("responses").get<int64_t>();
    gap.tokens = document.at("tokens").get<int64_t>();
    gap.problems = document.at("problems").get<int64_t>();
    gap.samples = document.at("samples").get<int64_t>();
    gap.seed = document.at("seed").get<int64_t>();
    gap.experts = document.at("experts").get<int64_t>();
    gap.temperature = document.at("temperature").get<double>();
    gap.reward = document.at("reward").get<double>();
    gap.redrawn = document.at("redrawn_tokens").get<int64_t>();
    for (const json& row : document.at("rows")) gap.cells.push_back(read_cell(row));
    return gap;
  } catch (const json::exception& error) {
    fail(ErrorCode::corrupt_data, "{} is no result of `minite gap --json`: {}", origin, error.what());
  }
}

}  // namespace minite::diagnostics
