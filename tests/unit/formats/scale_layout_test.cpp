// Layouts of block scales: the published formulas, bijections, round trips, zero padding.
#include "formats/scale_layout.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/philox.h"

namespace minite {
namespace {

constexpr std::array<ScaleLayout, 3> kLayouts = {ScaleLayout::linear, ScaleLayout::tiles_128x4,
                                                 ScaleLayout::tiles_8x4};
/// Every M and K up to past one tile, and some large ones.
template <class Body>
void for_shapes(const Body& body) {
  for (int64_t rows = 0; rows <= 20; ++rows) {
    for (int64_t cols = 0; cols <= 9; ++cols) body(rows, cols);
  }
  for (const int64_t rows : {31, 32, 33, 127, 128, 129, 192, 257, 1000}) {
    for (const int64_t cols : {1, 3, 4, 5, 36, 96}) body(rows, cols);
  }
}

/// The formula of 128x4 as a reshape: (M/128, 4, 32, C/4, 4) permuted to (0, 3, 2, 1, 4).
TEST(ScaleLayout, The128x4TileIsAPermutedReshape) {
  const ScaleMap map(ScaleLayout::tiles_128x4, 256, 12);
  int64_t offset = 0;
  for (int64_t m = 0; m < 2; ++m) {
    for (int64_t k = 0; k < 3; ++k) {
      for (int64_t row = 0; row < 32; ++row) {
        for (int64_t quarter = 0; quarter < 4; ++quarter) {
          for (int64_t col = 0; col < 4; ++col)
            EXPECT_EQ(map.offset(m * 128 + quarter * 32 + row, k * 4 + col), offset++);
        }
      }
    }
  }
}

TEST(ScaleLayout, KnownPlaces) {
  const ScaleMap wide(ScaleLayout::tiles_128x4, 200, 6), narrow(ScaleLayout::tiles_8x4, 200, 6);
  EXPECT_EQ(wide.bytes(), 256 * 8);
  EXPECT_EQ(wide.offset(0, 5), 512 + 1);
  EXPECT_EQ(wide.offset(33, 0), 16 + 4);
  EXPECT_EQ(wide.offset(128, 0), 1024);
  EXPECT_EQ(narrow.bytes(), 200 * 8);
  EXPECT_EQ(narrow.offset(7, 3), 31);
  EXPECT_EQ(narrow.offset(8, 4), 2 * 32 + 32);
}

TEST(ScaleLayout, OffsetsAreBijectionsOfThePaddedMatrix) {
  for (const ScaleLayout layout : kLayouts) {
    for_shapes([&](int64_t rows, int64_t cols) {
      const ScaleMap map(layout, rows, cols);
      ASSERT_GE(map.padded_rows(), rows);
      ASSERT_GE(map.padded_cols(), cols);
      std::vector<bool> taken(static_cast<size_t>(map.bytes()));
      for (int64_t r = 0; r < map.padded_rows(); ++r) {
        for (int64_t c = 0; c < map.padded_cols(); ++c) {
          const int64_t at = map.offset(r, c);
          ASSERT_GE(at, 0);
          ASSERT_LT(at, map.bytes());
          ASSERT_FALSE(taken[static_cast<size_t>(at)]) << to_string(layout) << " " << r << "," << c;
          taken[static_cast<size_t>(at)] = true;
          ASSERT_EQ(map.place(at), (ScalePlace{r, c}));
        }
      }
    });
  }
}

TEST(ScaleLayout, RoundTripsKeepScalesAndPaddingIsZero) {
  for (const ScaleLayout layout : kLayouts) {
    for_shapes([&](int64_t rows, int64_t cols) {
      const ScaleMap map(layout, rows, cols);
      std::vector<uint8_t> linear(static_cast<size_t>(rows * cols)), back(linear.size());
      for (size_t i = 0; i < linear.size(); ++i)
        linear[i] = static_cast<uint8_t>(1 + Philox::generate(7, i, 0)[0] % 255);
      std::vector<uint8_t> tiled(static_cast<size_t>(map.bytes()), 0xAA);
      map.from_linear(linear, tiled);
      for (int64_t i = 0; i < map.bytes(); ++i)
        ASSERT_EQ(tiled[static_cast<size_t>(i)] == 0, !map.holds(map.place(i))) << to_string(layout);
      map.to_linear(tiled, back);
      ASSERT_EQ(back, linear) << to_string(layout) << " " << rows << "x" << cols;
    });
  }
}

}  // namespace
}  // namespace minite
