// minite rl: SFT when the configuration has it, then GRPO, then a contrast.
#include "cli/train.h"
#include "cli/verb.h"

namespace minite::cli {

std::function<int()> add_rl(CLI::App& app) { return add_training(app, rl::Stages::all); }

}  // namespace minite::cli
