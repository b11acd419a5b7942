// minite formats: the format table; with --matrix which backend multiplies which format here; with --kv the
// formats of keys and values; with --conventions and --edge-cases the arithmetic conventions.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "backends/registry.h"
#include "cli/conventions.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "minite/format.h"
#include "minite/kv_format.h"

namespace minite::cli {
namespace {

constexpr double kBlockScaleBits = 8;  // E4M3 and E8M0 are both one byte

double bits_with_scales(const Format& row) {
  return row.block == 0 ? row.bits : row.bits + kBlockScaleBits / row.block;
}

std::string table_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  Table table({"format", "element", "bits", "with block scales", "block", "block scale", "outer scale",
               "layout", "purpose"});
  for (const Format& row : formats()) {
    const std::string name(row.name);
    table.add({markdown ? "`" + name + "`" : name, std::string(to_string(row.element)),
               fmt::format("{}", row.bits), fmt::format("{}", bits_with_scales(row)),
               row.block == 0 ? "-" : fmt::format("{}", row.block),
               row.block == 0 ? "-" : std::string(to_string(row.block_scale)), row.outer_scale ? "fp32" : "-",
               std::string(row.layout), std::string(row.purpose)});
  }
  return markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json table_json() {
  nlohmann::ordered_json document;
  document["formats"] = nlohmann::ordered_json::array();
  for (const Format& format : formats()) {
    nlohmann::ordered_json row;
    row["name"] = format.name;
    row["element"] = to_string(format.element);
    row["bits"] = format.bits;
    row["bits_with_block_scales"] = bits_with_scales(format);
    row["block"] = format.block;
    row["block_scale"] = to_string(format.block_scale);
    row["outer_scale"] = format.outer_scale;
    row["layout"] = format.layout;
    row["purpose"] = format.purpose;
    document["formats"].push_back(std::move(row));
  }
  return document;
}

/// How `backend` computes a product of two `format` operands into BF16.
Support product_support(const Backend& backend, FormatId format) {
  if (backend.table == nullptr) return {false, {}, {}, false, backend.reason};
  return backend.table->supports_gemm({format, format, DType::bf16, 64, 64});
}

std::string matrix_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  std::vector<std::string> headers = {"format"};
  for (const Backend& backend : backends()) headers.emplace_back(backend.name);
  Table table(std::move(headers));
  std::vector<std::string> previous;  // kernels of the last line
  for (const Format& row : formats()) {
    std::vector<std::string> kernels;
    for (const Backend& backend : backends()) {
      const Support support = product_support(backend, row.id);
      kernels.push_back(support.ok ? std::string(support.kernel) : "no");
    }
    // One line for the simulated formats, as long as the same kernels run them.
    const std::string name = row.simulated ? "sim_*" : std::string(row.name);
    if (row.simulated && kernels == previous) continue;
    previous = row.simulated ? kernels : std::vector<std::string>{};
    std::vector<std::string> cells = {markdown ? "`" + name + "`" : name};
    cells.insert(cells.end(), kernels.begin(), kernels.end());
    table.add(std::move(cells));
  }
  return markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json matrix_json() {
  nlohmann::ordered_json document;
  document["matrix"] = nlohmann::ordered_json::array();
  for (const Format& row : formats()) {
    for (const Backend& backend : backends()) {
      const Support support = product_support(backend, row.id);
      document["matrix"].push_back({{"format", row.name},
                                    {"backend", backend.name},
                                    {"supported", support.ok},
                                    {"kernel", support.kernel},
                                    {"order", support.order},
                                    {"row_invariant", support.row_invariant},
                                    {"reason", support.reason}});
    }
  }
  return document;
}

std::string kv_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  Table table({"keys and values", "also", "scales", "definition"});
  for (const KvFormatRow& row : kv_formats()) {
    const auto name = [&](std::string_view x) {
      return x.empty() ? "-" : markdown ? fmt::format("`{}`", x) : std::string(x);
    };
    table.add({name(row.name), name(row.alias), row.scaled ? "k_scale, v_scale a layer" : "-",
               std::string(row.definition)});
  }
  return markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json kv_json() {
  nlohmann::ordered_json document;
  document["kv_formats"] = nlohmann::ordered_json::array();
  for (const KvFormatRow& row : kv_formats()) {
    document["kv_formats"].push_back(
        {{"name", row.name}, {"alias", row.alias}, {"scaled", row.scaled}, {"definition", row.definition}});
  }
  return document;
}

/// One table that the verb prints.
struct Topic {
  const char* flag;  ///< "" for what it prints without one
  const char* help;
  std::string (*text)(ReportStyle style);
  nlohmann::ordered_json (*json)();
};
constexpr std::array<Topic, 5> kTopics = {{
    {"", "", table_text, table_json},
    {"--matrix", "the kernel of each backend here for products of each format", matrix_text, matrix_json},
    {"--kv", "the formats of keys and values", kv_text, kv_json},
    {"--conventions", "the arithmetic conventions: formulas, decode order, whose bytes they give",
     conventions_text, conventions_json},
    {"--edge-cases", "what each convention makes of zeros, subnormals, infinities and NaN, computed",
     edge_cases_text, edge_cases_json},
}};

int run(const Topic& topic, ReportStyle style) {
  if (style == ReportStyle::json) {
    print_json(topic.json());
  } else {
    print(topic.text(style));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_formats(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  auto topic = std::make_shared<const Topic*>(&kTopics.front());
  std::vector<CLI::Option*> before;
  for (const Topic& row : std::span(kTopics).subspan(1)) {
    CLI::Option* flag = app.add_flag_callback(
        row.flag, [topic, &row] { *topic = &row; }, row.help);
    for (CLI::Option* other : before) flag->excludes(other);
    before.push_back(flag);
  }
  add_style_flags(app, *style);
  return [topic, style] { return run(**topic, *style); };
}

}  // namespace minite::cli
