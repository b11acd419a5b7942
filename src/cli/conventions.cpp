// minite formats --conventions and --edge-cases: the conventions' formulas, and what each does with zeros,
// subnormals and non-finite values, found by running it.
#include "cli/conventions.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/memory.h"
#include "minite/convention.h"
#include "minite/ops.h"

namespace minite::cli {
namespace {

template <class Enum, class Name>
std::string joined(const EnumSet<Enum>& set, const Name& name) {
  std::string text;
  for (uint32_t i = 0; i < 64; ++i) {
    if (set.has(static_cast<Enum>(i)))
      text += (text.empty() ? "" : ", ") + std::string(name(static_cast<Enum>(i)));
  }
  return text;
}
std::string formats_of(const ConventionRow& row) {
  if (row.formats.has(FormatId::sim_e2m1)) return "sim_*";
  return joined(row.formats, [](FormatId id) { return format(id).name; });
}
std::string outers_of(const ConventionRow& row) {
  return joined(row.outers, [](OuterScale outer) { return to_string(outer); });
}
std::string searches_of(const ConventionRow& row) {
  return joined(row.searches, [](ScaleSearch s) { return to_string(s); });
}

/// A block's neighbourhood: element 0, the rest of its block, the other block.
struct EdgeCase {
  const char* name;
  float first, rest, other;
};
constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::array<EdgeCase, 12> kEdgeCases = {{
    {"0 among 0", 0.0f, 0.0f, 0.0f},
    {"-0 among 1", -0.0f, 1.0f, 1.0f},
    {"-2^-20 among 1", -0x1p-20f, 1.0f, 1.0f},
    {"2^-30 block, others 1", 0x1p-30f, 0x1p-30f, 1.0f},
    {"2^-130 tensor", 0x1p-130f, 0x1p-130f, 0x1p-130f},
    {"inf among 1", kInf, 1.0f, 1.0f},
    {"-inf among 1", -kInf, 1.0f, 1.0f},
    {"1 beside inf", 1.0f, kInf, 1.0f},
    {"1, inf in the other block", 1.0f, 1.0f, kInf},
    {"NaN among 1", kNan, 1.0f, 1.0f},
    {"1 beside NaN", 1.0f, kNan, 1.0f},
    {"1, NaN in the other block", 1.0f, 1.0f, kNan},
}};

/// Scale byte, code and decoded value of element 0.
std::string outcome(Runtime& runtime, const QuantSpec& spec, const EdgeCase& edge) {
  const int64_t block = spec.block_size(), cols = 2 * block;
  std::vector<bf16> x(static_cast<size_t>(cols), bf16(edge.other));
  for (int64_t i = 0; i < block; ++i) x[static_cast<size_t>(i)] = bf16(i == 0 ? edge.first : edge.rest);
  std::vector<float> y(x.size());
  Buffer memory(QTensor::bytes(spec, 1, cols));
  const QTensor q = QTensor::place(spec, 1, cols, memory.data());
  quantize(runtime, TensorView(x.data(), 1, cols), q);
  dequantize(runtime, q, TensorView(y.data(), 1, cols));
  const int code = format(spec.format).bits == 4 ? q.codes[0] & 15 : q.codes[0];
  const std::string value = std::isnan(y[0]) ? "NaN" : fmt::format("{:.4g}", y[0]);
  return fmt::format("{:02X} {:0{}X} {}", q.block_scales[0], code, format(spec.format).bits / 4, value);
}

/// What a row is shown with: its widest outer scale below a row, its first search.
QuantSpec shown_spec(const ConventionRow& row, FormatId id) {
  QuantSpec spec{.format = id, .convention = row.id};
  if (row.outers.has(OuterScale::tensor)) spec.outer = OuterScale::tensor;
  return spec;
}
constexpr std::array<FormatId, 3> kShown = {FormatId::nvfp4, FormatId::mxfp8, FormatId::mxfp4};

/// body(row, spec) for each convention and format that the tables show.
template <class Body>
void for_shown(const Body& body) {
  for (const ConventionRow& row : conventions()) {
    for (const FormatId id : kShown) {
      if (row.formats.has(id)) body(row, shown_spec(row, id));
    }
  }
}

}  // namespace

std::string conventions_text(ReportStyle style) {
  const bool markdown = style == ReportStyle::markdown;
  Table table({"convention", "formats", "stored", "outer scale", "block scale", "code", "decode", "epilogue",
               "zeros and non-finite", "equal, byte for byte, to"});
  for (const ConventionRow& row : conventions()) {
    const std::string name(to_string(row.id));
    table.add({markdown ? "`" + name + "`" : name, formats_of(row), std::string(to_string(row.global)),
               outers_of(row), std::string(row.scale), std::string(row.code), std::string(row.decode),
               std::string(row.epilogue), std::string(row.exception), std::string(row.peer)});
  }
  return markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json conventions_json() {
  nlohmann::ordered_json document;
  document["conventions"] = nlohmann::ordered_json::array();
  for (const ConventionRow& row : conventions()) {
    document["conventions"].push_back({{"name", to_string(row.id)},
                                       {"formats", formats_of(row)},
                                       {"stored", to_string(row.global)},
                                       {"outer_scale", outers_of(row)},
                                       {"search", searches_of(row)},
                                       {"tiles", row.tiles},
                                       {"block_scale", row.scale},
                                       {"code", row.code},
                                       {"decode", row.decode},
                                       {"epilogue", row.epilogue},
                                       {"exception", row.exception},
                                       {"peer", row.peer}});
  }
  return document;
}

std::string edge_cases_text(ReportStyle style) {
  std::vector<std::string> headers = {"convention"};
  for (const EdgeCase& edge : kEdgeCases) headers.emplace_back(edge.name);
  headers.emplace_back("inf and NaN from");
  Table table(std::move(headers));
  Runtime runtime("ref", 1);
  for_shown([&](const ConventionRow& row, const QuantSpec& spec) {
    std::vector<std::string> cells = {fmt::format("{} {}", to_string(row.id), format(spec.format).name)};
    for (const EdgeCase& edge : kEdgeCases) cells.push_back(outcome(runtime, spec, edge));
    cells.emplace_back(row.nonfinite);
    table.add(std::move(cells));
  });
  return style == ReportStyle::markdown ? table.to_markdown() : table.to_text();
}

nlohmann::ordered_json edge_cases_json() {
  nlohmann::ordered_json document;
  document["edge_cases"] = nlohmann::ordered_json::array();
  Runtime runtime("ref", 1);
  for_shown([&](const ConventionRow& row, const QuantSpec& spec) {
    nlohmann::ordered_json entry = {{"convention", to_string(row.id)}, {"format", format(spec.format).name}};
    for (const EdgeCase& edge : kEdgeCases) entry[edge.name] = outcome(runtime, spec, edge);
    entry["nonfinite_from"] = row.nonfinite;
    document["edge_cases"].push_back(std::move(entry));
  });
  return document;
}

}  // namespace minite::cli
