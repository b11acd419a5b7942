#pragma once
// The codecs and the generator, run on the device: what every CUDA kernel will be made of. Each function
// copies in, computes one element a thread, and copies out; tests compare with the host bit by bit.
// Errors: unsupported when there is no device or no code for its architecture.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace minite::cuda {

/// Decoded value, FP32, of every (E2M1 code, E4M3 scale byte) under the outer amax `amax`, convention te:
/// q * fl(fl(d * A) * fl(1/2688)). Element scale * 16 + code; 4096 elements.
[[nodiscard]] std::vector<float> decode_nvfp4(float amax);

/// Each codec's byte of one value. Value i is rounded stochastically with the random byte i mod 256; e5m1 and
/// e2m4 stand for the simulated elements.
struct Encoded {
  uint8_t e2m1, e4m3, e5m2, e8m0, stochastic, e5m1, e2m4;
  uint16_t bf16;
};
[[nodiscard]] std::vector<Encoded> encode(std::span<const float> values);

/// Philox words of the counters 0 .. count-1 (low half; the high half is 1) under `key`.
[[nodiscard]] std::vector<std::array<uint32_t, 4>> philox(uint64_t key, uint64_t count);

/// How many x in [2^-126, 2^126] have another fl(1 / x) by quick_reciprocal() than by division.
[[nodiscard]] uint32_t reciprocal_differences();

namespace sm90 {
/// E4M3 bytes by the processor's own instruction, cvt.rn.satfinite.e4m3x2.f32.
[[nodiscard]] std::vector<uint8_t> convert_e4m3(std::span<const float> values);
}  // namespace sm90

namespace sm100 {
/// E2M1 codes by the processor's own instruction, cvt.rn.satfinite.e2m1x2.f32. Unverified on hardware.
[[nodiscard]] std::vector<uint8_t> convert_e2m1(std::span<const float> values);
}  // namespace sm100

}  // namespace minite::cuda
