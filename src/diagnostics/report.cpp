#include "diagnostics/report.h"

#include <fmt/format.h>

#include "diagnostics/headline.h"
#include "diagnostics/html.h"
#include "diagnostics/page.h"
#include "diagnostics/plan_groups.h"
#include "diagnostics/report_figures.h"

namespace minite::diagnostics {
namespace {

void add_numbers(const Headline& h, std::vector<Card>& cards) {
  const auto reward = [&](const char* which, std::optional<double> value) {
    if (!value) return;
    cards.push_back({fmt::format("Reward, {}", which),
                     short_number(*value),
                     fmt::format("mean of the {} {} RL steps", which, h.window),
                     {}});
  };
  reward("first", h.reward_first);
  reward("last", h.reward_last);
  if (h.gap_max) {
    const char* under = *h.gap_max == 0 ? "learner = sampler" : "nats, RL steps";
    cards.push_back({"Gap, max", gap_text(*h.gap_max), under, {}});
  }
  if (h.contrast_gap_mean)
    cards.push_back({"Contrast gap, mean", gap_text(*h.contrast_gap_mean), "nats, contrast steps", {}});
}

std::vector<Card> make_cards(const RunData& run) {
  const Headline h = headline(run);
  std::vector<Card> cards;
  add_numbers(h, cards);
  std::string by_stage;
  for (const auto stage : kStages) {
    const auto it = h.stage_steps.find(std::string(stage));
    if (it == h.stage_steps.end()) continue;
    by_stage += fmt::format("{}{} {}", by_stage.empty() ? "" : ", ", it->second, stage);
  }
  cards.push_back({"Steps", short_number(static_cast<double>(h.steps)), by_stage, {}});
  if (h.tokens_per_s) cards.push_back({"Speed", short_number(*h.tokens_per_s), "tokens/s", {}});
  if (const auto learner = setting(run, kLearnerRecipe)) {
    const auto sampler = setting(run, kSamplerRecipe).value_or(*learner);
    const bool same = sampler == *learner;
    cards.push_back({"Recipe", *learner, same ? "learner and sampler" : "learner; sampler " + sampler,
                     Card::Size::small});
  }
  if (const auto seed = run.setting({"seed"})) cards.push_back({"Seed", *seed, "", {}});
  return cards;
}

std::string provenance_html(const RunData& run) {
  std::string rows;
  for (const auto& row : kProvenance) {
    if (const auto value = setting(run, row)) {
      rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", row.title, escape_html(*value));
    }
  }
  std::string out = "<section>\n<h2>Provenance</h2>\n";
  if (rows.empty()) {
    out += "<p class=\"missing\">Neither config.yaml nor summary.json says how this run was made.</p>\n";
  } else {
    out += "<div class=\"tablewrap\"><table>\n" + rows + "</table></div>\n";
  }
  return out + folded_text("config.yaml", run.config) + folded_text("summary.json", summary_text(run)) +
         folded_text("Kernels (plans.json)", plans_text(run)) + "</section>\n";
}

}  // namespace

std::string summary_text(const RunData& run) {
  if (!run.summary.is_object()) return "";
  return run.summary.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string render_report(const RunData& run) {
  std::string out = open_page(run.name);
  out += fmt::format(
      "<article id=\"run-0\">\n<header class=\"run\"><p class=\"eyebrow\">miniTE run</p>"
      "<h1>{}</h1></header>\n{}",
      escape_html(run.name), cards_html(make_cards(run)));
  for (const auto& note : run.notes) out += fmt::format("<p class=\"note\">{}</p>\n", escape_html(note));
  for (const auto& section : make_sections(run, "r0-")) out += section_html(section, run.name);
  return out + provenance_html(run) + "</article>\n" + close_page();
}

}  // namespace minite::diagnostics
