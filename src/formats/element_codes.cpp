#include "formats/element_codes.h"

#include <limits>

#include "formats/codecs.h"
#include "formats/peer_math.h"

namespace minite {
namespace {

template <class Codec>
constexpr ElementCodes codes_of(uint8_t magnitude_mask, uint8_t largest) {
  const float max = Codec::decode(largest), below = Codec::decode(static_cast<uint8_t>(largest - 1));
  return {magnitude_mask, largest, max, max + 0.5f * (max - below)};
}
template <int kExponent, int kMantissa>
constexpr ElementCodes simulated() {
  using Codec = ExMy<kExponent, kMantissa>;
  return codes_of<Codec>(0x7F, static_cast<uint8_t>(Codec::kMaxCode));
}

}  // namespace

ElementCodes element_codes(Element element) {
  switch (element) {
    case Element::e2m1:
      return codes_of<E2M1>(0x7, 0x7);
    case Element::e4m3:
      return codes_of<E4M3>(0x7F, 0x7E);
    case Element::e5m2:
      return codes_of<E5M2>(0x7F, 0x7B);
    case Element::e3m1:
      return simulated<3, 1>();
    case Element::e4m1:
      return simulated<4, 1>();
    case Element::e5m1:
      return simulated<5, 1>();
    case Element::e2m2:
      return simulated<2, 2>();
    case Element::e2m3:
      return simulated<2, 3>();
    case Element::e2m4:
      return simulated<2, 4>();
    default:
      return {};
  }
}

float block_scale_value(const QuantSpec& spec, uint8_t byte) {
  const bool ggml = spec.convention == Convention::ggml;
  if (format(spec.format).block_scale == Element::e8m0) {
    const bool nan = byte == E8M0::kNaN;
    return nan && ggml ? std::numeric_limits<float>::infinity() : E8M0::decode(byte);
  }
  return ggml ? peer::decode_ue4m3(byte) : E4M3::decode(byte);
}

bool is_zero_scale(Element scale, uint8_t byte) { return scale == Element::e4m3 && (byte & 0x7F) == 0; }

bool is_nan_scale(Element scale, uint8_t byte) {
  return scale == Element::e8m0 ? byte == 0xFF : scale == Element::e4m3 && (byte & 0x7F) == 0x7F;
}

}  // namespace minite
