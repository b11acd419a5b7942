#pragma once
// Which rows of two captures are the same: by identity, whatever their order, dispatch or padding.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "diagnostics/capture_reader.h"

namespace minite::diagnostics {

using RowPairs = std::vector<std::pair<int64_t, int64_t>>;  ///< (row of a, row of b)

struct RowMatch {
  RowPairs pairs;                       ///< in the order of request, sample and position
  std::vector<int64_t> only_a, only_b;  ///< of sequences and positions that the other side lacks
  int64_t padding = 0;                  ///< rows of request -1, of both sides
  int64_t diverged = 0;  ///< rows of both sides from the first position on where a sequence has other tokens
};
/// Two rows are the same when request, sample, position and token agree, and so do all tokens before them
/// that both sides hold. A row that stands twice on one side is an error that names `name_a` or `name_b`.
[[nodiscard]] RowMatch match_rows(const std::vector<RowId>& a, const std::vector<RowId>& b,
                                  const std::string& name_a, const std::string& name_b);

/// Packed rows of the experts of one layer on one side.
struct PackedRows {
  std::vector<int32_t> expert, slot;  ///< slot: row * k + choice, -1 for padding
  int64_t k = 1;
  std::optional<std::vector<int32_t>> held = {};  ///< experts that were captured, rising; nothing: all

  [[nodiscard]] bool holds(int32_t e) const { return !held || std::ranges::binary_search(*held, e); }
};
/// A pair is a row that went to an expert. Only experts that both sides hold can be compared. Where one side
/// sent a row to fewer of them, the missing pairs were dropped; the rest went to other experts.
struct ExpertMatch {
  RowPairs pairs;     ///< packed rows of the same row that went to the same expert
  int64_t rows = 0;   ///< rows that went to an expert that both sides hold
  int64_t other = 0;  ///< of them, rows with other experts
  int64_t fewer = 0;  ///< of the rest, rows with fewer experts on one side
  int64_t order = 0;  ///< of the rest, rows with the same experts in another order of choice
  int64_t dropped_a = 0,
          dropped_b = 0;               ///< pairs that this side is short of, beyond those that went elsewhere
  int64_t whole_a = 0, whole_b = 0;    ///< rows whose pairs were all dropped
  int64_t absent_a = 0, absent_b = 0;  ///< pairs of the other side with experts that this side does not hold
  int64_t padding = 0;                 ///< packed rows without a slot, of both sides
  int64_t first = -1;                  ///< place in `rows` of the first row with other or fewer experts (else
                                       ///< of another order)
  [[nodiscard]] int64_t differing() const { return other + fewer; }
};
[[nodiscard]] ExpertMatch match_experts(const PackedRows& a, const PackedRows& b, const RowPairs& rows);

}  // namespace minite::diagnostics
