// minite metrics: what a training step reports, and with --options what the loss can be made of.
#include <array>
#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "minite/rl.h"

namespace minite::cli {
namespace {

std::string_view better(rl::Direction direction) {
  constexpr std::array<std::string_view, 3> kNames = {"-", "lower", "higher"};
  return kNames[static_cast<size_t>(direction)];
}

std::string table_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  Table table({"metric", "unit", "better", "definition"});
  for (const rl::MetricInfo& row : rl::metric_table()) {
    const std::string name(row.name);
    table.add({markdown ? "`" + name + "`" : name, std::string(row.unit), std::string(better(row.direction)),
               std::string(row.definition)});
  }
  return markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json table_json() {
  nlohmann::ordered_json document;
  document["metrics"] = nlohmann::ordered_json::array();
  for (const rl::MetricInfo& row : rl::metric_table()) {
    document["metrics"].push_back({{"name", row.name},
                                   {"unit", row.unit},
                                   {"better", better(row.direction)},
                                   {"definition", row.definition}});
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
  const bool markdown = style == ReportStyle::markdown;
  const auto code = [&](std::string_view text) {
    return markdown ? "`" + std::string(text) + "`" : std::string(text);
  };
  Table table({"setting", "value", "definition"});
  for (const OptionTable& option : kOptionTables) {
    for (const rl::Option& row : option.values())
      table.add({code(option.setting), code(row.name), std::string(row.definition)});
  }
  return markdown ? table.to_markdown() : table.to_text();
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

/// Which of the two tables.
enum class Topic : uint8_t { metrics, options };

int run(Topic topic, ReportStyle style) {
  if (style == ReportStyle::json) {
    print_json(topic == Topic::metrics ? table_json() : options_json());
  } else {
    print(topic == Topic::metrics ? table_text(style) : options_text(style));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_metrics(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  auto topic = std::make_shared<Topic>(Topic::metrics);
  app.add_flag_callback(
      "--options", [topic] { *topic = Topic::options; }, "the options of the loss instead");
  add_style_flags(app, *style);
  return [topic, style] { return run(*topic, *style); };
}

}  // namespace minite::cli
