#pragma once
// Rows that part anew: what they are computed from is equal on both sides, they are not.
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

/// What each row of a point is computed from, row by row.
struct RowSources {
  std::vector<std::string> points;  ///< names; empty: not known, or not of this row alone
  std::string_view cause;           ///< conversion or execution
};
[[nodiscard]] RowSources sources_of(const Comparison& comparison, const PointResult& point);

/// Rows of `point` that differ while all of `sources` are equal bit for bit.
[[nodiscard]] int64_t fresh_rows(const Aligned& sides, const PointResult& point, const RowSources& sources);

}  // namespace minite::diagnostics
