#pragma once
// A backend that tells a trace about every op and passes it on.
#include "backends/op_table.h"
#include "core/trace.h"

namespace minite {

/// Wraps a backend for the life of the object; the bits are those of `inner`. At most one lives at a time
/// (internal otherwise): an op table has functions, no state. Ops must come from one thread.
class Recording {
 public:
  Recording(const OpTable& inner, Trace& trace);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  [[nodiscard]] const OpTable& table() const { return table_; }

 private:
  OpTable table_;
};

}  // namespace minite
