// The format table and the geometry of quantized tensors.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "minite/error.h"
#include "minite/format.h"

namespace minite {
namespace {

constexpr QuantSpec kNvfp4Row = {FormatId::nvfp4, OuterScale::row, Convention::te};
constexpr QuantSpec kNvfp4Tensor = {FormatId::nvfp4, OuterScale::tensor, Convention::te};
constexpr QuantSpec kMxfp8 = {FormatId::mxfp8, OuterScale::none, Convention::te};

TEST(Formats, RowsAreInIdOrderWithUniqueNames) {
  for (size_t i = 0; i < formats().size(); ++i) {
    const Format& row = formats()[i];
    EXPECT_EQ(static_cast<size_t>(row.id), i);
    EXPECT_EQ(&format(row.id), &row);
    EXPECT_EQ(&format(row.name), &row);
    EXPECT_FALSE(row.purpose.empty());
    EXPECT_EQ(row.block != 0, row.block_scale != Element::none) << row.name;
  }
}

TEST(Formats, UnknownNameOffersTheNearest) {
  try {
    (void)format("nvpf4");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("nvfp4"), std::string::npos) << error.what();
  }
}

TEST(Formats, SpecPrintsItself) {
  EXPECT_EQ(to_string(kNvfp4Row), "nvfp4[te,outer=row]");
  EXPECT_EQ(to_string(kMxfp8), "mxfp8");
  EXPECT_EQ(to_string(QuantSpec{}), "bf16");
  QuantSpec spec = kNvfp4Tensor;
  spec.blocks = BlockShape::tile;
  spec.search = ScaleSearch::four_six_mae;
  spec.scale_max = 256;
  EXPECT_EQ(to_string(spec), "nvfp4[te,outer=tensor,2d,4over6-mae,256]");
  spec = kNvfp4Tensor;
  spec.rotation = Rotation::hadamard;
  spec.rounding = Rounding::stochastic;
  EXPECT_EQ(to_string(spec), "nvfp4[te,outer=tensor,rht,sr]");
  EXPECT_EQ(to_string(QuantSpec{.format = FormatId::mxfp8, .blocks = BlockShape::tile}), "mxfp8[2d]");
}

TEST(Formats, RotationFillsGroupsOfSixteen) {
  QuantSpec spec = kNvfp4Tensor;
  EXPECT_EQ(spec.stored_cols(37), 37);
  spec.rotation = Rotation::hadamard;
  for (const auto& [cols, stored] : {std::pair{0, 0}, {1, 16}, {16, 16}, {37, 48}})
    EXPECT_EQ(spec.stored_cols(cols), stored);
}

/// Pairs of options that contradict each other, and what the message names.
TEST(Formats, ContradictionsAreRefused) {
  const auto refused = [](const QuantSpec& spec, std::string_view part) {
    try {
      spec.validate();
      ADD_FAILURE() << to_string(spec) << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos) << error.what();
    }
  };
  const auto changed = [](QuantSpec spec, const auto& change) {
    change(spec);
    return spec;
  };
  refused(changed(kNvfp4Row, [](auto& s) { s.blocks = BlockShape::tile; }), "outer=row contradicts 2d");
  refused(changed(kNvfp4Tensor,
                  [](auto& s) {
                    s.blocks = BlockShape::tile;
                    s.rotation = Rotation::hadamard;
                  }),
          "rht contradicts 2d");
  refused(changed(kNvfp4Tensor,
                  [](auto& s) {
                    s.search = ScaleSearch::four_six_mse;
                    s.rounding = Rounding::stochastic;
                  }),
          "4over6-mse");
  refused(changed(kNvfp4Tensor, [](auto& s) { s.scale_max = 300; }), "scale_max=300");
  refused(changed(kMxfp8, [](auto& s) { s.rounding = Rounding::stochastic; }),
          "mxfp8 does not know the options sr");
  refused(changed(QuantSpec{}, [](auto& s) { s.blocks = BlockShape::tile; }), "bf16 has no blocks");
}

TEST(Formats, OuterScaleIsRefusedWhereTheFormatHasNone) {
  kNvfp4Row.validate();
  const QuantSpec wrong = {FormatId::mxfp8, OuterScale::row, Convention::te};
  try {
    wrong.validate();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "mxfp8 has no outer scale, but outer=row was asked for");
  }
}

TEST(QTensor, PartsAreAlignedAndDisjoint) {
  for (const QuantSpec& spec : {kNvfp4Row, kNvfp4Tensor, kMxfp8}) {
    for (const int64_t cols : {1, 15, 16, 17, 33, 64, 1000}) {
      const int64_t rows = 5;
      const int64_t bytes = QTensor::bytes(spec, rows, cols);
      std::vector<uint8_t> memory(static_cast<size_t>(bytes) + 64);
      auto* base = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
      const QTensor q = QTensor::place(spec, rows, cols, base);
      const int block = format(spec.format).block;
      EXPECT_EQ(q.scale_stride(), (cols + block - 1) / block);
      EXPECT_EQ(q.code_stride(), spec.format == FormatId::nvfp4 ? (cols + 1) / 2 : cols);

      std::vector<int> owner(static_cast<size_t>(bytes), 0);
      const auto claim = [&](const void* part, int64_t size) {
        const auto offset = static_cast<const uint8_t*>(part) - base;
        EXPECT_EQ(offset % 64, 0);
        for (int64_t i = 0; i < size; ++i) EXPECT_EQ(owner.at(static_cast<size_t>(offset + i))++, 0);
      };
      claim(q.codes, rows * q.code_stride());
      claim(q.block_scales, rows * q.scale_stride());
      if (spec.outer != OuterScale::none) {
        claim(q.outer, q.outer_count() * 4);
        claim(q.amax, q.outer_count() * 4);
      }
    }
  }
}

TEST(QTensor, RowSlicesKeepTheirScales) {
  alignas(64) std::array<uint8_t, 4096> memory{};
  const QTensor q = QTensor::place(kNvfp4Row, 4, 32, memory.data());
  for (int row = 0; row < 4; ++row) q.outer[row] = static_cast<float>(row + 1);
  const QTensor part = q.slice_rows(2, 2);
  EXPECT_EQ(part.rows, 2);
  EXPECT_EQ(part.codes, q.codes + 2 * 16);
  EXPECT_EQ(part.block_scales, q.block_scales + 2 * 2);
  EXPECT_EQ(part.outer_of(1), 4.0f);

  const QTensor whole = QTensor::place(kNvfp4Tensor, 4, 32, memory.data());
  whole.outer[0] = 7.0f;
  EXPECT_EQ(whole.slice_rows(3, 1).outer_of(0), 7.0f);
}

}  // namespace
}  // namespace minite
