#include "core/fail.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

const std::vector<std::string_view> kNames = {"bf16", "nvfp4_per_token", "nvfp4_per_tensor"};

TEST(Fail, MessageAndCodeArrive) {
  expect_error(ErrorCode::io, {"wrote 3 of 7"}, [] { fail(ErrorCode::io, "wrote {} of {}", 3, 7); });
  expect_error(ErrorCode::invalid_argument, {"K=5"}, [] { require(false, "K={}", 5); });
  EXPECT_NO_THROW(require(true, "never"));
}

TEST(Fail, CodesHaveNamesAndExitCodes) {
  EXPECT_EQ(to_string(ErrorCode::not_found), "not_found");
  EXPECT_EQ(to_string(ErrorCode::internal), "internal");
  EXPECT_EQ(Error(ErrorCode::corrupt_data, "").exit_code(), 2);
  EXPECT_EQ(Error(ErrorCode::non_finite, "").exit_code(), 3);
}

TEST(Fail, NearestName) {
  EXPECT_EQ(nearest_name("nvfp4_per_tokn", kNames), "nvfp4_per_token");
  EXPECT_EQ(nearest_name("nvfp4_per_tenso", kNames), "nvfp4_per_tensor");
  EXPECT_EQ(nearest_name("fp16", kNames), "bf16");
  EXPECT_EQ(nearest_name("completely different", kNames), "");
  EXPECT_EQ(nearest_name("", {}), "");
}

TEST(Fail, DidYouMean) {
  EXPECT_EQ(did_you_mean("bf61", kNames), "; did you mean 'bf16'?");
  EXPECT_EQ(did_you_mean("completely different", kNames), "");
}

}  // namespace
}  // namespace minite
