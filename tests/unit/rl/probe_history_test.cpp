// config.yaml of a run whose probe changes on the way.
#include "rl/probe_history.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace minite::rl {
namespace {

RunConfig looking(const std::string& probe, const std::string& rules = "") {
  RunConfig c;
  c.seed = 5;
  c.probe = probe;
  c.probe_rules = rules;
  return c;
}
const std::string kNone = R"({"probe":"none","probe_rules":""})";

std::string goes_on(const std::string& before, int64_t step, const RunConfig& now) {
  return continued_config(before, "config.yaml", step, now);
}

TEST(ProbeHistory, NothingChangesWhereNothingChanged) {
  const std::string odd = "# a comment of somebody\nseed: 5\n";
  EXPECT_EQ(goes_on(odd, 7, looking("none")), odd);
  EXPECT_EQ(goes_on(odd, 0, looking("none")), odd);
  const std::string once = goes_on(odd, 7, looking("stats"));
  EXPECT_EQ(goes_on(once, 9, looking("stats")), once);
}

TEST(ProbeHistory, AChangeIsRecordedWithWhatWasBefore) {
  const std::string rules = "a: {minite: {LogTensorStats: {stats: \"min\"}}}\nb: 1\n";
  const std::string first = goes_on(to_yaml(looking("none")), 7, looking("stats", rules));
  EXPECT_EQ(first, "# until step 7: " + kNone + "\n" + to_yaml(looking("stats", rules)));
  const std::string second = goes_on(first, 9, looking("none"));
  EXPECT_EQ(second,
            "# until step 7: " + kNone +
                "\n# until step 9: {\"probe\":\"stats\",\"probe_rules\":\"a: {minite: {LogTensorStats: "
                "{stats: \\\"min\\\"}}}\\nb: 1\\n\"}\n" +
                to_yaml(looking("none")));
  const RunConfig read = parse_config(second, "config.yaml");
  EXPECT_EQ(to_yaml(read), to_yaml(looking("none"))) << "comments are no settings";
}

TEST(ProbeHistory, OtherSettingsStayThoseOfTheFile) {
  RunConfig now = looking("stats");
  now.seed = 6;
  now.threads = 3;
  EXPECT_EQ(parse_config(goes_on(to_yaml(looking("none")), 7, now), "config.yaml").seed, 5u);
  EXPECT_EQ(parse_config(goes_on(to_yaml(looking("none")), 7, now), "config.yaml").threads, 0);
}

TEST(ProbeHistory, WhatTheRunForgetsIsForgotten) {
  const std::string at7 = goes_on(to_yaml(looking("none")), 7, looking("stats"));
  // Back before the change, with the same options: from there on it is looked at.
  EXPECT_EQ(goes_on(at7, 4, looking("stats")), "# until step 4: " + kNone + "\n" + to_yaml(looking("stats")));
  // Back and blind again: as if nothing had been.
  EXPECT_EQ(goes_on(at7, 4, looking("none")), to_yaml(looking("none")));
  EXPECT_EQ(goes_on(at7, 7, looking("none")), to_yaml(looking("none")));
  // From the first step again.
  EXPECT_EQ(goes_on(at7, 0, looking("stats")), to_yaml(looking("stats")));
}

TEST(ProbeHistory, ALineThatSaysNothingIsRefused) {
  for (const char* line : {"# until step x: {}", "# until step 3", "# until step 3: {\"probe\":\"none\"}"}) {
    test_support::expect_error(ErrorCode::corrupt_data, {"config.yaml:1", line, "delete the line"},
                               [&] { (void)goes_on(std::string(line) + "\nseed: 5\n", 7, looking("none")); });
  }
}

}  // namespace
}  // namespace minite::rl
