#include "diagnostics/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fail.h"
#include "diagnostics/compare_figures.h"
#include "diagnostics/compare_settings.h"
#include "diagnostics/html.h"
#include "diagnostics/page.h"
#include "diagnostics/plan_groups.h"
#include "diagnostics/report.h"

namespace minite::diagnostics {
namespace {

using Cells = std::vector<std::optional<std::string>>;

// Escaped, with places where long names may break.
std::string breakable(std::string_view text) {
  std::string out;
  for (const char c : escape_html(text)) {
    out += c;
    if (c == '_' || c == '/') out += "<wbr>";
  }
  return out;
}

/// A table with a column a run.
class RunTable {
 public:
  RunTable(const std::vector<Compared>& runs, std::string_view title) : runs_(runs), title_(title) {}

  /// Left out when no run has a value.
  void add(std::string_view head, const Cells& cells) {
    if (std::none_of(cells.begin(), cells.end(), [](const auto& c) { return c.has_value(); })) return;
    rows_ += fmt::format("<tr><th scope=\"row\">{}</th>", breakable(head));
    for (const auto& cell : cells) {
      const bool zero = cell == gap_text(0);
      rows_ += fmt::format("<td{}>{}</td>", zero ? " class=\"zero\"" : "", cell ? breakable(*cell) : "-");
    }
    rows_ += "</tr>\n";
  }
  template <class Of>
  void each(std::string_view head, const Of& of) {
    Cells cells;
    for (const Compared& c : runs_) cells.push_back(of(c));
    add(head, cells);
  }

  /// Empty when there are no rows. A wide table scrolls by itself and can be reached with the keyboard.
  [[nodiscard]] std::string html() const {
    if (rows_.empty()) return "";
    std::string heads;
    for (const Compared& c : runs_) {
      heads += fmt::format("<th scope=\"col\">{}<span class=\"letter\">{}</span> {}</th>",
                           draw_swatch(c.color, c.dash), c.letter, breakable(c.name));
    }
    return fmt::format(
        "<div class=\"tablewrap\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table class=\"runs\">"
        "<thead><tr><td></td>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        escape_html(title_), heads, rows_);
  }

 private:
  const std::vector<Compared>& runs_;
  std::string title_;
  std::string rows_;
};

std::optional<std::string> number_text(std::optional<double> value) {
  return value ? std::optional(short_number(*value)) : std::nullopt;
}

// "80 of 280" while a run has not finished and its configuration says how far it goes.
std::string steps_text(const Compared& c) {
  if (c.run->summary.is_object()) return fmt::format("{} (finished)", c.numbers.steps);
  int64_t planned = 0;
  for (const auto& [key, value] : c.run->config_settings) {
    const bool steps = key == "sft.steps" || key == "rl.steps" || key == "contrast.steps";
    if (steps && value.size() < 10 && value.find_first_not_of("0123456789") == std::string::npos &&
        !value.empty())
      planned += std::stoll(value);
  }
  return planned > 0 ? fmt::format("{} of {} (not finished)", c.numbers.steps, planned)
                     : fmt::format("{} (not finished)", c.numbers.steps);
}

// Runs of different lengths meet at the last step that all of them have.
void add_equal_steps(const std::vector<Compared>& runs, RunTable& table) {
  std::vector<int64_t> lengths;
  for (const Compared& c : runs) {
    const auto it = c.numbers.stage_steps.find("rl");
    if (it != c.numbers.stage_steps.end()) lengths.push_back(it->second);
  }
  if (lengths.empty()) return;
  const int64_t common = *std::min_element(lengths.begin(), lengths.end());
  if (common == *std::max_element(lengths.begin(), lengths.end())) return;
  table.each(fmt::format("Reward up to RL step {}", common),
             [&](const Compared& c) { return number_text(reward_at(*c.run, static_cast<double>(common))); });
}

std::string summary_html(const std::vector<Compared>& runs) {
  RunTable table(runs, "Summary");
  for (const HeadlineRow& row : {kLearnerRecipe, kSamplerRecipe, kLearnerKv, kSamplerKv})
    table.each(row.title, [&](const Compared& c) { return setting(*c.run, row); });
  table.each("Reward, first steps", [](const Compared& c) { return number_text(c.numbers.reward_first); });
  table.each("Reward, last steps", [](const Compared& c) { return number_text(c.numbers.reward_last); });
  add_equal_steps(runs, table);
  const auto gap = [](std::optional<double> v) { return v ? std::optional(gap_text(*v)) : std::nullopt; };
  table.each("Gap, mean (nats)", [&](const Compared& c) { return gap(c.numbers.gap_mean); });
  table.each("Gap, largest (nats)", [&](const Compared& c) { return gap(c.numbers.gap_max); });
  table.each("Contrast gap, mean (nats)",
             [&](const Compared& c) { return gap(c.numbers.contrast_gap_mean); });
  table.each("Steps, all stages", [](const Compared& c) { return std::optional(steps_text(c)); });
  for (const auto stage : kStages) {
    table.each(fmt::format("Time, {}", stage), [&](const Compared& c) -> std::optional<std::string> {
      const auto it = c.numbers.stage_seconds.find(std::string(stage));
      if (it == c.numbers.stage_seconds.end()) return std::nullopt;
      return short_number(it->second) + " s";
    });
  }
  table.each("Speed, RL (tokens/s)", [](const Compared& c) { return number_text(c.numbers.tokens_per_s); });
  return fmt::format(
      "<section>\n<h2>Summary</h2>\n<p class=\"about\">Rewards are means over the first and last 20 RL "
      "steps, gaps are of "
      "the RL stage unless they say otherwise.</p>\n{}</section>\n",
      table.html());
}

// A rule file is a setting too; the whole of it stands in config.yaml below.
std::string cell_text(const std::string& value) {
  constexpr size_t kMost = 120;
  if (value.empty()) return "(empty)";
  return value.size() > kMost ? value.substr(0, kMost) + "..." : value;
}

std::string settings_html(const std::vector<Compared>& runs, const std::vector<SettingRow>& settings) {
  RunTable table(runs, "Settings that differ");
  std::string equal;
  size_t n_equal = 0;
  for (const SettingRow& row : settings) {
    if (!row.differs()) {
      equal += fmt::format("{}: {}\n", row.key, row.values.front().value_or(""));
      ++n_equal;
      continue;
    }
    Cells cells;
    for (const auto& v : row.values) cells.push_back(v ? std::optional(cell_text(*v)) : v);
    table.add(row.key, cells);
  }
  const std::string differing = table.html();
  return fmt::format("<section>\n<h2>Settings that differ</h2>\n{}<div class=\"equal\">{}</div></section>\n",
                     differing.empty() ? "<p class=\"missing\">None.</p>\n" : differing,
                     folded_text(fmt::format("{} settings that are equal", n_equal), equal));
}

std::string provenance_html(const std::vector<Compared>& runs) {
  RunTable table(runs, "Provenance");
  for (const HeadlineRow& row : kProvenance)
    table.each(row.title, [&](const Compared& c) { return setting(*c.run, row); });
  std::string out = fmt::format("<section>\n<h2>Provenance</h2>\n{}", table.html());
  out += "<div class=\"screen\">\n";  // too long for paper
  for (const Compared& c : runs) {
    const std::string title = c.letter + " " + c.name + ": ";
    out += folded_text(title + "config.yaml", c.run->config) +
           folded_text(title + "summary.json", summary_text(*c.run)) +
           folded_text(title + "kernels (plans.json)", plans_text(*c.run));
  }
  return out + "</div>\n</section>\n";
}

std::string key_html(const std::vector<Compared>& runs, const std::vector<Unreadable>& unreadable) {
  std::string out = "<ul class=\"key\" aria-label=\"Runs\">\n";
  for (const Compared& c : runs) {
    const std::string path =
        c.run->path == c.name ? "" : fmt::format(" <span class=\"path\">{}</span>", escape_html(c.run->path));
    out += fmt::format("<li>{}<b><span class=\"letter\">{}</span> {}</b>{}</li>\n",
                       draw_swatch(c.color, c.dash), c.letter, escape_html(c.name), path);
  }
  out += "</ul>\n";
  for (const Unreadable& u : unreadable)
    out += fmt::format("<p class=\"note bad\"><b>{} could not be read and is left out.</b> {}</p>\n",
                       escape_html(u.path), escape_html(u.reason));
  return out;
}

std::string cautions_html(const std::vector<Compared>& runs, const std::vector<SettingRow>& settings) {
  std::string out;
  for (const std::string& sentence : cautions(runs, settings))
    out += fmt::format("<li>{}</li>\n", escape_html(sentence));
  for (const Compared& c : runs) {
    for (const std::string& note : c.run->notes)
      out += fmt::format("<li>{}: {}</li>\n", escape_html(c.label()), escape_html(note));
  }
  if (out.empty()) return "";
  return "<section class=\"note\" aria-label=\"Can these runs be compared?\">\n<h2>Can these runs be "
         "compared?</h2>\n<ul>\n" +
         out + "</ul>\n</section>\n";
}

}  // namespace

std::string render_comparison(const std::vector<RunData>& data, const std::vector<Unreadable>& unreadable) {
  require(!data.empty(), "a comparison needs at least one run that can be read");
  require(data.size() <= kMostRuns, "a page compares at most {} runs, got {}", kMostRuns, data.size());
  const std::vector<Compared> runs = side_by_side(data);
  const std::vector<SettingRow> settings = all_settings(runs);
  std::vector<std::string> names, stems;
  for (const Compared& c : runs) names.push_back(c.name);
  std::string out = open_page(list_of(names));
  out += fmt::format(
      "<article>\n<header class=\"run\"><p class=\"eyebrow\">miniTE comparison</p><h1>{} "
      "run{}</h1></header>\n",
      runs.size(), runs.size() == 1 ? "" : "s");
  out += key_html(runs, unreadable) + cautions_html(runs, settings) + summary_html(runs) +
         settings_html(runs, settings);
  for (const Section& section : compare_sections(runs)) out += section_html(section, "comparison");
  return out + provenance_html(runs) + "</article>\n" + close_page();
}

}  // namespace minite::diagnostics
