// CUDA's own host conversions as a second oracle for the codecs, where its headers are installed: every BF16
// pattern and random FP32 bits.
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/philox.h"
#include "formats/codecs.h"

namespace minite {
namespace {

/// body(x) for every BF16 value and a million others.
template <class Body>
void for_inputs(const Body& body) {
  for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) body(std::bit_cast<float>(pattern << 16));
  for (uint64_t i = 0; i < 250000; ++i) {
    for (const uint32_t bits : Philox::generate(11, i, 0)) body(std::bit_cast<float>(bits));
  }
}

TEST(CudaHost, E2M1) {
  int64_t seen = 0, exceptions = 0;
  for_inputs([&](float x) {
    const auto want = static_cast<uint8_t>(__nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest));
    ++seen;
    if (std::isnan(x)) {  // CUDA: +6. Transformer Engine's reference: 0
      EXPECT_EQ(want & 0xF, 7);
      EXPECT_EQ(E2M1::encode(x), 0);
      ++exceptions;
    } else if (x == 0.0f && std::signbit(x)) {  // CUDA keeps the sign of -0, the reference does not
      EXPECT_EQ(want & 0xF, 8);
      EXPECT_EQ(E2M1::encode(x), 0);
      ++exceptions;
    } else {
      EXPECT_EQ(E2M1::encode(x), want & 0xF) << x;
    }
  });
  EXPECT_GT(exceptions, 0);
  EXPECT_GT(seen, 1000000);
}

template <class Codec>
void expect_fp8(__nv_fp8_interpretation_t kind) {
  for_inputs([&](float x) {
    const auto want = static_cast<uint8_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind));
    const uint8_t got = Codec::encode(x);
    if (std::isnan(x)) {  // any NaN
      EXPECT_TRUE(std::isnan(Codec::decode(got)) && std::isnan(Codec::decode(want)));
    } else {
      EXPECT_EQ(got, want) << x;
    }
  });
  for (int code = 0; code < 256; ++code) {
    const __half_raw raw = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), kind);
    const float want = __half2float(__half(raw)), got = Codec::decode(static_cast<uint8_t>(code));
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << code;
  }
}
TEST(CudaHost, E4M3) { expect_fp8<E4M3>(__NV_E4M3); }
TEST(CudaHost, E5M2) { expect_fp8<E5M2>(__NV_E5M2); }

TEST(CudaHost, E8M0) {
  for_inputs([&](float x) {
    if (std::signbit(x)) return;  // scales have no sign
    EXPECT_EQ(E8M0::encode_round_up(x),
              static_cast<uint8_t>(__nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)))
        << x;
  });
}

}  // namespace
}  // namespace minite
