// minite report RUN... -o FILE.html, minite report GAP.json
#include "diagnostics/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/output.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "diagnostics/compare.h"
#include "diagnostics/gap_page.h"
#include "io/json_file.h"

namespace minite::cli {
namespace {

struct ReportArgs {
  std::vector<std::string> runs;
  std::string output;
  ReportStyle style = ReportStyle::text;
};

/// The runs of a page, and what could not be one.
struct Runs {
  std::vector<diagnostics::RunData> read;
  std::vector<diagnostics::Unreadable> unreadable;
  std::vector<std::string> notes;
};

/// One run must be readable; of several those that are not are named, unless none is left.
Runs read_runs(const std::vector<std::string>& paths) {
  Runs runs;
  for (const std::string& path : paths) {
    try {
      runs.read.push_back(diagnostics::read_run(path));
    } catch (const Error& error) {
      if (paths.size() == 1) throw;
      runs.unreadable.push_back({path, error.what()});
      runs.notes.push_back(fmt::format("left out: {}", error.what()));
      continue;
    }
    for (const auto& note : runs.read.back().notes)
      runs.notes.push_back(fmt::format("{}: {}", paths.size() == 1 ? runs.read.back().name : path, note));
  }
  if (runs.read.empty())
    fail(ErrorCode::corrupt_data, "none of the {} runs can be read: {}", paths.size(),
         runs.unreadable.front().reason);
  return runs;
}

/// The same folder given twice is one run.
std::vector<std::string> without_repetitions(const std::vector<std::string>& paths) {
  std::vector<std::string> kept;
  std::set<std::filesystem::path> seen;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto place = std::filesystem::weakly_canonical(path, error);
    if (error || seen.insert(place).second) kept.push_back(path);
  }
  return kept;
}

int finish(const ReportArgs& args, const std::string& file, const std::string& page,
           const std::vector<std::string>& notes) {
  write_file_atomically(file, page);
  if (args.style == ReportStyle::json) {
    print_json({{"file", file}, {"bytes", page.size()}, {"runs", args.runs}, {"notes", notes}});
    return kOk;
  }
  for (const auto& note : notes) std::fprintf(stderr, "minite report: %s\n", note.c_str());
  print(file + "\n");
  return kOk;
}

/// A page about one JSON file of `minite gap`.
int report_gap(const ReportArgs& args, const std::string& path) {
  const std::string file =
      args.output.empty() ? std::filesystem::path(path).replace_extension(".html").string() : args.output;
  return finish(args, file, diagnostics::render_gap(io::read_json_file(path), path), {});
}

int report(const ReportArgs& args) {
  const std::vector<std::string> paths = without_repetitions(args.runs);
  const auto is_file = [](const std::string& path) { return std::filesystem::is_regular_file(path); };
  if (std::ranges::any_of(paths, is_file)) {
    require(paths.size() == 1,
            "a result of `minite gap` has a page of its own; name one file, or run folders");
    return report_gap(args, paths.front());
  }
  require(paths.size() <= diagnostics::kMostRuns, "a page compares at most {} runs, got {}; name fewer",
          diagnostics::kMostRuns, paths.size());
  const bool one = paths.size() == 1;
  require(one || !args.output.empty(), "say where the page about {} runs goes: -o FILE.html", paths.size());
  const Runs runs = read_runs(paths);
  const std::string page = one ? diagnostics::render_report(runs.read.front())
                               : diagnostics::render_comparison(runs.read, runs.unreadable);
  const std::string file =
      args.output.empty() ? (std::filesystem::path(paths.front()) / "report.html").string() : args.output;
  return finish(args, file, page, runs.notes);
}

}  // namespace

std::function<int()> add_report(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  app.add_option(
         "runs", args->runs,
         "Run folders; several make one page that compares them, at most 12. Or the JSON of `minite gap`")
      ->required();
  app.add_option(
      "-o,--output", args->output,
      "The page to write (default, for one run: report.html in its folder; for a gap: beside its JSON)");
  add_json_flag(app, args->style);
  return [args] { return report(*args); };
}

}  // namespace minite::cli
