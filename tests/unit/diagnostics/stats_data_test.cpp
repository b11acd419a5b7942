// Lines of statistics read back, trends, and what stands out.
#include "diagnostics/stats_data.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace minite::diagnostics {
namespace {

using test_support::spill;
using test_support::TempFolder;

std::string line(int64_t step, const std::string& stage, const std::string& module,
                 const std::string& values) {
  return "{\"global_step\":" + std::to_string(step) + ",\"step\":1,\"stage\":\"" + stage +
         R"(","side":"learner","rank":0,"layer":2,"module":")" + module +
         R"(","tensor":"activation","expert":null,"count":8,)" + values + "}\n";
}

TEST(StatsData, SeriesTrendsAndFindings) {
  const TempFolder run;
  spill(run / "stats.jsonl",
        line(1, "rl", "down", R"("std":4,"underflows%":2)") +
            line(1, "rl", "o", R"("std":1,"underflows%":1,"overflows%":0.5)") +
            line(11, "rl", "down", R"("std":null,"std_nonfinite":"inf","underflows%":9)") +
            line(21, "rl", "down", R"("std":2,"nonfinite":3,"scale_histogram":[[7,8]])") +
            line(31, "contrast", "down", R"("std":3)") + R"({"global_step":41,"st)");
  const auto rows = read_stats(run.path());
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0].module, "layers.2.down");
  EXPECT_TRUE(std::isinf(*rows[2].find("std")));
  EXPECT_EQ(rows[3].histogram, (std::vector<std::pair<int, int64_t>>{{7, 8}}));

  const auto all = series_of(rows, "rl");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].size(), 3u);
  const Trend t = trend(all[0], "std");
  EXPECT_EQ(t.first, 4);
  EXPECT_EQ(t.median, 2);
  EXPECT_EQ(t.last, 2);
  EXPECT_TRUE(std::isnan(trend(all[1], "snr_db").last));

  const auto found = findings(all);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].sign->statistic, "nonfinite");
  EXPECT_EQ(found[0].row->global_step, 21);
  EXPECT_EQ(found[1].sign->statistic, "underflows%");  // 1 % is no more than 1 %
  EXPECT_EQ(found[1].value, 9);
  EXPECT_EQ(found[1].steps, 2);
  EXPECT_EQ(found[2].sign->statistic, "overflows%");
}

TEST(StatsData, MissingAndDamagedFilesAreNamed) {
  const TempFolder run;
  test_support::expect_error(ErrorCode::invalid_argument, {"holds no run"},
                             [&] { (void)read_stats(run.path()); });
  spill(run / "metrics.jsonl", "");
  test_support::expect_error(ErrorCode::not_found, {"has no stats.jsonl", "--probe stats"},
                             [&] { (void)read_stats(run.path()); });
  spill(run / "stats.jsonl", "{\"global_step\":1}\n");
  test_support::expect_error(ErrorCode::corrupt_data, {"stats.jsonl:1: not a line of statistics"},
                             [&] { (void)read_stats(run.path()); });
}

TEST(StatsData, EverySignIsAStatistic) {
  for (const Sign& sign : signs()) EXPECT_NE(find_statistic(sign.statistic), nullptr) << sign.statistic;
  EXPECT_EQ(find_statistic("amax"), find_statistic("cur_amax"));
  EXPECT_EQ(find_statistic(""), nullptr);
}

}  // namespace
}  // namespace minite::diagnostics
