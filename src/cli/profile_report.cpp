#include "cli/profile_report.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

using diagnostics::KernelRow;
using diagnostics::PhaseRow;

double ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }
double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
std::string percent(int64_t part, int64_t whole) { return fixed_text(100.0 * share(part, whole), 1); }
std::string_view part_name(SpanKind kind) { return kind == SpanKind::compute ? "compute" : "preparation"; }

}  // namespace

ProfileSession::ProfileSession(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  const std::filesystem::path folder = std::filesystem::absolute(file_).parent_path();
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::not_found, "{}: there is no folder {}; make it first", file_, folder.string());
  recorder_.emplace();
}

void ProfileSession::finish() {
  if (!recorder_) return;
  recorder_->finish();
  table_ = diagnostics::profile_table(*recorder_);
  diagnostics::write_trace(file_, *recorder_);
}

std::string ProfileSession::text() const {
  if (!recorder_) return {};
  const int64_t total = table_.total;
  std::string out = fmt::format("{:.1f} ms: compute {} %, preparation {} %, gaps {} %\n\n", ms(total),
                                percent(table_.compute, total), percent(table_.preparation, total),
                                percent(table_.gap, total));
  Table phases({"phase", "calls", "ms", "share %", "own compute ms", "own preparation ms", "own gaps ms"});
  for (const PhaseRow& r : table_.phases) {
    phases.add({std::string(r.name), fmt::format("{}", r.calls), fixed_text(ms(r.ns)), percent(r.ns, total),
                fixed_text(ms(r.compute)), fixed_text(ms(r.preparation)), fixed_text(ms(r.gap))});
  }
  Table kernels({"op", "kernel", "part", "calls", "ms", "share %"});
  for (const KernelRow& r : table_.kernels) {
    kernels.add({std::string(r.name), r.kernel.empty() ? "-" : std::string(r.kernel),
                 std::string(part_name(r.kind)), fmt::format("{}", r.calls), fixed_text(ms(r.ns)),
                 percent(r.ns, total)});
  }
  return out + phases.to_text() + "\n" + kernels.to_text() + fmt::format("\ntrace  {}\n", file_);
}

nlohmann::ordered_json ProfileSession::json() const {
  if (!recorder_) return nullptr;
  nlohmann::ordered_json out = {{"trace", file_},
                                {"total_ms", ms(table_.total)},
                                {"compute_ms", ms(table_.compute)},
                                {"preparation_ms", ms(table_.preparation)},
                                {"gap_ms", ms(table_.gap)},
                                {"phases", nlohmann::ordered_json::array()},
                                {"kernels", nlohmann::ordered_json::array()}};
  for (const PhaseRow& r : table_.phases) {
    out["phases"].push_back({{"phase", r.name},
                             {"calls", r.calls},
                             {"ms", ms(r.ns)},
                             {"share", share(r.ns, table_.total)},
                             {"own_compute_ms", ms(r.compute)},
                             {"own_preparation_ms", ms(r.preparation)},
                             {"own_gap_ms", ms(r.gap)}});
  }
  for (const KernelRow& r : table_.kernels) {
    out["kernels"].push_back({{"op", r.name},
                              {"kernel", r.kernel},
                              {"part", part_name(r.kind)},
                              {"calls", r.calls},
                              {"ms", ms(r.ns)},
                              {"share", share(r.ns, table_.total)}});
  }
  return out;
}

}  // namespace minite::cli
