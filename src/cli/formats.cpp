// minite formats: the format table.
#include <fmt/format.h>

#include <memory>

#include "cli/output.h"
#include "cli/verb.h"
#include "minite/format.h"

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

int run(ReportStyle style) {
  if (style == ReportStyle::json) {
    print_json(table_json());
  } else {
    print(table_text(style));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_formats(CLI::App& app) {
  auto style = std::make_shared<ReportStyle>(ReportStyle::text);
  add_style_flags(app, *style);
  return [style] { return run(*style); };
}

}  // namespace minite::cli
