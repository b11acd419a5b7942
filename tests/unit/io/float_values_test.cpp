#include "io/float_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/temp_folder.h"
#include "support/tensor_file.h"

namespace minite::io {
namespace {

using test_support::error_of;
using test_support::holds;
using test_support::raw;
using test_support::slurp;
using test_support::TempFolder;

/// IEEE binary16 by its definition.
double half_value(int bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(FloatValues, EveryHalfIsExact) {
  for (int bits = 0; bits < 65536; ++bits) {
    const float got = from_half(static_cast<uint16_t>(bits));
    const double want = half_value(bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(double{got}, want) << bits;
      EXPECT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
    }
  }
}

FloatValues load(const std::string& dtype, const std::string& bytes, int64_t count) {
  const std::string file = test_support::TensorFile().add("t", dtype, {1, count}, bytes).bytes();
  return load_floats(parse_safetensors(std::as_bytes(std::span(file)), "f").tensors.at("t"));
}
const float* floats(const FloatValues& values) {
  return reinterpret_cast<const float*>(values.memory.data());
}

TEST(FloatValues, DoublesCountWhatFp32CannotHold) {
  const double tiny = 1e-50, big = 1e300;
  const FloatValues values =
      load("F64", raw<double>({0.5, 0.1, NAN, INFINITY, tiny, big, -0.0, 16777217.0}), 8);
  EXPECT_EQ(values.dtype, DType::f32);
  EXPECT_EQ(values.rounded, 4) << "0.1, 1e-50, 1e300 and 2^24 + 1";
  EXPECT_EQ(floats(values)[0], 0.5f);
  EXPECT_EQ(floats(values)[1], 0.1f);
  EXPECT_TRUE(std::isnan(floats(values)[2]));
  EXPECT_EQ(floats(values)[4], 0.0f);
  EXPECT_EQ(floats(values)[5], std::numeric_limits<float>::infinity());
  EXPECT_EQ(floats(values)[7], 16777216.0f);
}

TEST(FloatValues, Bf16AndF32AreCopiedFromAnyAddress) {
  const FloatValues b = load("BF16", raw<uint16_t>({0x3F80, 0xC000}), 2);
  EXPECT_EQ(b.dtype, DType::bf16);
  EXPECT_EQ(reinterpret_cast<const uint16_t*>(b.memory.data())[1], 0xC000);
  const FloatValues f = load("F32", raw<float>({1.5f}), 1);
  EXPECT_EQ(f.dtype, DType::f32);
  EXPECT_EQ(f.rounded, 0);
  EXPECT_EQ(f.stored, DType::f32);
  EXPECT_EQ(load("F16", raw<uint16_t>({0x3C00}), 1).stored, DType::f16) << "widened, and known to be";
  EXPECT_EQ(floats(f)[0], 1.5f);
  const Error error = error_of([] { (void)load("I32", raw<int32_t>({1}), 1); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(holds(error.what(), "I32"));
}

TEST(SafetensorsWriter, AnyOrderGivesTheSameFile) {
  const TempFolder folder;
  const std::vector<uint8_t> codes = {1, 2, 3};
  const std::vector<float> scale = {0.5f};
  const auto bytes = [](const auto& values) { return std::as_bytes(std::span(values)); };
  write_safetensors(folder / "whole",
                    {{"a", {StoredType::u8, {3}, bytes(codes)}}, {"b", {StoredType::f32, {1}, bytes(scale)}}},
                    {{"k", "v"}});
  const std::map<std::string, TensorShape> shapes = {{"a", {StoredType::u8, {3}}},
                                                     {"b", {StoredType::f32, {1}}}};
  for (const bool a_first : {true, false}) {
    SafetensorsWriter writer(folder / "pieces", shapes, {{"k", "v"}});
    if (a_first) writer.put("a", bytes(codes));
    writer.put("b", bytes(scale));
    if (!a_first) writer.put("a", bytes(codes));
    writer.commit();
    EXPECT_EQ(slurp(folder / "pieces"), slurp(folder / "whole"));
  }
}

TEST(SafetensorsWriter, NothingAppearsBeforeAllIsPut) {
  const TempFolder folder;
  const std::vector<uint8_t> codes = {1, 2, 3};
  const auto bytes = std::as_bytes(std::span(codes));
  {
    SafetensorsWriter writer(folder / "f", {{"a", {StoredType::u8, {3}}}, {"b", {StoredType::u8, {3}}}});
    EXPECT_EQ(error_of([&] { writer.put("c", bytes); }).code(), ErrorCode::internal);
    EXPECT_TRUE(holds(error_of([&] { writer.put("a", bytes.first(2)); }).what(), "has 2 bytes"));
    writer.put("a", bytes);
    EXPECT_EQ(error_of([&] { writer.put("a", bytes); }).code(), ErrorCode::internal);
    EXPECT_TRUE(holds(error_of([&] { writer.commit(); }).what(), "\"b\" was never put"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace minite::io
