#include "diagnostics/profile.h"

#include <algorithm>
#include <map>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "io/json_line.h"

namespace minite::diagnostics {
namespace {

constexpr std::string_view kKindNames[] = {"phase", "compute", "preparation"};
constexpr std::string_view kOutside = "(outside)";

std::string_view kind_name(SpanKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

/// ns as us with three decimals, in any locale.
std::string micros(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

std::string event_json(const TraceEvent& e) {
  std::string args;
  if (!e.shape.empty()) args += fmt::format("\"shape\":{}", io::json_text(e.shape));
  if (!e.kernel.empty())
    args += fmt::format("{}\"kernel\":{}", args.empty() ? "" : ",", io::json_text(e.kernel));
  return fmt::format(R"({{"name":{},"cat":"{}","ph":"X","ts":{},"dur":{},"pid":1,"tid":1,"args":{{{}}}}})",
                     io::json_text(e.name), kind_name(e.kind), micros(e.begin), micros(e.end - e.begin),
                     args);
}

/// The row of `name`, made when it is new; rows stay in order of their first call.
PhaseRow& phase_row(std::vector<PhaseRow>& rows, std::string_view name) {
  const auto at = std::ranges::find(rows, name, &PhaseRow::name);
  return at != rows.end() ? *at : rows.emplace_back(PhaseRow{name});
}

}  // namespace

int64_t TraceRecorder::steady_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void TraceRecorder::begin(SpanKind kind, std::string_view name, std::string shape, std::string_view kernel) {
  TraceEvent event{kind, name, kernel, std::move(shape), 0, 0, static_cast<int>(open_.size()), -1};
  for (auto at = open_.rbegin(); at != open_.rend() && event.phase < 0; ++at) {
    if (events_[*at].kind == SpanKind::phase) event.phase = static_cast<int64_t>(*at);
  }
  open_.push_back(events_.size());
  events_.push_back(std::move(event));
  events_.back().begin = clock_() - start_;
}

void TraceRecorder::end() {
  if (open_.empty()) fail(ErrorCode::internal, "profile: a span ends that did not begin");
  events_[open_.back()].end = clock_() - start_;
  open_.pop_back();
}

void TraceRecorder::finish() {
  while (!open_.empty()) end();
  total_ = clock_() - start_;
}

ProfileTable profile_table(const TraceRecorder& recorder) {
  ProfileTable table;
  table.total = recorder.total();
  std::map<std::tuple<std::string_view, std::string_view>, KernelRow> kernels;
  const auto& events = recorder.events();
  // Own time of a phase is its span without the phases and the ops directly within it.
  const auto row_around = [&](const TraceEvent& e) -> PhaseRow& {
    return phase_row(table.phases, e.phase < 0 ? kOutside : events[static_cast<size_t>(e.phase)].name);
  };
  int64_t outermost = 0;
  for (const TraceEvent& e : events) {
    const int64_t ns = e.end - e.begin;
    if (e.depth == 0) outermost += ns;
    if (e.depth > 0) row_around(e).gap -= ns;
    if (e.kind == SpanKind::phase) {
      PhaseRow& row = phase_row(table.phases, e.name);
      ++row.calls, row.ns += ns, row.gap += ns;
      continue;
    }
    PhaseRow& around = row_around(e);
    (e.kind == SpanKind::compute ? around.compute : around.preparation) += ns;
    (e.kind == SpanKind::compute ? table.compute : table.preparation) += ns;
    KernelRow& row = kernels[{e.name, e.kernel}];
    row.name = e.name, row.kernel = e.kernel, row.kind = e.kind;
    ++row.calls, row.ns += ns;
  }
  table.gap = table.total - table.compute - table.preparation;
  PhaseRow& outside = phase_row(table.phases, kOutside);
  outside.gap += table.total - outermost;
  outside.ns = outside.compute + outside.preparation + outside.gap;
  for (auto& [key, row] : kernels) table.kernels.push_back(row);
  std::ranges::stable_sort(table.kernels, [](const auto& a, const auto& b) { return a.ns > b.ns; });
  return table;
}

void write_trace(const std::filesystem::path& file, const TraceRecorder& recorder) {
  std::string text = R"({"displayTimeUnit":"ms","traceEvents":[
{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"minite"}},
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"main thread"}})";
  for (const TraceEvent& event : recorder.events()) text += ",\n" + event_json(event);
  text += "\n]}\n";
  write_file_atomically(file, text);
}

}  // namespace minite::diagnostics
