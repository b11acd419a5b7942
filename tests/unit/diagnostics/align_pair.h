#pragma once
// Two captures of the same small model, to be changed by a test and compared.
#include <gtest/gtest.h>

#include "diagnostics/align.h"
#include "support/hand_capture.h"

namespace minite::diagnostics {

using test_support::HandCapture;

inline const std::vector<RowId> kRows = {{0, 0, 0, 1}, {0, 0, 1, 2}, {1, 0, 0, 1}};
inline const std::vector<RowId> kScored = {{0, 0, 1, 2}, {0, 0, 2, 3}, {1, 0, 1, 4}};

/// Fills a capture with one linear layer, one layer of experts and log-probs.
inline void fill(HandCapture& c) {
  c.rows("rows", kRows).rows("scored", kScored);
  c.values("embed", "output", 2, {1, 2, 3, 4, 5, 6}, -1);
  c.codes("qkv", "input.codes", {3, 1}, {0x21, 0x43, 0x65});
  c.values("qkv", "input.outer_scale", 1, {0.5f, 0.25f, 0.125f});
  c.codes("qkv", "weight.codes", {2, 1}, {0x12, 0x34});
  c.values("qkv", "output", 2, {1, 0, 0, 2, 3, 0});
  c.values("router", "output", 2, {1, 2, 1, 2, 1, 2});
  c.experts({0, 1, 1, 2, 0, 2}, {0, 1, 2, 3, 4, 5});
  c.values("experts.down", "output", 1, {10, 11, 12, 13, 14, 15});
  c.values("combine", "output", 1, {1, 2, 3});
  c.values("logprob", "output", 1, {-0.5f, -1.5f, -2.5f}, -1);
  c.m.weights.digests = {{"embed", {"e"}}, {"layers.0.experts.down", {"x", "y", "z"}}};
}

struct Pair {
  HandCapture a, b;
  Pair() {
    fill(a);
    fill(b);
  }
  [[nodiscard]] Comparison compare() { return compare_captures(a.open("a"), b.open("b")); }
  /// The cause must be `cause`, first at `name`, and the evidence hold `part`.
  void expect(const std::string& cause, const std::string& name, const std::string& part) {
    const Comparison c = compare();
    ASSERT_TRUE(c.first);
    EXPECT_EQ(c.points[*c.first].name, name);
    EXPECT_EQ(c.cause->cause, cause) << c.cause->evidence;
    EXPECT_NE(c.cause->evidence.find(part), std::string::npos) << c.cause->evidence;
  }
};

}  // namespace minite::diagnostics
