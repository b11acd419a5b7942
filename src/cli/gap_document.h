#pragma once
// A grid of gaps as JSON: what `minite gap --json` prints and `minite report` reads.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "diagnostics/published_gap.h"
#include "rl/gap_grid.h"

namespace minite::cli {

/// What a grid was made of, for the record.
struct GapRequest {
  std::string checkpoint, data, backend;
  int64_t problems = 0;
  rl::RunConfig config;
  rl::GapGridOptions options;
  ModelConfig model;
  std::optional<double> expect;  ///< largest |gap| that a cell may have
};

/// The figures of the technical report for a cell.
[[nodiscard]] std::vector<diagnostics::PublishedGap> published(const GapRequest& request,
                                                               const rl::GapGrid& grid,
                                                               const rl::GapCell& cell);
/// Whether a cell has a larger gap than `expect` allows, or one that is not finite.
[[nodiscard]] bool fails(const rl::GapCell& cell, double expect);

/// The document: the request, one object a cell in `rows`, the outcome of `expect`.
[[nodiscard]] nlohmann::ordered_json gap_document(const GapRequest& request, const rl::GapGrid& grid);

/// Every token with its text and the log-prob of every side.
[[nodiscard]] nlohmann::ordered_json token_document(const GapRequest& request, const rl::GapGrid& grid,
                                                    const io::Tokenizer& tokenizer);

}  // namespace minite::cli
