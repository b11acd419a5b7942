// minite synth --arch A -o DIR: a checkpoint with the shapes of a known model and made-up weights.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/byte_size.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"
#include "core/env.h"
#include "io/checkpoint_folder.h"
#include "learn/synthetic_checkpoint.h"

namespace minite::cli {
namespace {

struct Args {
  std::string arch, target, shard_size = "5GB";
  uint64_t seed = 0;
  int threads = 0;
  ReportStyle style = ReportStyle::text;
};

int run(const Args& args) {
  const SyntheticArchitecture& architecture = synthetic_architecture(args.arch);
  const int64_t shard_bytes = parse_byte_size("--shard-size", args.shard_size);
  ThreadPool pool(args.threads > 0 ? args.threads : env_threads());
  {
    ProgressBar bar("writing");
    write_synthetic_checkpoint(args.target, architecture, args.seed, shard_bytes, pool,
                               [&](int64_t done, int64_t total) { bar.show(done, total); });
  }
  const io::CheckpointFolder made(args.target);
  if (args.style == ReportStyle::json) {
    print_json({{"target", args.target},
                {"arch", architecture.name},
                {"seed", args.seed},
                {"tensors", made.tensors().size()},
                {"bytes", made.bytes()},
                {"shards", made.shards().size()}});
  } else {
    print(fmt::format("{}: {} with seed {}, {} tensors, {} in {} shard{}\n", args.target, architecture.name,
                      args.seed, made.tensors().size(), byte_text(made.bytes()), made.shards().size(),
                      made.shards().size() == 1 ? "" : "s"));
  }
  return kOk;
}

std::string architectures_help() {
  std::string text;
  for (const SyntheticArchitecture& row : synthetic_architectures())
    text += fmt::format("{}{}", text.empty() ? "" : ", ", row.name);
  return text;
}

}  // namespace

std::function<int()> add_synth(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("--arch", args->arch, architectures_help())->required();
  app.add_option("-o,--output", args->target, "the folder to be made; it must not exist")->required();
  app.add_option("--seed", args->seed, "of the weights")->capture_default_str();
  app.add_option("--shard-size", args->shard_size, "largest shard, e.g. 500MB, 2GiB")->capture_default_str();
  app.add_option("--threads", args->threads, "threads, 0 for all; the bits are the same")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  add_json_flag(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli
