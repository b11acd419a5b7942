// minite compare A B: where two captures part, and why.
#include <memory>

#include "cli/compare_document.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "diagnostics/align_page.h"

namespace minite::cli {
namespace {

struct CompareArgs {
  std::string a, b, html;
  bool all = false;
  ReportStyle style = ReportStyle::text;
};

int compare(const CompareArgs& args) {
  const diagnostics::Capture a(args.a), b(args.b);
  const diagnostics::Comparison comparison = diagnostics::compare_captures(a, b);
  if (!args.html.empty()) write_file_atomically(args.html, diagnostics::render_comparison(comparison));
  if (args.style == ReportStyle::json) {
    print_json(compare_document(comparison));
  } else {
    print(compare_text(comparison, args.all));
  }
  return comparison.same() ? kOk : kCheckFailed;
}

}  // namespace

std::function<int()> add_compare(CLI::App& app) {
  auto args = std::make_shared<CompareArgs>();
  app.add_option("A", args->a, "a capture")->required();
  app.add_option("B", args->b, "another capture of the same model and tokens")->required();
  app.add_flag("--all", args->all, "list the points that are equal, too");
  app.add_option("--html", args->html, "also write a page of figures");
  add_json_flag(app, args->style);
  return [args] { return compare(*args); };
}

}  // namespace minite::cli
