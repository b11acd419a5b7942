#pragma once
// A backend and its threads, for verbs that call ops on tensors of a file.
#include <CLI/CLI.hpp>
#include <string>

#include "backends/registry.h"
#include "core/env.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "ops/ops.h"

namespace minite::cli {

struct RunnerOptions {
  std::string backend = "auto";
  int threads = 0;
};

/// Adds --backend and --threads.
inline void add_runner_options(CLI::App& app, RunnerOptions& options) {
  app.add_option("--backend", options.backend, "auto, simd or ref; the bits are the same")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads, 0 for all; the bits are the same")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
}

class OpRunner {
 public:
  /// Errors: not_found for an unknown backend, unsupported when it cannot run here.
  explicit OpRunner(const RunnerOptions& options)
      : table_(&minite::backend(options.backend == "auto" ? env_backend() : options.backend)),
        pool_(options.threads > 0 ? options.threads : env_threads()) {}

  /// A context with at least `scratch_bytes` of scratch; good until the next call.
  [[nodiscard]] Context context(int64_t scratch_bytes = 0) {
    if (scratch_.size() < scratch_bytes) scratch_ = Buffer(scratch_bytes);
    return {table_, &pool_, nullptr, {scratch_.data(), static_cast<size_t>(scratch_.size())}};
  }
  [[nodiscard]] const OpTable& table() const { return *table_; }
  [[nodiscard]] int threads() const { return pool_.threads(); }

 private:
  const OpTable* table_;
  ThreadPool pool_;
  Buffer scratch_;
};

}  // namespace minite::cli
