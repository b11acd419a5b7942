// minite: the table of verbs, and the one place where errors become exit codes.
#include <array>
#include <cstdio>
#include <new>

#include "cli/verb.h"
#include "core/fail.h"
#include "minite/error.h"
#include "minite/version.h"

namespace minite::cli {
namespace {

struct Verb {
  const char* name;
  const char* does;
  AddVerb add;
};

constexpr std::array kVerbs = {
    Verb{"recipes", "list the recipes", add_recipes},
    Verb{"formats", "list the number formats", add_formats},
    Verb{"describe", "explain one recipe, and what it does to a model", add_describe},
    Verb{"doctor", "show what can run on this machine, and why the rest cannot", add_doctor},
    Verb{"quantize", "quantize the tensors of a safetensors file, and say what was lost", add_quantize},
    Verb{"matmul", "one product of a linear layer under a recipe, in FP32", add_matmul},
    Verb{"sweep", "compare every format on a file's tensors or on synthetic data", add_sweep},
    Verb{"inspect", "list the tensors of a file or a folder, and what is wrong with them", add_inspect},
    Verb{"convert", "make a checkpoint for another loader: quantize, decode or rename", add_convert},
    Verb{"synth", "make a checkpoint with the shapes of a known model and made-up weights", add_synth},
    Verb{"metrics", "list what a training step reports", add_metrics},
    Verb{"tasks", "list and make verifiable problems", add_tasks},
    Verb{"sft", "train a model by supervised learning", add_sft},
    Verb{"rl", "train a model by reinforcement learning with verifiable rewards", add_rl},
    Verb{"stats", "show the statistics of tensors of a run, and what stands out", add_stats},
    Verb{"profile", "train to see where the time goes: Chrome trace and kernel table", add_profile},
    Verb{"eval", "score a checkpoint: pass@1 and pass@k", add_eval},
    Verb{"perplexity", "how well each recipe predicts the tokens of a text", add_perplexity},
    Verb{"gap", "measure how far learner and sampler recipes are apart on a checkpoint, and why", add_gap},
    Verb{"capture", "store everything that a learner or a sampler computes on a checkpoint", add_capture},
    Verb{"compare", "find where two captures part first, and why", add_compare},
    Verb{"generate", "sample responses to a prompt", add_generate},
    Verb{"tokenize", "show what a checkpoint's tokenizer makes of texts", add_tokenize},
    Verb{"bench", "measure kernels beside their rivals, and what probes cost, on this machine", add_bench},
    Verb{"explore",
         "write a page of interactive figures: bits, outer scales, directions, runs, compute paths",
         add_explore},
    Verb{"report", "write a self-contained HTML page about one or more runs, or about a gap", add_report},
};

/// "minite: unknown verb 'recipez'; did you mean 'recipes'?" when the first argument is no verb, else "".
std::string verb_hint(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return {};
  std::vector<std::string_view> names;
  for (const Verb& verb : kVerbs) {
    if (verb.name == std::string_view(argv[1])) return {};
    names.emplace_back(verb.name);
  }
  return fmt::format("minite: unknown verb '{}'{}\n", argv[1], did_you_mean(argv[1], names));
}

int run(int argc, char** argv) {
  CLI::App app{"minite: NVFP4 reinforcement learning with learner and sampler on the same numbers", "minite"};
  app.require_subcommand(1);
  app.set_version_flag("--version", MINITE_VERSION_STRING);
  std::function<int()> chosen;
  for (const Verb& verb : kVerbs) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.does);
    auto body = verb.add(*sub);
    sub->callback([&chosen, body] { chosen = body; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::fputs(verb_hint(argc, argv).c_str(), stderr);
    const int code = app.exit(error);
    return code == 0 ? kOk : kUsage;
  }
  try {
    return chosen();
  } catch (const Error& error) {
    std::fprintf(stderr, "minite: %s\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "minite: out of memory; use fewer sequences a step or a smaller model\n");
    return kRunFailed;
  } catch (const std::exception& error) {  // of the standard library: too many threads, an absurd size
    std::fprintf(stderr, "minite: %s\n", error.what());
    return kRunFailed;
  }
}

}  // namespace
}  // namespace minite::cli

int main(int argc, char** argv) { return minite::cli::run(argc, argv); }
