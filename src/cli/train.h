#pragma once
// What the verbs sft and rl share: options to a run configuration, progress, the report at the end.
#include <CLI/CLI.hpp>
#include <functional>

#include "rl/loop.h"

namespace minite::cli {

/// What a run is started for.
enum class Purpose : uint8_t {
  train,    ///< its run folder
  profile,  ///< a trace; the run folder is removed
};

/// Adds the options of a training verb; the returned function runs it.
std::function<int()> add_training(CLI::App& app, rl::Stages stages, Purpose purpose = Purpose::train);

}  // namespace minite::cli
