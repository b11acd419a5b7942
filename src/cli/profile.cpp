// minite profile: a training run for its times alone.
#include <memory>

#include "cli/train.h"
#include "cli/verb.h"

namespace minite::cli {

std::function<int()> add_profile(CLI::App& app) {
  app.require_subcommand(1);
  auto chosen = std::make_shared<std::function<int()>>();
  const auto add = [&](const char* name, const char* does, rl::Stages stages) {
    CLI::App* sub = app.add_subcommand(name, does);
    sub->callback([chosen, body = add_training(*sub, stages, Purpose::profile)] { *chosen = body; });
  };
  add("rl", "profile a run of `minite rl`", rl::Stages::all);
  add("sft", "profile a run of `minite sft`", rl::Stages::sft_only);
  return [chosen] { return (*chosen)(); };
}

}  // namespace minite::cli
