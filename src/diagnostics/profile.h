#pragma once
// Where the time of a run goes: spans as a Chrome trace, which Perfetto and chrome://tracing open, and a
// table of kernels.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace.h"

namespace minite::diagnostics {

/// A finished span; times in ns from the start of the recording.
struct TraceEvent {
  SpanKind kind = SpanKind::phase;
  std::string_view name, kernel;
  std::string shape;
  int64_t begin = 0, end = 0;
  int depth = 0;       ///< spans around it
  int64_t phase = -1;  ///< index of the event that is the innermost phase around it; -1: none
};

/// Keeps every span of the thread that makes it. An event takes about 150 bytes.
class TraceRecorder : public Trace {
 public:
  using Clock = int64_t (*)();  ///< ns, never falling
  explicit TraceRecorder(Clock clock = steady_ns) : clock_(clock), start_(clock()) {}

  void begin(SpanKind kind, std::string_view name, std::string shape, std::string_view kernel) override;
  void end() override;
  /// Ends the recording, and spans that an error left open.
  void finish();

  /// In the order in which they began.
  [[nodiscard]] const std::vector<TraceEvent>& events() const { return events_; }
  /// ns from start to finish().
  [[nodiscard]] int64_t total() const { return total_; }

  static int64_t steady_ns();

 private:
  Clock clock_;
  int64_t start_;
  int64_t total_ = 0;
  std::vector<TraceEvent> events_;
  std::vector<size_t> open_;
};

/// Calls of one kernel. `kernel` is empty where the backend does not name it.
struct KernelRow {
  std::string_view name, kernel;
  SpanKind kind = SpanKind::compute;
  int64_t calls = 0, ns = 0;
};
/// Spans of one name, and what they spend in no other phase within them: ns in ops, and `gap` in none.
struct PhaseRow {
  std::string_view name;
  int64_t calls = 0, ns = 0;
  int64_t compute = 0, preparation = 0, gap = 0;
};
/// compute + preparation + gap = total, exactly; so do the parts of all phases together, with those of ops
/// outside of any phase in a row named "(outside)".
struct ProfileTable {
  int64_t total = 0, compute = 0, preparation = 0, gap = 0;  ///< ns
  std::vector<KernelRow> kernels;                            ///< longest first
  std::vector<PhaseRow> phases;                              ///< in order of their first span
};
/// Needs finish().
[[nodiscard]] ProfileTable profile_table(const TraceRecorder& recorder);

/// Writes the trace, JSON Object Format: complete events ("ph": "X") of pid 1, tid 1 for the main thread; a
/// device stream would be another tid. "cat" is phase, compute or preparation; times in us. Atomic. Error:
/// io.
void write_trace(const std::filesystem::path& file, const TraceRecorder& recorder);

}  // namespace minite::diagnostics
