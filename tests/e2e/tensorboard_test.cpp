// A run's TensorBoard events: every number of metrics.jsonl, read by our own reader and, where it is
// installed, by TensorBoard's.
#include <cmath>

#include "support/tiny_run.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::json_lines;
using test_support::slurp;
using test_support::TinyRuns;

constexpr const char* kEvents = "run/tensorboard/events.out.tfevents.0.minite";

TEST(TensorBoard, HoldsEveryNumberOfTheMetrics) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  const io::EventFile file = io::parse_events(slurp(runs / kEvents));
  EXPECT_EQ(file.fault, "");
  const auto lines = json_lines(runs / "run/metrics.jsonl");
  ASSERT_EQ(file.events.size(), lines.size() + 1);
  double last = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    const io::Event& event = file.events[i + 1];
    EXPECT_EQ(event.step, lines[i]["step"]);
    EXPECT_GE(event.wall_time, last);
    last = event.wall_time;
    EXPECT_EQ(event.scalars.size() + 3, lines[i].size()) << lines[i];
    for (const io::EventScalar& scalar : event.scalars) {
      const size_t slash = scalar.tag.find('/');
      EXPECT_EQ(scalar.tag.substr(0, slash), lines[i]["stage"]);
      EXPECT_EQ(scalar.value, static_cast<float>(lines[i].at(scalar.tag.substr(slash + 1)).get<double>()));
    }
  }
}

TEST(TensorBoard, CanBeSwitchedOff) {
  const TinyRuns runs;
  (void)runs.finish(runs.start("run", {"--set", "tensorboard=false"}));
  EXPECT_FALSE(std::filesystem::exists(runs / "run/tensorboard"));
  (void)runs.finish(runs.resume("run"));
  EXPECT_FALSE(std::filesystem::exists(runs / "run/tensorboard"));
}

TEST(TensorBoard, ItsOwnReaderAgrees) {
  constexpr int kMissing = 77;
  const TinyRuns runs;
  (void)runs.finish(runs.start("run"));
  const std::string command = "python3 " +
                              test_support::quoted(MINITE_SOURCE_DIR "/tests/e2e/read_events.py") + " " +
                              test_support::quoted(runs.text("run"));
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kMissing) GTEST_SKIP() << "the Python package tensorboard is not installed";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace minite
