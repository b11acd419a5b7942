// minite tasks list | make: verifiable problems as JSONL.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/verb.h"
#include "core/fail.h"
#include "tasks/checker.h"
#include "tasks/generators.h"
#include "tasks/jsonl.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

struct TasksOptions {
  std::string generator;
  uint64_t count = 0;
  uint64_t seed = 0;
  uint64_t offset = 0;
  std::string output;
  std::vector<std::string> set;
  bool json = false;
};

void print(const ordered_json& document) { fmt::print("{}\n", document.dump(2)); }

ordered_json describe(const tasks::Generator& row) {
  ordered_json options = ordered_json::array();
  for (const auto& option : row.options) {
    options.push_back({{"name", option.name},
                       {"default", option.fallback},
                       {"lowest", option.lowest},
                       {"highest", option.highest},
                       {"description", option.description}});
  }
  return {{"name", row.name},   {"description", row.description}, {"example", row.example},
          {"check", row.check}, {"alphabet", row.alphabet},       {"options", options}};
}

int list_json() {
  ordered_json document = {{"generators", ordered_json::array()}, {"checkers", ordered_json::array()}};
  for (const auto& row : tasks::generators()) document["generators"].push_back(describe(row));
  for (const auto& row : tasks::checkers()) {
    document["checkers"].push_back({{"name", row.name}, {"description", row.description}});
  }
  print(document);
  return kOk;
}

int list_text() {
  fmt::print("generators (minite tasks make NAME -n N --seed S -o FILE.jsonl --set option=value):\n");
  for (const auto& row : tasks::generators()) {
    fmt::print("\n  {:<11} {}\n              e.g. {}   [check: {}]\n", row.name, row.description, row.example,
               row.check);
    for (const auto& option : row.options) {
      fmt::print("      {:<11} {} to {}, default {}: {}\n", option.name, option.lowest, option.highest,
                 option.fallback, option.description);
    }
  }
  fmt::print("\ncheckers (\"check\" in a JSONL line; exact when it has none):\n\n");
  for (const auto& row : tasks::checkers()) fmt::print("  {:<11} {}\n", row.name, row.description);
  return kOk;
}

/// What was written, so that a training configuration can be chosen: sizes in characters, and all characters.
ordered_json summarise(const TasksOptions& options, const tasks::ProblemSource& source,
                       const std::vector<tasks::Problem>& problems) {
  size_t prompt = 0, target = 0, total = 0;
  for (const auto& problem : problems) {
    const size_t p = problem.prompt.size();
    const size_t t = tasks::sft_target(problem).size();
    prompt = std::max(prompt, p);
    target = std::max(target, t);
    total = std::max(total, p + t);
  }
  ordered_json set = ordered_json::object();
  for (const auto& row : source.options().rows()) set[std::string(row.name)] = source.options().get(row.name);
  return {{"file", options.output},   {"generator", options.generator},
          {"options", set},           {"problems", problems.size()},
          {"seed", options.seed},     {"offset", options.offset},
          {"space", source.size()},   {"check", problems.front().check},
          {"longest_prompt", prompt}, {"longest_target", target},
          {"longest_total", total},   {"alphabet", tasks::generator(options.generator).alphabet}};
}

int make(const TasksOptions& options) {
  require(options.count >= 1, "tasks make: -n 0 makes no problem; ask for at least 1");
  const std::string set = fmt::format("{}", fmt::join(options.set, ","));
  const tasks::ProblemSource source(options.generator, set, options.seed);
  const auto problems = source.take(options.count, options.offset);
  tasks::write_problems(options.output, problems);
  const ordered_json summary = summarise(options, source, problems);
  if (options.json) {
    print(summary);
    return kOk;
  }
  fmt::print("{}: {} problems of {} ({}), seed {}, from {} of {}\n", options.output, problems.size(),
             options.generator, source.options().to_string(), options.seed, options.offset, source.size());
  fmt::print("first: {}{}\n", problems.front().prompt, tasks::sft_target(problems.front()));
  fmt::print("longest: prompt {}, target {}, both {} characters\n", summary["longest_prompt"].get<size_t>(),
             summary["longest_target"].get<size_t>(), summary["longest_total"].get<size_t>());
  return kOk;
}

/// CLI11 would wrap "-5" round to a huge unsigned number.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} must not be negative", text) : "";
}

}  // namespace

std::function<int()> add_tasks(CLI::App& app) {
  auto options = std::make_shared<TasksOptions>();
  app.require_subcommand(1);
  CLI::App* list = app.add_subcommand("list", "generators with their options, and checkers");
  list->add_flag("--json", options->json, "one JSON document on stdout");
  CLI::App* make_app = app.add_subcommand("make", "write problems as JSONL; no two are the same");
  make_app->add_option("NAME", options->generator, "a generator of 'minite tasks list'")->required();
  make_app->add_option("-n,--count", options->count, "how many problems")->required()->check(not_negative);
  make_app->add_option("--seed", options->seed, "decides the order of all possible problems (default 0)")
      ->check(not_negative);
  make_app
      ->add_option("--offset", options->offset,
                   "skip this many: with one seed, [0, N) and [N, N+M) are disjoint, to train and hold out")
      ->check(not_negative);
  make_app->add_option("-o,--output", options->output, "the .jsonl file")->required();
  make_app->add_option("--set", options->set, "option=value of the generator; repeat or list several");
  make_app->add_flag("--json", options->json, "a JSON summary on stdout");
  return [options, list] {
    if (!list->parsed()) return make(*options);
    return options->json ? list_json() : list_text();
  };
}

}  // namespace minite::cli
