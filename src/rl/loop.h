#pragma once
// A whole run: stages in order, checkpoints, exact resume, summary.
#include <filesystem>
#include <string>

#include "core/trace.h"
#include "learn/run_folder.h"
#include "rl/run_config.h"
#include "rl/stages.h"

namespace minite::rl {

/// Told what happens; decides what to show.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void message(const std::string& text) = 0;
  /// `done` of `total` steps of the whole run are finished.
  virtual void step(const learn::StepId& id, int64_t done, int64_t total, const StepRecord& record) = 0;
};

/// Which stages a verb runs.
enum class Stages : uint8_t { sft_only, all };

/// Runs `config` in a new folder, or goes on with the run in `path` exactly where its newest valid checkpoint
/// stands (`config` is then the run's own config.yaml). Writes everything that the run folder promises but
/// report.html. On a non-finite loss the state before the step is saved, then the error is thrown. `trace` is
/// told of every step, its phases and every op; nullptr: nobody is.
void run_training(const RunConfig& config, const std::filesystem::path& path, Stages stages,
                  RunObserver& observer, Trace* trace = nullptr);
void resume_training(const RunConfig& config, const std::filesystem::path& path, RunObserver& observer,
                     Trace* trace = nullptr);

/// Reads the config of the run in `path`.
[[nodiscard]] RunConfig load_run_config(const std::filesystem::path& path);

}  // namespace minite::rl
