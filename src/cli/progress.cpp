#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace minite::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBarInterval = std::chrono::milliseconds(200);
constexpr auto kLineInterval = std::chrono::seconds(10);
constexpr int kBarWidth = 24;

/// The numbers worth watching, in the order in which they are shown.
struct Shown {
  const char* metric;
  const char* label;
  const char* format;
};
constexpr Shown kShown[] = {{"loss", "loss", "{:.4f}"},
                            {"reward", "reward", "{:.3f}"},
                            {"train_rollout_logprob_abs_diff", "gap", "{:.3g}"},
                            {"gap_max", "gap max", "{:.3g}"}};

std::string numbers(const learn::StepId& id, const learn::Metrics& metrics) {
  std::string text;
  for (const Shown& s : kShown) {
    if (id.stage != learn::Stage::sft && std::string_view(s.metric) == "loss") continue;
    const auto it = metrics.find(s.metric);
    if (it == metrics.end()) continue;
    text += fmt::format("  {} {}", s.label, fmt::format(fmt::runtime(s.format), it->second));
  }
  return text;
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(std::llround(seconds));
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

}  // namespace

ProgressObserver::ProgressObserver()
    : terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), shown_(start_) {}

ProgressObserver::~ProgressObserver() { end_bar(); }

void ProgressObserver::end_bar() {
  if (bar_open_) std::fputc('\n', stderr);
  bar_open_ = false;
}

void ProgressObserver::message(const std::string& text) {
  end_bar();
  std::fprintf(stderr, "%s\n", text.c_str());
}

void ProgressObserver::show(const std::string& line) {
  if (terminal_) {
    std::fprintf(stderr, "\r\x1b[K%s", line.c_str());
    bar_open_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void ProgressObserver::step(const learn::StepId& id, int64_t done, int64_t total,
                            const rl::StepRecord& record) {
  const auto now = Clock::now();
  if (first_done_ < 0) first_done_ = done - 1;
  const bool due =
      now - shown_ >= (terminal_ ? Clock::duration(kBarInterval) : Clock::duration(kLineInterval));
  if (!due && done != total) return;
  shown_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = elapsed / static_cast<double>(done - first_done_) * static_cast<double>(total - done);
  const auto filled = static_cast<size_t>(done * kBarWidth / total);
  const std::string bar =
      terminal_ ? fmt::format("[{}{}] ", std::string(filled, '#'), std::string(kBarWidth - filled, '.')) : "";
  show(fmt::format("{}{}/{}  {} {}{}  {} left", bar, done, total, learn::stage_name(id.stage), id.step,
                   numbers(id, record.metrics), duration(left)));
}

}  // namespace minite::cli
