#include "diagnostics/gap_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fail.h"
#include "diagnostics/html.h"
#include "diagnostics/page.h"

namespace minite::diagnostics {
namespace {

std::vector<Card> make_cards(const GapData& gap) {
  const auto zero = std::ranges::count_if(gap.cells, [](const auto& c) { return c.max_abs == 0; });
  const GapCellData* largest = nullptr;
  for (const GapCellData& cell : gap.cells) {
    if (cell.max_abs > 0 && (largest == nullptr || cell.mean_abs > largest->mean_abs)) largest = &cell;
  }
  std::vector<Card> cards = {
      {"Cells at exactly 0",
       fmt::format("{} of {}", zero, gap.cells.size()),
       "every token has the same bits",
       {}},
      {"Largest mean |gap|",
       short_number(largest == nullptr ? 0 : largest->mean_abs),
       largest == nullptr ? "" : largest->label(),
       {}},
      {"Tokens",
       short_number(static_cast<double>(gap.tokens)),
       fmt::format("{} responses to {} prompts", gap.responses, gap.problems),
       {}},
      {"Reward", short_number(gap.reward), "of the drawn responses", {}},
      {"Drawn by", gap.drawn_by, fmt::format("temperature {}, seed {}", gap.temperature, gap.seed),
       Card::Size::small},
      {"Policy", gap.policy, "backend " + gap.backend, Card::Size::small}};
  return cards;
}

std::string causes_text(const GapCellData& cell) {
  std::string text;
  for (const auto& [field, sentence] : cell.causes)
    text += fmt::format("<div><strong>{}</strong>: {}</div>", escape_html(field), escape_html(sentence));
  if (cell.non_finite > 0)
    text += fmt::format("<div>{} of {} tokens have no finite gap</div>", cell.non_finite, cell.tokens);
  return text;
}

std::string cells_html(const GapData& gap) {
  std::string out =
      "<section>\n<h2>Cells</h2>\n<div class=\"tablewrap\" tabindex=\"0\"><table "
      "class=\"runs\">\n<thead><tr>";
  for (const char* name : {"Learner / sampler", "Mean |gap|", "Max |gap|", "Report", "Why the sides differ"})
    out += fmt::format("<th scope=\"col\">{}</th>", name);
  out += "</tr></thead>\n<tbody>\n";
  for (const GapCellData& cell : gap.cells) {
    out += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       escape_html(cell.label()), short_number(cell.mean_abs), short_number(cell.max_abs),
                       escape_html(cell.report), causes_text(cell));
  }
  return out +
         "</tbody></table></div>\n<p class=\"missing\">Report: the technical report's figure for the same "
         "formats, of other models, prompts and engines (Qwen3-4B, or Qwen3-30B-A3B for experts).</p>\n"
         "</section>\n";
}

}  // namespace

std::string render_gap(const nlohmann::json& document, const std::string& origin) {
  const GapData gap = read_gap(document, origin);
  const std::string name = fmt::format("gap of {}", gap.checkpoint);
  std::string out = open_page(name);
  out += fmt::format(
      "<article>\n<header class=\"run\"><p class=\"eyebrow\">miniTE gap: learner minus sampler, nats</p>"
      "<h1>{}</h1></header>\n{}",
      escape_html(gap.checkpoint), cards_html(make_cards(gap)));
  if (gap.redrawn > 0) {
    out += fmt::format(
        "<p class=\"note\">{} of {} tokens have another log-prob in teacher forcing than when they were "
        "drawn: the first sampler's numbers depend on the batch.</p>\n",
        gap.redrawn, gap.tokens);
  }
  try {
    for (const Section& section : gap_sections(gap)) out += section_html(section, "gap");
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::corrupt_data, "{} is no result of `minite gap --json`: {}", origin, error.what());
  }
  return out + cells_html(gap) + "</article>\n" +
         close_page(fmt::format("the JSON of minite gap ({} on {})", gap.checkpoint, gap.data));
}

}  // namespace minite::diagnostics
