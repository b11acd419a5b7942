// EventLog: one event a line of metrics.jsonl, also after a cut, damage, or a file that was never written.
#include "learn/event_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/event_file.h"
#include "learn/run_folder.h"
#include "support/temp_folder.h"

namespace minite::learn {
namespace {
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::slurp;
using minite::test_support::spill;
using minite::test_support::TempFolder;
namespace fs = std::filesystem;

constexpr const char* kFile = "run/tensorboard/events.out.tfevents.0.minite";

Metrics metrics(int64_t step) {
  return {{"a", 0.1 * static_cast<double>(step)}, {"b", step == 2 ? std::nan("") : 1.0}};
}

/// Writes steps [from, to] of a run whose third step begins the second stage.
void write_steps(RunFolder& folder, int64_t from, int64_t to) {
  for (int64_t i = from; i <= to; ++i)
    folder.write_metrics({i, i < 3 ? i : i - 2, i < 3 ? Stage::sft : Stage::rl}, metrics(i));
}

io::EventFile events(const TempFolder& folder) { return io::parse_events(slurp(folder / kFile)); }

/// The file with every wall time 0, which is all that may differ.
std::string timeless(const TempFolder& folder) {
  std::string bytes;
  io::EventFile file = events(folder);
  EXPECT_EQ(file.fault, "");
  for (io::Event& event : file.events) {
    EXPECT_GT(event.wall_time, 1.6e9);
    event.wall_time = 0;
    bytes += io::event_record(event);
  }
  return bytes;
}

/// A run of four steps, whole.
std::string write_whole(const TempFolder& folder) {
  RunFolder run = RunFolder::create(folder / "run");
  run.keep_event_log();
  write_steps(run, 1, 4);
  return timeless(folder);
}

TEST(EventLog, OneEventALine) {
  const TempFolder folder;
  (void)write_whole(folder);
  const auto file = events(folder);
  ASSERT_EQ(file.events.size(), 5u);
  EXPECT_EQ(file.events[0].file_version, io::kEventFileVersion);
  EXPECT_EQ(file.events[1].step, 1);
  EXPECT_EQ(file.events[1].scalars, (std::vector<io::EventScalar>{{"sft/a", 0.1f}, {"sft/b", 1.0f}}));
  EXPECT_TRUE(std::isnan(file.events[2].scalars[1].value));
  EXPECT_EQ(file.events[4].step, 2);
  EXPECT_EQ(file.events[4].scalars[0].tag, "rl/a");
}

TEST(EventLog, ResumeDropsLaterEventsAndKeepsEarlierTimes) {
  const TempFolder folder;
  const std::string whole = write_whole(folder);
  const std::string before = slurp(folder / kFile);
  const uint64_t kept = events(folder).ends[2];
  RunFolder run = RunFolder::resume(folder / "run", 2);
  run.keep_event_log();
  EXPECT_EQ(slurp(folder / kFile), before.substr(0, kept));
  write_steps(run, 3, 4);
  EXPECT_EQ(timeless(folder), whole);
}

// Every length that a crash can leave: the file is completed from metrics.jsonl.
TEST(EventLog, ACutFileIsCompleted) {
  const TempFolder folder;
  const std::string whole = write_whole(folder);
  const std::string bytes = slurp(folder / kFile);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    spill(folder / kFile, bytes.substr(0, size));
    RunFolder::resume(folder / "run", 4).keep_event_log();
    EXPECT_EQ(timeless(folder), whole) << size;
  }
}

TEST(EventLog, WhatDisagreesIsWrittenAnew) {
  const TempFolder folder;
  const std::string whole = write_whole(folder);
  const std::string bytes = slurp(folder / kFile);
  io::Event other = events(folder).events[2];
  other.scalars[0].value = 7;
  const std::string foreign = bytes.substr(0, events(folder).ends[1]) + io::event_record(other);
  std::string flipped = bytes;
  flipped[bytes.size() / 2] ^= 1;
  for (const std::string& damaged : {std::string("no event file"), foreign, flipped, bytes + bytes}) {
    spill(folder / kFile, damaged);
    RunFolder::resume(folder / "run", 4).keep_event_log();
    EXPECT_EQ(timeless(folder), whole);
  }
  fs::remove_all(folder / "run/tensorboard");  // a run that was started without events
  RunFolder::resume(folder / "run", 4).keep_event_log();
  EXPECT_EQ(timeless(folder), whole);
}

TEST(EventLog, ALineWithoutAPlaceIsRefused) {
  const TempFolder folder;
  const std::vector<nlohmann::json> lines = {nlohmann::json::parse(R"({"stage":5,"step":1})")};
  const auto error = error_of([&] { EventLog log(folder / "run", lines); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
  EXPECT_TRUE(holds(error.what(), "metrics.jsonl"));
}

}  // namespace
}  // namespace minite::learn
