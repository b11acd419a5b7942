// The two questions about stored bytes, against the codecs themselves.
#include "formats/element_codes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/codecs.h"
#include "formats/sim.h"

namespace minite {
namespace {

float decode(Element element, uint8_t code) {
  switch (element) {
    case Element::e2m1:
      return E2M1::decode(code);
    case Element::e4m3:
      return E4M3::decode(code);
    case Element::e5m2:
      return E5M2::decode(code);
    default:
      return with_sim_element(element, [&](auto codec) { return decltype(codec)::decode(code); });
  }
}

TEST(ElementCodes, LargestIsTheLargestFiniteValue) {
  for (const Element element : {Element::e2m1, Element::e4m3, Element::e5m2, Element::e3m1, Element::e4m1,
                                Element::e5m1, Element::e2m2, Element::e2m3, Element::e2m4}) {
    const ElementCodes codes = element_codes(element);
    const float largest = decode(element, codes.largest);
    for (int code = 0; code <= codes.magnitude_mask; ++code) {
      const float value = decode(element, static_cast<uint8_t>(code));
      EXPECT_TRUE(!std::isfinite(value) || value <= largest) << to_string(element) << " " << code;
    }
    EXPECT_EQ(decode(element, static_cast<uint8_t>(codes.largest | (codes.magnitude_mask + 1))), -largest);
    EXPECT_EQ(codes.max, largest);
    EXPECT_EQ(codes.bound - largest,
              (largest - decode(element, static_cast<uint8_t>(codes.largest - 1))) / 2);
  }
  EXPECT_EQ(element_codes(Element::bf16).magnitude_mask, 0);
}

TEST(ElementCodes, ZeroAndNanScales) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto b = static_cast<uint8_t>(byte);
    EXPECT_EQ(is_zero_scale(Element::e4m3, b), E4M3::decode(b) == 0) << byte;
    EXPECT_EQ(is_nan_scale(Element::e4m3, b), std::isnan(E4M3::decode(b))) << byte;
    EXPECT_EQ(is_zero_scale(Element::e8m0, b), E8M0::decode(b) == 0) << byte;
    EXPECT_EQ(is_nan_scale(Element::e8m0, b), std::isnan(E8M0::decode(b))) << byte;
  }
}

}  // namespace
}  // namespace minite
