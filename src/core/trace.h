#pragma once
// Who is told when spans of time begin and end. Without one, a span costs the test of a pointer.
#include <cstdint>
#include <string>
#include <string_view>

namespace minite {

/// What a span is.
enum class SpanKind : uint8_t {
  phase,        ///< a step or a part of one: it holds others
  compute,      ///< an op: products, attention, norms, elementwise, optimizer
  preparation,  ///< an op: quantization, permutation, copies
};

/// Receives spans of one thread; they nest.
class Trace {
 public:
  virtual ~Trace() = default;
  /// `name` is a literal or outlives the trace. `shape` and `kernel` are of ops.
  virtual void begin(SpanKind kind, std::string_view name, std::string shape, std::string_view kernel) = 0;
  virtual void end() = 0;
};

/// A span of its own life; of nothing when `trace` is nullptr.
class Span {
 public:
  Span(Trace* trace, std::string_view name) : trace_(trace) {
    if (trace_ != nullptr) trace_->begin(SpanKind::phase, name, {}, {});
  }
  ~Span() {
    if (trace_ != nullptr) trace_->end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  Trace* trace_;
};

}  // namespace minite
