#pragma once
// A bar on stderr while a verb works through bytes; nothing where stderr is no terminal.
#include <chrono>
#include <cstdint>
#include <string>

namespace minite::cli {

class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Draws at most five times a second.
  void show(int64_t done, int64_t total);

 private:
  std::string what_;
  bool terminal_, open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

}  // namespace minite::cli
