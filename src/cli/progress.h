#pragma once
// Progress of a run on stderr: a bar on a terminal, one line every 10 seconds elsewhere.
#include <chrono>

#include "rl/loop.h"

namespace minite::cli {

class ProgressObserver : public rl::RunObserver {
 public:
  ProgressObserver();
  ~ProgressObserver() override;
  ProgressObserver(const ProgressObserver&) = delete;
  ProgressObserver& operator=(const ProgressObserver&) = delete;

  void message(const std::string& text) override;
  void step(const learn::StepId& id, int64_t done, int64_t total, const rl::StepRecord& record) override;

 private:
  void show(const std::string& line);
  void end_bar();

  bool terminal_;
  bool bar_open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
  int64_t first_done_ = -1;  ///< steps that were already done when the run (re)started
};

}  // namespace minite::cli
