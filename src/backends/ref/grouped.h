#pragma once
// The ops over groups as one op a group: the specification of what a device does in one launch. A backend of
// the host's memory passes its own op of one group.
#include "backends/op_table.h"

namespace minite::ref {

using Gemm = void (*)(const GemmArgs&, const Exec&);
using Quantize = void (*)(const QuantizeArgs&, const Exec&);

void grouped_gemm(const GroupedGemmArgs& args, const Exec& exec, Gemm gemm);

/// Line n of group g: y[g N + n, :] from the rows of g ascending, one fma chain an element.
void grouped_wgrad_line(const GroupedWgradArgs& args, int64_t g, int64_t n);
void grouped_wgrad(const GroupedWgradArgs& args);

void grouped_quantize(const GroupedQuantizeArgs& args, const Exec& exec, Quantize quantize);

}  // namespace minite::ref
