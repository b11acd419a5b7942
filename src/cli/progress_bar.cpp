#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/byte_size.h"

namespace minite::cli {
namespace {
using Clock = std::chrono::steady_clock;
constexpr auto kInterval = std::chrono::milliseconds(200);
constexpr int64_t kWidth = 24;
}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()), shown_(start_) {}

ProgressBar::~ProgressBar() {
  if (open_) std::fputs("\r\x1b[K", stderr);
}

void ProgressBar::show(int64_t done, int64_t total) {
  const auto now = Clock::now();
  if (!terminal_ || total <= 0 || now - shown_ < kInterval) return;
  shown_ = now;
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<size_t>(share * kWidth);
  std::fputs(fmt::format("\r\x1b[K[{}{}] {} {} of {}  {:.0f} s left", std::string(filled, '#'),
                         std::string(kWidth - filled, '.'), what_, byte_text(done), byte_text(total),
                         share > 0 ? elapsed * (1 - share) / share : 0.0)
                 .c_str(),
             stderr);
  std::fflush(stderr);
  open_ = true;
}

}  // namespace minite::cli
