#include "diagnostics/explore.h"

#include <fmt/format.h>

#include <cmath>

#include "core/fail.h"
#include "diagnostics/html.h"
#include "diagnostics/page.h"

namespace minite::diagnostics {

namespace assets {
extern const std::string_view numerics_js, figure_js, bits_js, outer_js, quadrant_js, dynamics_js, paths_js,
    explore_css;
}  // namespace assets

namespace {

using nlohmann::ordered_json;

/// A number, or null where it is not finite: JSON has neither NaN nor infinity.
ordered_json numbers(const std::vector<double>& values) {
  ordered_json list = ordered_json::array();
  for (const double x : values) list.push_back(std::isfinite(x) ? ordered_json(x) : ordered_json(nullptr));
  return list;
}

ordered_json to_json(const RunData& run) {
  ordered_json stages = ordered_json::object();
  for (const auto& [stage, lines] : run.stages) {
    for (const auto& [name, column] : lines.metrics)
      stages[stage][name] = {{"step", numbers(column.step)}, {"value", numbers(column.value)}};
  }
  return {{"name", run.name}, {"stages", stages}};
}

/// Throws when an object of `list` lacks one of `fields`.
void need(const ordered_json& list, std::string_view of, std::initializer_list<const char*> fields) {
  for (const ordered_json& each : list) {
    for (const char* field : fields) {
      require(each.contains(field),
              "the tokens of the direction figure: one of \"{}\" lacks \"{}\"; give a file that minite gap "
              "--tokens-json wrote",
              of, field);
    }
  }
}

void check_tokens(const ordered_json& tokens) {
  need(ordered_json::array({tokens}), "the document", {"learners", "samplers", "sequences"});
  for (const char* side : {"learners", "samplers"}) need(tokens[side], side, {"recipe", "kv"});
  need(tokens["sequences"], "sequences", {"sequence", "advantage", "tokens"});
  for (const ordered_json& sequence : tokens["sequences"])
    need(sequence["tokens"], "tokens", {"position", "text", "learner", "sampler"});
}

/// JSON that may stand in a script element.
std::string embedded(const ordered_json& json) {
  std::string text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string out;
  for (const char c : text) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

/// A figure whose drawing a script puts in; `controls` stand above it and `below` under it.
std::string figure(std::string_view id, std::string_view title, std::string_view about,
                   std::string_view controls, std::string_view below) {
  return fmt::format(
      "<section id=\"{0}\">\n<h2>{1}</h2>\n<p class=\"about\">{2}</p>\n<div class=\"controls\">{3}</div>\n"
      "<figure class=\"wide\"><div class=\"draw\"></div>\n<p class=\"get\"><a download=\"minite-{0}.svg\" "
      "aria-label=\"{1}: download the "
      "figure as SVG\">SVG</a><a download=\"minite-{0}.csv\" aria-label=\"{1}: download the numbers as "
      "CSV\">CSV</a></p></figure>\n"
      "{4}</section>\n",
      id, escape_html(title), escape_html(about), controls, below);
}

std::string table(std::string_view body_id, std::initializer_list<std::string_view> headers) {
  std::string out = "<div class=\"tablewrap scroll\" tabindex=\"0\"><table><thead><tr>";
  for (const auto header : headers) out += fmt::format("<th scope=\"col\">{}</th>", escape_html(header));
  return out + fmt::format("</tr></thead><tbody id=\"{}\"></tbody></table></div>\n", body_id);
}

std::string bits_figure() {
  return figure(
      "bits", "One NVFP4 value, bit by bit",
      "A value is q s_b s_g: an E2M1 element, the E4M3 scale of its block of 16 and an FP32 outer scale. "
      "Click bits, or "
      "step with the arrow keys up and down. The line shows the sixteen values that the block can hold.",
      "<span>E2M1</span><span class=\"bits\" id=\"bits-code\"></span><span>E4M3</span><span class=\"bits\" "
      "id=\"bits-scale\"></span>"
      "<label>outer scale <input id=\"bits-outer\" type=\"number\" step=\"any\" value=\"1\"></label>",
      table("bits-values", {"part", "code", "value"}));
}

std::string block_figure() {
  return figure("block", "A block as the quantizer sees it",
                "Type values; each sixteen share a block scale. The outer amax is that of the values unless "
                "you give that of the tensor or "
                "row that they belong to. Convention te, as docs/numerics.md states it.",
                "<label>outer amax <input id=\"block-amax\" type=\"number\" step=\"any\" min=\"0\" "
                "placeholder=\"of the values\"></label>"
                "<textarea id=\"block-values\" aria-label=\"values to quantize\">0.12 -0.5 1.7 3.1 -2.2 0.01 "
                "0.33 -4.0 0.9 -0.07 2.4 -1.1 0.6 "
                "5.2 -3.3 0.25</textarea><span class=\"error\" id=\"block-error\" role=\"alert\"></span>",
                "<p class=\"about\" id=\"block-summary\" aria-live=\"polite\"></p>\n" +
                    table("block-table", {"element", "input", "scale byte", "code", "decoded", "error"}));
}

std::string outer_figure() {
  return figure("outer", "One outer scale a tensor, or one a token",
                "The 32 inputs of this token are fixed. The slider moves the amax of another token in the "
                "batch. With one outer scale for "
                "the tensor, that token decides how well this one is stored; with one a token it cannot.",
                "<label>log2 of the other token's amax <input id=\"outer-amax\" type=\"range\" min=\"-2\" "
                "max=\"24\" step=\"0.25\" "
                "value=\"6\"></label><span id=\"outer-now\" aria-live=\"polite\"></span>",
                table("outer-scales",
                      {"", "outer amax", "scale bytes", "block scales", "decoded to 0", "relative L2"}) +
                    table("outer-values", {"element", "input", "one outer scale a token", "one a tensor"}));
}

std::string quadrant_figure(bool tokens) {
  const std::string controls =
      tokens ? "<label>learner <select id=\"quadrant-learner\"></select></label><label>sampler <select "
               "id=\"quadrant-sampler\"></select></label>"
             : "<span>advantage</span><button type=\"button\" id=\"quadrant-a\" "
               "aria-pressed=\"true\">positive</button>"
               "<span>gap</span><button type=\"button\" id=\"quadrant-gap\" "
               "aria-pressed=\"false\">negative</button>";
  return figure("quadrant", "Direction: advantage and gap",
                tokens ? "Your tokens. Where advantage and gap have the same sign, an update widens the gap "
                         "of its own token. This is the local "
                         "view: real updates also couple tokens and pass through the optimizer."
                       : "Switch the signs. Where advantage and gap have the same sign, an update widens the "
                         "gap of its own token. Give the file of "
                         "minite gap --tokens-json to see your own tokens. This is the local view: real "
                         "updates also couple tokens and pass "
                         "through the optimizer.",
                controls, "<p class=\"verdict\" id=\"quadrant-text\" aria-live=\"polite\"></p>\n");
}

std::string dynamics_figure() {
  return figure("dynamics", "Training dynamics", "Any metric of any stage, over the steps of the runs.",
                "<label>stage <select id=\"dynamics-stage\"></select></label><label>metric <select "
                "id=\"dynamics-metric\"></select></label>"
                "<label>mean of <select id=\"dynamics-window\"><option value=\"1\">1 "
                "(raw)</option><option>5</option><option>15</option>"
                "<option>21</option><option>51</option></select> steps</label>"
                "<label>from <input id=\"dynamics-first\" type=\"number\" min=\"0\"></label><label>to <input "
                "id=\"dynamics-last\" "
                "type=\"number\" min=\"0\"></label><label><input id=\"dynamics-log\" type=\"checkbox\"> log "
                "scale</label>"
                "<span id=\"dynamics-runs\" class=\"controls\"></span>",
                "<p class=\"missing\" id=\"dynamics-text\" aria-live=\"polite\"></p>\n");
}

std::string paths_figure() {
  return figure(
      "paths", "Compute paths of a recipe",
      "What a linear layer multiplies in its three products. Choose a recipe, then a box for its details.",
      "<label>recipe <select id=\"paths-recipe\"></select></label>",
      "<p class=\"verdict\" id=\"paths-text\" aria-live=\"polite\"></p>\n");
}

}  // namespace

std::string_view explore_numerics() { return assets::numerics_js; }

std::string render_explore(const ExploreData& input) {
  ordered_json data = {{"recipes", input.recipes}, {"runs", ordered_json::array()}, {"tokens", nullptr}};
  for (const RunData& run : input.runs) data["runs"].push_back(to_json(run));
  if (!input.tokens.is_null()) {
    check_tokens(input.tokens);
    data["tokens"] = input.tokens;
  }
  std::string page = open_page("NVFP4, explored", Scripts::own);
  page += fmt::format("<style>{}</style>\n<article>\n<h1>NVFP4, explored</h1>\n", assets::explore_css);
  page += bits_figure() + block_figure() + outer_figure() + quadrant_figure(!input.tokens.is_null());
  if (!input.runs.empty()) page += dynamics_figure();
  page += paths_figure() + "</article>\n";
  page += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", embedded(data));
  for (const std::string_view script :
       {assets::numerics_js, assets::figure_js, assets::bits_js, assets::outer_js, assets::quadrant_js,
        assets::dynamics_js, assets::paths_js})
    page += fmt::format("<script>\n{}</script>\n", script);
  return page + close_page("the recipe table and the files that it was given", Scripts::own);
}

}  // namespace minite::diagnostics
