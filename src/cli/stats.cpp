// minite stats: what stats.jsonl of a run says: the last step, trends, and what stands out.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "diagnostics/probe_rules.h"
#include "diagnostics/stats_data.h"
#include "recipes/glob.h"

namespace minite::cli {
namespace {

using diagnostics::Finding;
using diagnostics::StatRow;
using diagnostics::StatSeries;

struct StatsArgs {
  std::string run, module = "*", tensor, side, stage;
  std::optional<int64_t> step;
  bool words = false;
  ReportStyle style = ReportStyle::text;
};

/// The statistics of the text table and their headers.
constexpr std::pair<const char*, const char*> kColumns[] = {
    {"cur_amax", "amax"},          {"std", "std"},
    {"dynamic_range", "bits"},     {"underflows%", "underflow %"},
    {"saturated%", "saturated %"}, {"zero_scale_blocks", "zero blocks"},
    {"snr_db", "SNR dB"},
};
constexpr const char* kTrends[] = {"cur_amax", "snr_db"};
constexpr size_t kFindings = 4;  ///< of a sign that the text names

/// What the command shows: series of one stage that the options choose, and of each the row of the step.
struct Choice {
  std::string stage;
  std::vector<StatSeries> series;
  std::vector<const StatRow*> rows;  ///< nullptr: the tensor was not measured at the step
};

/// RL is what a run is for; SFT and a contrast stand in.
std::string choose_stage(const StatsArgs& args, const std::vector<StatRow>& rows) {
  const auto at_step = [&](const StatRow& r) { return r.global_step == *args.step; };
  if (args.step) {
    const auto found = std::ranges::find_if(rows, at_step);
    if (found != rows.end()) return found->stage;
    std::vector<int64_t> steps;
    for (const StatRow& r : rows) {
      if (steps.empty() || steps.back() != r.global_step) steps.push_back(r.global_step);
    }
    fail(ErrorCode::not_found, "{}: no statistics of step {}; there are {}", args.run, *args.step,
         fmt::join(steps, ", "));
  }
  for (const std::string& stage :
       {args.stage, std::string("rl"), std::string("sft"), std::string("contrast")}) {
    if (std::ranges::any_of(rows, [&](const StatRow& r) { return r.stage == stage; })) return stage;
    if (!args.stage.empty())
      fail(ErrorCode::not_found, "{}: no statistics of a stage '{}'", args.run, args.stage);
  }
  fail(ErrorCode::not_found, "{}: stats.jsonl holds no line yet; the rules' first step is to come", args.run);
}

Choice choose(const StatsArgs& args, const std::vector<StatRow>& rows) {
  Choice choice{choose_stage(args, rows), {}, {}};
  for (StatSeries& series : diagnostics::series_of(rows, choice.stage)) {
    const StatRow& row = series.front();
    const bool wanted = glob_match(args.module, row.module) &&
                        (args.tensor.empty() || args.tensor == row.tensor) &&
                        (args.side.empty() || args.side == row.side);
    if (wanted) choice.series.push_back(std::move(series));
  }
  if (choice.series.empty()) {
    fail(ErrorCode::not_found, "{}: no tensor of stage {} fits --module '{}'{}{}", args.run, choice.stage,
         args.module, args.tensor.empty() ? "" : " --tensor " + args.tensor,
         args.side.empty() ? "" : " --side " + args.side);
  }
  for (const StatSeries& series : choice.series) {
    const auto at = std::ranges::find_if(
        series, [&](const StatRow& r) { return !args.step || r.global_step == *args.step; });
    const StatRow* row = args.step ? (at == series.end() ? nullptr : &*at) : &series.back();
    choice.rows.push_back(row);
  }
  return choice;
}

std::string cell(const StatRow& row, const char* statistic) {
  const double* value = row.find(statistic);
  return value == nullptr ? "-" : number_text(*value, 4);
}

std::string trend_cell(const StatSeries& series, const char* statistic) {
  const diagnostics::Trend t = diagnostics::trend(series, statistic);
  if (std::isnan(t.first)) return "-";
  return fmt::format("{} / {} / {}", number_text(t.first, 3), number_text(t.median, 3),
                     number_text(t.last, 3));
}

std::string tensor_text(const StatRow& row) {
  return row.expert < 0 ? row.tensor : fmt::format("{} of expert {}", row.tensor, row.expert);
}

/// "underflows% above 1 in 16 tensors (values that codes make 0): 25.2 in learner layers.0.down activation at
/// step 11, ...", of the findings of one sign.
std::string sentence(std::span<const Finding> of_sign) {
  const diagnostics::Sign& sign = *of_sign[0].sign;
  std::vector<std::string> largest;
  for (const Finding& f : of_sign.first(std::min(of_sign.size(), kFindings))) {
    largest.push_back(fmt::format("{} in {} {} {} at step {}", number_text(f.value, 4), f.row->side,
                                  f.row->module, tensor_text(*f.row), f.row->global_step));
  }
  return fmt::format("  {} above {} in {} tensors ({}):\n    {}{}\n", sign.statistic, sign.limit,
                     of_sign.size(), sign.means, fmt::join(largest, "\n    "),
                     of_sign.size() > kFindings ? "\n    ..." : "");
}

void print_text(const Choice& choice, const std::vector<Finding>& found) {
  std::vector<std::string> headers = {"step", "side", "module", "tensor", "elements"};
  for (const auto& [statistic, header] : kColumns) headers.emplace_back(header);
  for (const char* statistic : kTrends)
    headers.push_back(fmt::format("{}: first / median / last", statistic));
  Table table(headers);
  for (size_t i = 0; i < choice.series.size(); ++i) {
    const StatRow* row = choice.rows[i];
    if (row == nullptr) continue;
    std::vector<std::string> cells = {fmt::format("{}", row->global_step), row->side, row->module,
                                      tensor_text(*row), fmt::format("{}", row->count)};
    for (const auto& [statistic, header] : kColumns) cells.push_back(cell(*row, statistic));
    for (const char* statistic : kTrends) cells.push_back(trend_cell(choice.series[i], statistic));
    table.add(std::move(cells));
  }
  std::string text = fmt::format("stage {}\n{}\n", choice.stage, table.to_text());
  text += found.empty()
              ? "nothing stands out: nothing is NaN, no block scale is 0 or NaN, no value overflows "
                "its block, codes make less than 1 % of the values 0\n"
              : "stands out:\n";
  for (size_t begin = 0, end = 0; begin < found.size(); begin = end) {
    while (end < found.size() && found[end].sign == found[begin].sign) ++end;
    text += sentence(std::span(found).subspan(begin, end - begin));
  }
  print(text);
}

nlohmann::ordered_json place(const StatRow& row) {
  nlohmann::ordered_json out;
  out["global_step"] = row.global_step;
  out["side"] = row.side;
  out["module"] = row.module;
  out["tensor"] = row.tensor;
  if (row.expert >= 0) out["expert"] = row.expert;
  return out;
}

void print_document(const StatsArgs& args, const Choice& choice, const std::vector<Finding>& found) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array(), signs = nlohmann::ordered_json::array();
  for (size_t i = 0; i < choice.series.size(); ++i) {
    if (choice.rows[i] == nullptr) continue;
    const StatRow& row = *choice.rows[i];
    nlohmann::ordered_json out = place(row);
    out["elements"] = row.count;
    out["steps"] = choice.series[i].size();
    for (const auto& [name, value] : row.values) set_number(out, name, value);
    if (!row.histogram.empty()) out[std::string(diagnostics::kScaleHistogram)] = row.histogram;
    for (const auto& [name, value] : row.values) {
      const diagnostics::Trend t = diagnostics::trend(choice.series[i], name);
      auto& trend = out["trend"][name];
      set_number(trend, "first", t.first);
      set_number(trend, "median", t.median);
      set_number(trend, "last", t.last);
    }
    rows.push_back(std::move(out));
  }
  for (const Finding& f : found) {
    nlohmann::ordered_json out = place(*f.row);
    out["statistic"] = f.sign->statistic;
    set_number(out, "value", f.value);
    out["limit"] = f.sign->limit;
    out["means"] = f.sign->means;
    out["steps"] = f.steps;
    signs.push_back(std::move(out));
  }
  print_json({{"run", args.run}, {"stage", choice.stage}, {"rows", rows}, {"stands_out", signs}});
}

int words(const StatsArgs& args) {
  Table table({"name", "also", "unit", "of", "usual", "formula"});
  for (const diagnostics::Statistic& s : diagnostics::statistics()) {
    const auto code = [&](std::string_view text) {
      return text.empty() || args.style != ReportStyle::markdown ? std::string(text)
                                                                 : fmt::format("`{}`", text);
    };
    table.add({code(s.name), code(s.alias), std::string(s.unit), s.of_codes ? "codes" : "values",
               s.usual ? "yes" : "no", std::string(s.formula)});
  }
  print(args.style == ReportStyle::markdown ? table.to_markdown() : table.to_text());
  return kOk;
}

int stats(const StatsArgs& args) {
  if (args.words) return words(args);
  require(!args.run.empty(), "stats: name a run folder, as in `minite stats runs/demo`");
  const std::vector<StatRow> rows = diagnostics::read_stats(args.run);
  const Choice choice = choose(args, rows);
  const std::vector<Finding> found = diagnostics::findings(choice.series);
  if (args.style == ReportStyle::json) {
    print_document(args, choice, found);
  } else {
    print_text(choice, found);
  }
  return kOk;
}

}  // namespace

std::function<int()> add_stats(CLI::App& app) {
  auto args = std::make_shared<StatsArgs>();
  app.add_option("run", args->run, "run folder with stats.jsonl, made by --probe stats");
  app.add_option("--module", args->module, "glob of module names, as layers.*.down");
  std::vector<std::string> tensors;
  for (const diagnostics::TensorKind kind : diagnostics::tensor_kinds())
    tensors.emplace_back(diagnostics::tensor_name(kind));
  app.add_option("--tensor", args->tensor, "one kind of tensor")->check(CLI::IsMember(tensors));
  app.add_option("--side", args->side, "learner or sampler")->check(CLI::IsMember({"learner", "sampler"}));
  app.add_option("--stage", args->stage, "sft, rl or contrast (default: rl when the run has it)");
  app.add_option("--step", args->step, "global step (default: the last of each tensor)");
  app.add_flag("--words", args->words, "list the statistics and what they are; needs no run");
  add_style_flags(app, args->style);
  return [args] { return stats(*args); };
}

}  // namespace minite::cli
