#pragma once
// The one ambient value: where ops run and who listens. Passed explicitly, first, everywhere.
#include <span>

#include "backends/op_table.h"
#include "core/probe.h"

namespace minite {

struct Context {
  const OpTable* table = nullptr;
  ThreadPool* pool = nullptr;
  Probe* probe = nullptr;        ///< null: nobody listens
  std::span<std::byte> scratch;  ///< large enough for every plan that runs in this context
  uint64_t noise = 0;            ///< seed of stochastic rounding: a new one for every backward pass
  void* stream = nullptr;        ///< of a device backend

  [[nodiscard]] Exec exec() const { return {pool, scratch, stream}; }
  void observe(int layer, std::string_view module, const TensorView& value) const {
    if (probe != nullptr) probe->value({layer, module}, value);
  }
};

}  // namespace minite
