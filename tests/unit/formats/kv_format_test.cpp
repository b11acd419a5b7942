// The table of formats of keys and values.
#include "minite/kv_format.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"

namespace minite {
namespace {

TEST(KvFormats, RowsAreInIdOrderAndParse) {
  for (size_t i = 0; i < kv_formats().size(); ++i) {
    const KvFormatRow& row = kv_formats()[i];
    EXPECT_EQ(static_cast<size_t>(row.id), i);
    EXPECT_EQ(&kv_format(row.id), &row);
    EXPECT_EQ(parse_kv_format("kv_cache", row.name), row.id);
    EXPECT_FALSE(row.definition.empty());
  }
  EXPECT_EQ(parse_kv_format("kv_cache", "fp8_e4m3"), KvFormat::fp8);
}

TEST(KvFormats, UnknownNamesAreRefused) {
  for (const char* name : {"fp8_e5m2", "FP8", "", "auto"}) {
    test_support::expect_error(ErrorCode::invalid_argument, {"--kv-cache", "bf16, fp8, fp8_e4m3"},
                               [&] { (void)parse_kv_format("--kv-cache", name); });
  }
}

TEST(KvFormats, AnFp8ElementIsOneByte) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::f64}) {
    EXPECT_EQ(kv_element_size(KvFormat::fp8, dtype), 1);
    EXPECT_EQ(kv_element_size(KvFormat::bf16, dtype), dtype_size(dtype));
  }
}

TEST(KvFormats, ScalesArePositiveAndFinite) {
  EXPECT_TRUE(is_kv_scale(1.0f));
  EXPECT_TRUE(is_kv_scale(1e-30f));
  using Limits = std::numeric_limits<float>;
  for (const float bad : {0.0f, -0.0f, -1.0f, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    EXPECT_FALSE(is_kv_scale(bad)) << bad;
  }
}

}  // namespace
}  // namespace minite
