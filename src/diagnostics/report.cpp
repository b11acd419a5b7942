#include "diagnostics/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/fail.h"
#include "diagnostics/html.h"
#include "diagnostics/report_figures.h"
#include "diagnostics/svg.h"
#include "minite/version.h"

namespace minite::diagnostics {
namespace {

// summary.json means the first and last 20 RL steps; the same holds when it is not there yet.
constexpr size_t kRewardWindow = 20;

struct Card {
  std::string title;
  std::string value;
  std::string under;
  enum class Size : unsigned char { large, small } size = Size::large;
};

struct Provenance {
  std::string_view title;
  std::array<std::string_view, 4> keys;
};
constexpr std::array<Provenance, 13> kProvenance = {{
    {"miniTE version", {"minite_version", "version", "", ""}},
    {"Revision", {"revision", "git_revision", "", ""}},
    {"Preset", {"preset", "", "", ""}},
    {"Model", {"model", "model.name", "arch", "model.arch"}},
    {"Learner recipe", {"learner_recipe", "learner.recipe", "recipe", ""}},
    {"Sampler recipe", {"sampler_recipe", "sampler.recipe", "recipe", ""}},
    {"KV cache (sampler)", {"kv_cache", "sampler.kv_cache", "", ""}},
    {"KV (learner)", {"learner_kv", "learner.kv", "", ""}},
    {"Backend", {"backend", "", "", ""}},
    {"Device", {"device", "", "", ""}},
    {"Plan policy", {"policy", "plan_policy", "sampler_policy", ""}},
    {"Threads", {"threads", "", "", ""}},
    {"Seed", {"seed", "", "", ""}},
}};

std::optional<std::string> setting(const RunData& run, const std::array<std::string_view, 4>& keys) {
  std::vector<std::string_view> set;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(set),
               [](std::string_view k) { return !k.empty(); });
  return run.setting(set);
}

std::optional<double> summary_number(const RunData& run, const char* key) {
  if (!run.summary.is_object() || !run.summary.contains(key) || !run.summary[key].is_number())
    return std::nullopt;
  return run.summary[key].get<double>();
}

const Column* column_of(const RunData& run, std::string_view stage, std::string_view metric) {
  const StageData* data = run.find(stage);
  return data == nullptr ? nullptr : data->find(metric);
}

// Mean of the finite values at [begin, end).
std::optional<double> mean_of(const Column* column, size_t begin, size_t end) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = begin; column != nullptr && i < end; ++i) {
    if (!std::isfinite(column->value[i])) continue;
    sum += column->value[i];
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

std::optional<double> largest_of(const Column* column) {
  if (column == nullptr || column->value.empty()) return std::nullopt;
  return *std::max_element(column->value.begin(), column->value.end());
}

std::string gap_text(double gap) { return gap == 0 ? "exactly 0" : short_number(gap); }

void add_reward_cards(const RunData& run, std::vector<Card>& cards) {
  const Column* reward = column_of(run, "rl", "reward");
  const size_t n = reward == nullptr ? 0 : reward->value.size();
  const size_t window = std::min(kRewardWindow, n);
  auto first = summary_number(run, "reward_first");
  auto last = summary_number(run, "reward_last");
  if (!first) first = mean_of(reward, 0, window);
  if (!last) last = mean_of(reward, n - window, n);
  const auto add = [&](const char* which, std::optional<double> value) {
    if (!value) return;
    cards.push_back({fmt::format("Reward, {}", which),
                     short_number(*value),
                     fmt::format("mean of the {} {} RL steps", which, window > 0 ? window : kRewardWindow),
                     {}});
  };
  add("first", first);
  add("last", last);
}

void add_gap_cards(const RunData& run, std::vector<Card>& cards) {
  auto gap = summary_number(run, "gap_max");
  if (!gap) gap = largest_of(column_of(run, "rl", "gap_max"));
  if (gap)
    cards.push_back({"Gap, max", gap_text(*gap), *gap == 0 ? "learner = sampler" : "nats, RL steps", {}});
  auto contrast = summary_number(run, "contrast_gap_mean");
  const Column* column = column_of(run, "contrast", "train_rollout_logprob_abs_diff");
  if (!contrast && column != nullptr) contrast = mean_of(column, 0, column->value.size());
  if (contrast) cards.push_back({"Contrast gap, mean", gap_text(*contrast), "nats, contrast steps", {}});
}

std::vector<Card> make_cards(const RunData& run) {
  std::vector<Card> cards;
  add_reward_cards(run, cards);
  add_gap_cards(run, cards);
  std::string by_stage;
  int64_t lines = 0;
  for (const char* name : {"sft", "rl", "contrast"}) {
    const StageData* stage = run.find(name);
    if (stage == nullptr || stage->lines == 0) continue;
    lines += stage->lines;
    by_stage += fmt::format("{}{} {}", by_stage.empty() ? "" : ", ", stage->lines, name);
  }
  const auto steps = summary_number(run, "steps");
  cards.push_back({"Steps", short_number(steps.value_or(static_cast<double>(lines))), by_stage, {}});
  if (const auto speed = summary_number(run, "tokens_per_s")) {
    cards.push_back({"Speed", short_number(*speed), "tokens/s", {}});
  }
  if (const auto learner = setting(run, kProvenance[4].keys)) {
    const auto sampler = setting(run, kProvenance[5].keys).value_or(*learner);
    const bool same = sampler == *learner;
    cards.push_back({"Recipe", *learner, same ? "learner and sampler" : "learner; sampler " + sampler,
                     Card::Size::small});
  }
  if (const auto seed = run.setting({"seed"})) cards.push_back({"Seed", *seed, "", {}});
  return cards;
}

std::string cards_html(const std::vector<Card>& cards) {
  std::string out = "<dl class=\"cards\">\n";
  for (const Card& card : cards) {
    out += fmt::format("<div><dt>{}</dt><dd{}>{}</dd>", escape_html(card.title),
                       card.size == Card::Size::small ? " class=\"small\"" : "", escape_html(card.value));
    if (!card.under.empty()) out += fmt::format("<dd class=\"under\">{}</dd>", escape_html(card.under));
    out += "</div>\n";
  }
  return out + "</dl>\n";
}

std::string panel_html(const Panel& panel, const std::string& run_name) {
  std::string out =
      fmt::format("<figure{}>\n<figcaption><h3>{}</h3>",
                  panel.width == Panel::Width::wide ? " class=\"wide\"" : "", escape_html(panel.title));
  if (!panel.about.empty()) out += fmt::format("<p class=\"about\">{}</p>", escape_html(panel.about));
  if (!panel.sentence.empty()) out += fmt::format("<p class=\"verdict\">{}</p>", escape_html(panel.sentence));
  out += "</figcaption>\n";
  if (!panel.svg.empty()) {
    const std::string stem = escape_html(fmt::format("{}-{}", run_name, panel.file_stem));
    const std::string title = escape_html(panel.title);
    out += fmt::format("<div class=\"draw\">{}</div>\n", panel.svg);
    out += fmt::format(
        "<p class=\"get\"><a href=\"{}\" download=\"{}.svg\" aria-label=\"{}: download the figure as "
        "SVG\">SVG</a>"
        "<a href=\"{}\" download=\"{}.csv\" aria-label=\"{}: download the numbers as CSV\">CSV</a></p>\n",
        data_uri("image/svg+xml", standalone_svg(panel.svg)), stem, title, data_uri("text/csv", panel.csv),
        stem, title);
  }
  return out + "</figure>\n";
}

std::string section_html(const Section& section, const std::string& run_name) {
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n", escape_html(section.title));
  if (!section.panels.empty()) {
    out += "<div class=\"panels\">\n";
    for (const Panel& panel : section.panels) out += panel_html(panel, run_name);
    out += "</div>\n";
  }
  if (!section.missing.empty()) {
    out += fmt::format("<p class=\"missing\">{}</p>\n",
                       escape_html(fmt::format("{}", fmt::join(section.missing, " "))));
  }
  return out + "</section>\n";
}

std::string provenance_html(const RunData& run) {
  std::string rows;
  for (const auto& row : kProvenance) {
    if (const auto value = setting(run, row.keys)) {
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", row.title, escape_html(*value));
    }
  }
  std::string out = "<section>\n<h2>Provenance</h2>\n";
  if (rows.empty()) {
    out += "<p class=\"missing\">Neither config.yaml nor summary.json says how this run was made.</p>\n";
  } else {
    out += "<div class=\"tablewrap\"><table>\n" + rows + "</table></div>\n";
  }
  if (!run.config.empty()) {
    out +=
        fmt::format("<details>\n<summary>config.yaml</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                    escape_html(run.config));
  }
  if (run.summary.is_object()) {
    const auto text = run.summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    out +=
        fmt::format("<details>\n<summary>summary.json</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                    escape_html(text));
  }
  return out + "</section>\n";
}

std::string run_html(const RunData& run, size_t index) {
  std::string out = fmt::format(
      "<article id=\"run-{}\">\n<header class=\"run\"><p class=\"eyebrow\">miniTE run</p>"
      "<h1>{}</h1></header>\n{}",
      index, escape_html(run.name), cards_html(make_cards(run)));
  for (const auto& note : run.notes) out += fmt::format("<p class=\"note\">{}</p>\n", escape_html(note));
  for (const auto& section : make_sections(run, fmt::format("r{}-", index)))
    out += section_html(section, run.name);
  return out + provenance_html(run) + "</article>\n";
}

std::string navigation(const std::vector<RunData>& runs) {
  if (runs.size() < 2) return "";
  std::string out = "<nav aria-label=\"Runs\">";
  for (size_t i = 0; i < runs.size(); ++i) {
    out += fmt::format("<a href=\"#run-{}\">{}</a>", i, escape_html(runs[i].name));
  }
  return out + "</nav>\n";
}

}  // namespace

std::string render_report(const std::vector<RunData>& runs) {
  require(!runs.empty(), "a report needs at least one run");
  std::string names;
  for (const auto& run : runs) names += (names.empty() ? "" : ", ") + run.name;
  // The policy makes "no scripts, no network" a promise that the browser keeps.
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"generator\" content=\"miniTE {}\">\n<title>{} - miniTE report</title>\n"
      "<link rel=\"icon\" href=\"data:,\">\n<style>{}{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n",
      MINITE_VERSION_STRING, escape_html(names), kFigureStyle, kReportStyle);
  out += fmt::format("<main id=\"main\">\n{}", navigation(runs));
  for (size_t i = 0; i < runs.size(); ++i) out += run_html(runs[i], i);
  out += fmt::format(
      "</main>\n<footer>Made by miniTE {} from metrics.jsonl, timings.jsonl, summary.json and "
      "config.yaml. This page loads nothing and runs no scripts.</footer>\n</body>\n</html>\n",
      MINITE_VERSION_STRING);
  return out;
}

}  // namespace minite::diagnostics
