#pragma once
// What the verbs sft and rl share: options to a run configuration, progress, the report at the end.
#include <CLI/CLI.hpp>
#include <functional>

#include "rl/loop.h"

namespace minite::cli {

/// Adds the options of a training verb; the returned function runs it.
std::function<int()> add_training(CLI::App& app, rl::Stages stages);

}  // namespace minite::cli
