#pragma once
// One row for each line figure of a report: its metrics, stages and words.
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "diagnostics/report_figures.h"
#include "diagnostics/run_data.h"
#include "diagnostics/svg.h"

namespace minite::diagnostics {

/// What replaces or accompanies a figure.
struct Remark {
  std::string sentence;
  enum class Figure : unsigned char { draw, leave_out } figure = Figure::draw;
};
using RemarkOf = std::optional<Remark> (*)(const RunData&);

struct MetricRow {
  std::string_view name;
  std::string_view label;
};

struct FigureRow {
  std::string_view id;
  std::string_view section;
  std::string_view title;
  std::string_view y_label;
  std::string_view about;
  std::array<MetricRow, 2> metrics;        // the second may be empty
  std::array<std::string_view, 2> stages;  // drawn over each other; the second may be empty
  Scale scale;
  Panel::Width width;
  RemarkOf remark;  // may be null
  enum class When : unsigned char {
    expected,
    switched_on
  } when = When::expected;  // absent without a word or not
};

/// In page order; rows of a section follow each other.
[[nodiscard]] std::span<const FigureRow> figure_table();

}  // namespace minite::diagnostics
