#include "core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace minite {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Random123's kat_vectors, philox4x32 with 10 rounds.
TEST(Philox, known_answers) {
  EXPECT_EQ(Philox::generate(0, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::generate(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox::generate(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, is_a_constant_expression) {
  static_assert(Philox::generate(0, 0, 0)[0] == 0x6627e8d5);
  static_assert(Philox::unit(0xFFFFFFFFu) < 1.0f);
  static_assert(Philox::unit(0) == 0.0f);
  static_assert(Philox::unit(0x80000000u) == 0.5f);
}

// The cipher is a bijection of the counter: no two counters of one key give the same 128 bits.
TEST(Philox, counters_do_not_collide) {
  std::set<Words> seen;
  for (uint64_t i = 0; i < 2000; ++i) {
    seen.insert(Philox::generate(7, i, 0));
    seen.insert(Philox::generate(7, 0, i + 1));
  }
  EXPECT_EQ(seen.size(), 4000u);
}

TEST(Philox, bits_are_balanced) {
  std::array<int, 128> ones{};
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const Words words = Philox::generate(1, static_cast<uint64_t>(i), 0);
    for (int bit = 0; bit < 128; ++bit) ones[bit] += (words[bit / 32] >> (bit % 32)) & 1;
  }
  // 5 standard deviations of a fair coin: 5 * sqrt(20000)/2 = 354.
  for (const int count : ones) EXPECT_NEAR(count, kDraws / 2, 354);
}

}  // namespace
}  // namespace minite
