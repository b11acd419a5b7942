#pragma once
#include "backends/op_table.h"

namespace minite::ref {
/// The reference backend: every op, every shape, one thread.
const OpTable& table();
}  // namespace minite::ref
