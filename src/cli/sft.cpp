// minite sft: supervised training from scratch or from a checkpoint.
#include "cli/train.h"
#include "cli/verb.h"

namespace minite::cli {

std::function<int()> add_sft(CLI::App& app) { return add_training(app, rl::Stages::sft_only); }

}  // namespace minite::cli
