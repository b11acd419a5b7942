// minite metrics: every number that a run writes, with --names what others call it, and with --options what
// the loss can be made of.
#include <array>
#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "learn/run_folder.h"
#include "minite/rl.h"

namespace minite::cli {
namespace {

std::string_view better(rl::Direction direction) {
  constexpr std::array<std::string_view, 3> kNames = {"-", "lower", "higher"};
  return kNames[static_cast<size_t>(direction)];
}

std::string_view stages(rl::MetricStages stages) {
  constexpr std::array<std::string_view, 3> kNames = {"sft", "rl, contrast", "all"};
  return kNames[static_cast<size_t>(stages)];
}

std::string or_dash(std::string_view text) { return text.empty() ? "-" : std::string(text); }

std::string code(std::string_view text, ReportStyle style) {
  return style == ReportStyle::markdown && !text.empty() ? "`" + std::string(text) + "`" : or_dash(text);
}

std::string print_table(const Table& table, ReportStyle style) {
  return style == ReportStyle::markdown ? table.to_markdown() : table.to_text();
}

std::string definitions_text(ReportStyle style) {
  Table table({"metric", "stages", "unit", "range", "better", "needs", "definition", "healthy"});
  for (const rl::MetricInfo& row : rl::metric_table()) {
    table.add({code(row.name, style), std::string(stages(row.stages)), std::string(row.unit),
               std::string(row.range), std::string(better(row.direction)), or_dash(row.when),
               std::string(row.definition), or_dash(row.healthy)});
  }
  return print_table(table, style);
}

std::string names_text(ReportStyle style) {
  Table table({"metric", "stages", "slime", "verl", "other source"});
  for (const rl::MetricInfo& row : rl::metric_table()) {
    table.add({code(row.name, style), std::string(stages(row.stages)), code(row.slime, style),
               code(row.verl, style), or_dash(row.source)});
  }
  return print_table(table, style);
}

nlohmann::ordered_json table_json() {
  nlohmann::ordered_json document;
  document["metrics"] = nlohmann::ordered_json::array();
  for (const rl::MetricInfo& row : rl::metric_table()) {
    nlohmann::ordered_json in = nlohmann::ordered_json::array();
    for (const std::string_view stage : learn::kStageNames) {
      if (rl::in_stage(row, stage)) in.push_back(stage);
    }
    document["metrics"].push_back({{"name", row.name},
                                   {"stages", in},
                                   {"unit", row.unit},
                                   {"range", row.range},
                                   {"better", better(row.direction)},
                                   {"definition", row.definition},
                                   {"healthy", row.healthy},
                                   {"slime", row.slime},
                                   {"verl", row.verl},
                                   {"source", row.source},
                                   {"needs", row.when}});
  }
  return document;
}

/// The values of one option of the loss, under the name of its setting.
struct OptionTable {
  std::string_view setting;
  std::vector<rl::Option> (*values)();
};

std::vector<rl::Option> objectives() {
  std::vector<rl::Option> rows;
  for (const rl::ObjectivePreset& preset : rl::objective_presets())
    rows.push_back({preset.name, preset.definition});
  return rows;
}

constexpr std::array kOptionTables = {
    OptionTable{"rl.adv_estimator", rl::options<rl::AdvEstimator>},
    OptionTable{"rl.objective", objectives},
    OptionTable{"rl.loss_mode", rl::options<rl::LossMode>},
    OptionTable{"rl.loss_agg_mode", rl::options<rl::LossAggMode>},
    OptionTable{"rl.rollout_is", rl::options<rl::RolloutIs>},
    OptionTable{"rl.rollout_rs", rl::options<rl::RolloutRs>},
    OptionTable{"rl.kl_loss_type", rl::options<rl::KlLossType>},
    OptionTable{"rl.triage_normalization", rl::options<rl::Normalization>},
    OptionTable{"rl.triage_gate_scope", rl::options<rl::GateScope>},
    OptionTable{"rl.triage_repair_scope", rl::options<rl::RepairScope>},
    OptionTable{"rl.router_replay", rl::options<rl::RouterReplay>},
};

std::string options_text(ReportStyle style) {
  Table table({"setting", "value", "definition"});
  for (const OptionTable& option : kOptionTables) {
    for (const rl::Option& row : option.values())
      table.add({code(option.setting, style), code(row.name, style), std::string(row.definition)});
  }
  return print_table(table, style);
}

nlohmann::ordered_json options_json() {
  nlohmann::ordered_json document;
  document["options"] = nlohmann::ordered_json::array();
  for (const OptionTable& option : kOptionTables) {
    for (const rl::Option& row : option.values()) {
      document["options"].push_back(
          {{"setting", option.setting}, {"value", row.name}, {"definition", row.definition}});
    }
  }
  return document;
}

/// What the verb prints. A JSON document of metrics holds their names too.
struct Topic {
  std::string (*text)(ReportStyle);
  nlohmann::ordered_json (*json)();
};
constexpr Topic kDefinitions = {definitions_text, table_json};
constexpr Topic kNames = {names_text, table_json};
constexpr Topic kOptions = {options_text, options_json};

int run(const Topic& topic, ReportStyle style) {
  if (style == ReportStyle::json) {
    print_json(topic.json());
  } else {
    print(topic.text(style));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_metrics(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  auto topic = std::make_shared<Topic>(kDefinitions);
  CLI::Option* names = app.add_flag_callback(
      "--names", [topic] { *topic = kNames; }, "what slime and verl call the metrics instead");
  app.add_flag_callback(
         "--options", [topic] { *topic = kOptions; }, "the options of the loss instead")
      ->excludes(names);
  add_style_flags(app, *style);
  return [topic, style] { return run(*topic, *style); };
}

}  // namespace minite::cli
