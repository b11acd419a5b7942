// quantize_both: the bytes of two calls, and what it refuses.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "minite/error.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row};
constexpr int64_t kRows = 20, kCols = 48;

struct Codes {
  Buffer memory;
  QTensor q;
  explicit Codes(int64_t rows, int64_t cols)
      : memory(QTensor::bytes(kRow, rows, cols)), q(QTensor::place(kRow, rows, cols, memory.data())) {
    std::memset(memory.data(), 0xEE, static_cast<size_t>(QTensor::bytes(kRow, rows, cols)));
  }
  [[nodiscard]] std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> all(q.codes, q.codes + q.rows * q.code_stride());
    all.insert(all.end(), q.block_scales, q.block_scales + q.rows * q.scale_stride());
    return all;
  }
};

class QuantizeBoth : public testing::Test {
 protected:
  QuantizeBoth() {
    for (int64_t i = 0; i < kRows * kCols; ++i)
      values_[static_cast<size_t>(i)] = static_cast<float>(i % 37 - 18);
  }
  /// The message of the refusal, "" when there is none.
  std::string refusal(const QuantizeBothArgs& args) {
    try {
      quantize_both(ctx_, args);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  }

  std::vector<float> values_ = std::vector<float>(static_cast<size_t>(kRows * kCols));
  TensorView x_{values_.data(), kRows, kCols};
  ThreadPool pool_{1};
  Context ctx_{&backend("ref"), &pool_, nullptr, {}};
  Codes rows_{kRows, kCols}, columns_{kCols, kRows};
};

TEST_F(QuantizeBoth, IsTwoCalls) {
  quantize_both(ctx_, {{x_, Orientation::rows, rows_.q}, {x_, Orientation::columns, columns_.q}});
  const Codes rows(kRows, kCols), columns(kCols, kRows);
  quantize(ctx_, {x_, Orientation::rows, rows.q});
  quantize(ctx_, {x_, Orientation::columns, columns.q});
  EXPECT_EQ(rows_.bytes(), rows.bytes());
  EXPECT_EQ(columns_.bytes(), columns.bytes());
}

TEST_F(QuantizeBoth, RefusesWhatIsNotOneTensorBothWays) {
  const QuantizeArgs rows = {x_, Orientation::rows, rows_.q},
                     columns = {x_, Orientation::columns, columns_.q};
  EXPECT_NE(refusal({columns, rows}).find("the first goes along rows"), std::string::npos);
  std::vector<float> other = values_;
  QuantizeArgs elsewhere = columns;
  elsewhere.x = TensorView(other.data(), kRows, kCols);
  EXPECT_NE(refusal({rows, elsewhere}).find("are not the same tensor"), std::string::npos);
  QuantizeArgs short_codes = columns;
  short_codes.out = rows_.q;
  EXPECT_NE(refusal({rows, short_codes}).find("codes are 20x48, expected 48x20"), std::string::npos);
  EXPECT_EQ(rows_.bytes().front(), 0xEE) << "nothing was written";
  EXPECT_EQ(refusal({rows, columns}), "");
}

}  // namespace
}  // namespace minite::ops
