#include "tasks/shuffle.h"

#include <numeric>
#include <set>

#include "support.h"

namespace minite::tasks {
namespace {

TEST(Shuffle, is_a_permutation_of_every_size) {
  for (uint64_t size = 1; size <= 300; ++size) {
    const Shuffle shuffle(3, 0, size);
    std::vector<bool> seen(size, false);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t element = shuffle(i);
      ASSERT_LT(element, size);
      ASSERT_FALSE(seen[element]) << size << " " << i;
      seen[element] = true;
    }
  }
}

TEST(Shuffle, depends_on_seed_and_stream) {
  const auto order = [](uint64_t seed, uint32_t stream) {
    std::vector<uint64_t> elements(1000);
    for (uint64_t i = 0; i < 1000; ++i) elements[i] = Shuffle(seed, stream, 1000)(i);
    return elements;
  };
  EXPECT_EQ(order(1, 2), order(1, 2));
  EXPECT_NE(order(1, 2), order(2, 2));
  EXPECT_NE(order(1, 2), order(1, 3));
}

TEST(Shuffle, large_sizes_stay_in_range_without_repeats) {
  const uint64_t size = uint64_t{1} << 62;
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t element = Shuffle(9, 0, size)(i);
    ASSERT_LT(element, size);
    seen.insert(element);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

// The first positions hit each tenth of the range about equally often: 5 standard deviations of a binomial.
TEST(Shuffle, prefixes_are_spread_evenly) {
  std::array<int, 10> hits{};
  const Shuffle shuffle(5, 0, 1000000);
  for (uint64_t i = 0; i < 10000; ++i) ++hits[shuffle(i) / 100000];
  for (const int count : hits) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace minite::tasks
