#pragma once
// How two tensors differ over rows that are the same.
#include <cstdint>
#include <string>

#include "diagnostics/align_rows.h"

namespace minite::diagnostics {

struct ValueDifference {
  int64_t elements = 0, differing = 0;  ///< codes of four bits count one by one
  int64_t rows = 0, differing_rows = 0;
  int64_t bits = 0;                     ///< that differ
  bool numbers = false;                 ///< elements are numbers, not codes or digests
  double max_abs = 0, relative_l2 = 0;  ///< |a - b| and ||a - b|| / ||a||; 0 for codes and digests
  // The first differing element.
  int64_t row = -1;  ///< place in the list of pairs
  int64_t column = -1;
  std::string a, b;  ///< both values in words
};

/// Compares row pairs of two tensors of one dtype and row length; `four_bit` bytes hold two codes, the even
/// column in the low nibble. Values that are NaN on both sides with the same bits are equal; a difference
/// with a NaN makes max_abs and relative_l2 NaN.
[[nodiscard]] ValueDifference compare_values(const io::TensorInfo& a, const io::TensorInfo& b,
                                             const RowPairs& pairs, bool four_bit);
/// The pairs (i, i) of tensors with `rows` rows.
[[nodiscard]] RowPairs same_rows(int64_t rows);
/// Elements of a row: all dimensions but the first.
[[nodiscard]] int64_t row_elements(const io::TensorInfo& tensor);

}  // namespace minite::diagnostics
