// Which rows of two captures are the same, and how values differ over them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "diagnostics/align_values.h"
#include "support/expect_error.h"
#include "support/tensor_file.h"

namespace minite::diagnostics {
namespace {

using test_support::expect_error;

TEST(AlignRows, OrderAndPaddingDoNotMatter) {
  const std::vector<RowId> a = {{0, 0, 0, 5}, {0, 0, 1, 6}, {0, 1, 0, 5}, {1, 0, 0, 9}};
  const std::vector<RowId> b = {{1, 0, 0, 9}, {-1, 0, 0, 0}, {0, 1, 0, 5},
                                {0, 0, 1, 6}, {0, 0, 0, 5},  {-1, 0, 0, 0}};
  const RowMatch match = match_rows(a, b, "A", "B");
  EXPECT_EQ(match.pairs, (RowPairs{{0, 4}, {1, 3}, {2, 2}, {3, 0}}));
  EXPECT_EQ(match.padding, 2);
  EXPECT_TRUE(match.only_a.empty() && match.only_b.empty());
}

TEST(AlignRows, NothingBehindAnotherTokenIsTheSame) {
  const std::vector<RowId> a = {{0, 0, 0, 1}, {0, 0, 1, 2}, {0, 0, 2, 3}};
  const std::vector<RowId> b = {{0, 0, 0, 1}, {0, 0, 1, 7}, {0, 0, 2, 3}, {0, 0, 3, 4}};
  const RowMatch match = match_rows(a, b, "A", "B");
  EXPECT_EQ(match.pairs, (RowPairs{{0, 0}}));
  EXPECT_EQ(match.diverged, 5);
}

TEST(AlignRows, RowsOfOneSideAreReported) {
  const std::vector<RowId> a = {{0, 0, 0, 1}, {0, 0, 1, 2}};
  const std::vector<RowId> b = {{0, 0, 1, 2}, {0, 0, 2, 3}, {4, 0, 0, 1}};
  const RowMatch match = match_rows(a, b, "A", "B");
  EXPECT_EQ(match.pairs, (RowPairs{{1, 0}}));
  EXPECT_EQ(match.only_a, (std::vector<int64_t>{0}));
  EXPECT_EQ(match.only_b, (std::vector<int64_t>{1, 2}));
}

TEST(AlignRows, ARowThatStandsTwiceIsNamed) {
  const std::vector<RowId> a = {{0, 0, 3, 1}, {0, 0, 3, 1}};
  expect_error(ErrorCode::corrupt_data, {"folder/b", "request 0 sample 0 position 3", "twice"},
               [&] { (void)match_rows({}, a, "folder/a", "folder/b"); });
}

TEST(AlignExperts, DispatchOrderAndPaddingDoNotMatter) {
  const RowPairs rows = {{0, 1}, {1, 0}};  // b has its rows the other way round
  const PackedRows a{{3, 1, 1, 2}, {0, 1, 2, 3}, 2}, b{{1, 1, 9, 2, 3}, {3, 0, -1, 1, 2}, 2};
  const ExpertMatch match = match_experts(a, b, rows);
  EXPECT_EQ(match.rows, 2);
  EXPECT_EQ(match.other, 0);
  EXPECT_EQ(match.order, 0);
  EXPECT_EQ(match.padding, 1);
  EXPECT_EQ(match.pairs, (RowPairs{{1, 0}, {0, 4}, {2, 1}, {3, 3}}));
}

TEST(AlignExperts, OtherExpertsAndAnotherOrderAreTwoCounts) {
  const RowPairs rows = {{0, 0}, {1, 1}, {2, 2}};
  const PackedRows a{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, 2}, b{{1, 0, 2, 3, 4, 0}, {0, 1, 2, 3, 4, 5}, 2};
  const ExpertMatch match = match_experts(a, b, rows);
  EXPECT_EQ(match.order, 1);
  EXPECT_EQ(match.other, 1);
  EXPECT_EQ(match.first, 2);  // of other experts, not of another order
  EXPECT_EQ(match.pairs.size(), 5u);
}

/// A tensor over `values`, which must outlive it.
template <class T>
io::TensorInfo tensor(io::StoredType type, const std::vector<int64_t>& shape, const std::vector<T>& values) {
  return {type, shape, std::as_bytes(std::span(values))};
}

TEST(AlignValues, CountsElementsRowsBitsAndNorms) {
  const std::vector<float> a = {3, 4, 0, 0}, b = {0, 0, 3, 5};
  const ValueDifference d = compare_values(tensor(io::StoredType::f32, {2, 2}, a),
                                           tensor(io::StoredType::f32, {2, 2}, b), {{0, 1}, {1, 0}}, false);
  EXPECT_EQ(d.elements, 4);
  EXPECT_EQ(d.differing, 1);
  EXPECT_EQ(d.differing_rows, 1);
  EXPECT_EQ(d.bits, 1);  // 0x40800000 and 0x40a00000
  EXPECT_EQ(d.max_abs, 1.0);
  EXPECT_DOUBLE_EQ(d.relative_l2, 0.2);
  EXPECT_EQ(d.row, 0);
  EXPECT_EQ(d.column, 1);
  EXPECT_EQ(d.a, "4");
  EXPECT_EQ(d.b, "5");
}

TEST(AlignValues, FourBitCodesCountOneByOne) {
  const std::vector<uint8_t> a = {0x21, 0x43}, b = {0x31, 0x55};
  const ValueDifference d = compare_values(tensor(io::StoredType::u8, {1, 2}, a),
                                           tensor(io::StoredType::u8, {1, 2}, b), {{0, 0}}, true);
  EXPECT_EQ(d.elements, 4);
  EXPECT_EQ(d.differing, 3);
  EXPECT_EQ(d.column, 1);  // the high nibble of the first byte
  EXPECT_EQ(d.a, "0x2");
  EXPECT_EQ(d.b, "0x3");
}

TEST(AlignValues, ANanOnOneSideIsADifferenceAndOnBothIsNone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a = {nan, 1}, b = {nan, nan};
  const auto compare = [&](const std::vector<float>& x, const std::vector<float>& y) {
    return compare_values(tensor(io::StoredType::f32, {2, 1}, x), tensor(io::StoredType::f32, {2, 1}, y),
                          same_rows(2), false);
  };
  EXPECT_EQ(compare(a, a).differing, 0);
  EXPECT_EQ(compare(a, b).differing, 1);
  EXPECT_TRUE(std::isnan(compare(a, b).relative_l2));
  EXPECT_TRUE(std::isnan(compare(a, b).max_abs));
}

}  // namespace
}  // namespace minite::diagnostics
