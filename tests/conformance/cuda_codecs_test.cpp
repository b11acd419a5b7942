// The codecs and the generator give on the device the bits that they give on the host. Skipped without a
// device; what needs the instructions of one architecture is skipped on another.
#include <gtest/gtest.h>

#include <bit>

#include "backends/cuda/codecs_check.h"
#include "backends/cuda/device.h"
#include "core/philox.h"
#include "formats/codecs.h"
#include "minite/tensor.h"

namespace minite {
namespace {

class CudaCodecs : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = cuda::device().problem;
    if (!problem.empty()) GTEST_SKIP() << problem;
  }
};

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

/// Every BF16 bit pattern, the patterns one FP32 ulp to both sides, and the exact ties of E2M1.
std::vector<float> interesting_values() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0u, 1u, 0xFFFFu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  }
  for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f}) {
    values.push_back(tie);
    values.push_back(-tie);
  }
  return values;
}

TEST_F(CudaCodecs, EveryNvfp4CodeAndScaleDecodesToTheSameBits) {
  constexpr float kPerRange = 1.0f / 2688.0f;
  for (const float amax : {1.0f, 3.14159274f, 1e-30f, 3e38f}) {
    const std::vector<float> device = cuda::decode_nvfp4(amax);
    ASSERT_EQ(device.size(), 4096u);
    for (int scale = 0; scale < 256; ++scale) {
      const float multiplier = E4M3::decode(static_cast<uint8_t>(scale)) * amax * kPerRange;
      for (int code = 0; code < 16; ++code) {
        const float host = E2M1::decode(static_cast<uint8_t>(code)) * multiplier;
        const float value = device[static_cast<size_t>(scale * 16 + code)];
        // The sign and payload of a NaN that arithmetic made are not promised.
        if (host != host) {
          EXPECT_NE(value, value) << "scale " << scale << " code " << code;
        } else {
          EXPECT_EQ(bits(value), bits(host)) << "scale " << scale << " code " << code << " amax " << amax;
        }
      }
    }
  }
}

TEST_F(CudaCodecs, EveryEncoderGivesTheSameBytes) {
  const std::vector<float> values = interesting_values();
  const std::vector<cuda::Encoded> device = cuda::encode(values);
  ASSERT_EQ(device.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = values[i];
    EXPECT_EQ(device[i].e2m1, E2M1::encode(x)) << x;
    EXPECT_EQ(device[i].e4m3, E4M3::encode(x)) << x;
    EXPECT_EQ(device[i].e5m2, E5M2::encode(x)) << x;
    EXPECT_EQ(device[i].e8m0, E8M0::encode_round_up(x)) << x;
    EXPECT_EQ(device[i].stochastic, E2M1::encode_stochastic(x, static_cast<uint32_t>(i % 256))) << x;
    EXPECT_EQ(device[i].e5m1, (ExMy<5, 1>::encode(x))) << x;
    EXPECT_EQ(device[i].e2m4, (ExMy<2, 4>::encode(x))) << x;
    EXPECT_EQ(device[i].bf16, bf16(x).bits) << x;
  }
}

TEST_F(CudaCodecs, PhiloxGivesTheSameWords) {
  constexpr uint64_t kKey = 0x0123456789ABCDEF;
  const auto device = cuda::philox(kKey, 10000);
  for (uint64_t i = 0; i < device.size(); ++i) ASSERT_EQ(device[i], Philox::generate(kKey, i, 1)) << i;
}

TEST_F(CudaCodecs, HoppersInstructionAgreesWithE4M3) {
  if (cuda::device().architecture != 90) GTEST_SKIP() << "device 0 is not sm_90";
  const std::vector<float> values = interesting_values();
  const std::vector<uint8_t> device = cuda::sm90::convert_e4m3(values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (codec_detail::is_nan(values[i])) {
      EXPECT_EQ(device[i] & 0x7F, E4M3::kNaN);  // the instruction drops a NaN's sign
    } else {
      EXPECT_EQ(device[i], E4M3::encode(values[i])) << values[i];
    }
  }
}

TEST_F(CudaCodecs, BlackwellsInstructionAgreesWithE2M1) {
  if (cuda::device().architecture != 100) GTEST_SKIP() << "device 0 is not sm_100";
  const std::vector<float> values = interesting_values();
  const std::vector<uint8_t> device = cuda::sm100::convert_e2m1(values);
  for (size_t i = 0; i < values.size(); ++i) {
    // NaN and -0.0 follow Transformer Engine's reference in the codec, PTX in the instruction.
    if (codec_detail::is_nan(values[i]) || bits(values[i]) == 0x80000000u) continue;
    EXPECT_EQ(device[i], E2M1::encode(values[i])) << values[i];
  }
}

}  // namespace
}  // namespace minite
