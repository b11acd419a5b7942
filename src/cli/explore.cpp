// minite explore [RUN...] [--tokens FILE] -o FILE.html
#include "diagnostics/explore.h"

#include <memory>

#include "cli/output.h"
#include "cli/recipe_json.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "io/json_file.h"
#include "recipes/describe.h"

namespace minite::cli {
namespace {

struct ExploreArgs {
  std::vector<std::string> runs;
  std::string tokens, output;
  ReportStyle style = ReportStyle::text;
};

int explore(const ExploreArgs& args) {
  diagnostics::ExploreData data;
  for (const RecipeSpec& recipe : recipes()) data.recipes.push_back(to_json(describe(recipe)));
  for (const std::string& run : args.runs) data.runs.push_back(diagnostics::read_run(run));
  if (!args.tokens.empty()) data.tokens = io::read_json_file(args.tokens);
  const std::string page = diagnostics::render_explore(data);
  write_file_atomically(args.output, page);
  if (args.style == ReportStyle::json) {
    print_json({{"file", args.output},
                {"bytes", page.size()},
                {"runs", args.runs},
                {"recipes", data.recipes.size()}});
    return kOk;
  }
  print(args.output + "\n");
  return kOk;
}

}  // namespace

std::function<int()> add_explore(CLI::App& app) {
  auto args = std::make_shared<ExploreArgs>();
  app.add_option("runs", args->runs, "Run folders for the figure of training dynamics");
  app.add_option("--tokens", args->tokens, "File of minite gap --tokens-json, for the direction figure");
  app.add_option("-o,--output", args->output, "The page to write")->required();
  add_json_flag(app, args->style);
  return [args] { return explore(*args); };
}

}  // namespace minite::cli
