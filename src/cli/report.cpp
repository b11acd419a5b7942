// minite report RUN... -o FILE.html
#include "diagnostics/report.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/atomic_file.h"

namespace minite::cli {
namespace {

struct ReportArgs {
  std::vector<std::string> runs;
  std::string output;
  ReportStyle style = ReportStyle::text;
};

int report(const ReportArgs& args) {
  std::vector<diagnostics::RunData> runs;
  std::vector<std::string> notes;
  for (const auto& path : args.runs) {
    runs.push_back(diagnostics::read_run(path));
    for (const auto& note : runs.back().notes) notes.push_back(fmt::format("{}: {}", runs.back().name, note));
  }
  const std::string file =
      args.output.empty() ? (std::filesystem::path(args.runs.front()) / "report.html").string() : args.output;
  const std::string page = diagnostics::render_report(runs);
  write_file_atomically(file, page);
  if (args.style == ReportStyle::json) {
    print_json({{"file", file}, {"bytes", page.size()}, {"runs", args.runs}, {"notes", notes}});
    return kOk;
  }
  for (const auto& note : notes) std::fprintf(stderr, "minite report: %s\n", note.c_str());
  print(file + "\n");
  return kOk;
}

}  // namespace

std::function<int()> add_report(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  app.add_option("runs", args->runs, "Run folders; more than one make one page with a part for each")
      ->required();
  app.add_option("-o,--output", args->output,
                 "The page to write (default: report.html in the first run folder)");
  add_json_flag(app, args->style);
  return [args] { return report(*args); };
}

}  // namespace minite::cli
