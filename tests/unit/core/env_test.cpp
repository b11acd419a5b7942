#include "core/env.h"

#include <gtest/gtest.h>

#include <map>

#include "support/expect_error.h"

namespace minite {
namespace {

using test_support::expect_error;

std::vector<EnvVariable> table_with(const std::map<std::string, std::string>& variables) {
  return read_env([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Env, UnsetAndEmptyVariablesHaveTheirDefaults) {
  for (const auto& table : {table_with({}), table_with({{"MINITE_RECIPE", ""}, {"MINITE_THREADS", ""}})}) {
    ASSERT_EQ(table.size(), 4u);
    for (const EnvVariable& variable : table) {
      EXPECT_EQ(variable.value, variable.default_value);
      EXPECT_FALSE(variable.set);
      EXPECT_TRUE(variable.problem.empty());
      EXPECT_FALSE(variable.does.empty());
    }
    EXPECT_EQ(env_value(table, "MINITE_RECIPE"), "bf16");
  }
}

TEST(Env, ValuesAreTaken) {
  const auto table =
      table_with({{"MINITE_BACKEND", "ref"}, {"MINITE_THREADS", "3"}, {"MINITE_SIMD", "avx2"}});
  EXPECT_EQ(env_value(table, "MINITE_BACKEND"), "ref");
  EXPECT_EQ(env_value(table, "MINITE_THREADS"), "3");
  EXPECT_EQ(env_value(table, "MINITE_SIMD"), "avx2");
}

TEST(Env, BadValuesNameTheVariable) {
  for (const char* threads : {"0", "-1", "4097", "two", "3x", " 3", "99999999999999999999"}) {
    const auto table = table_with({{"MINITE_THREADS", threads}});
    expect_error(ErrorCode::invalid_argument, {std::string("MINITE_THREADS=") + threads, "auto, 1 to 4096"},
                 [&] { (void)env_value(table, "MINITE_THREADS"); });
    EXPECT_EQ(env_value(table, "MINITE_BACKEND"), "auto") << "another variable's mistake does not matter";
  }
  const auto table = table_with({{"MINITE_BACKEND", "smid"}, {"MINITE_SIMD", "AVX2"}});
  expect_error(ErrorCode::invalid_argument, {"MINITE_BACKEND=smid", "did you mean 'simd'?"},
               [&] { (void)env_value(table, "MINITE_BACKEND"); });
  expect_error(ErrorCode::invalid_argument, {"MINITE_SIMD=AVX2"},
               [&] { (void)env_value(table, "MINITE_SIMD"); });
}

TEST(Env, UnknownNamesAreAMistakeOfTheLibrary) {
  expect_error(ErrorCode::internal, {"MINITE_NONE"}, [] { (void)env_value(env_table(), "MINITE_NONE"); });
}

TEST(Env, TheProcessTableIsReadOnce) { EXPECT_EQ(env_table().data(), env_table().data()); }

}  // namespace
}  // namespace minite
