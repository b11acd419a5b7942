#pragma once
// The tables of the instruction sets. isa_table.cpp defines one in each library of a full set. The vnni sets
// are the set below them with other products: products_table.cpp defines set_products in their libraries, the
// tables are put together in table.cpp.
#include "backends/op_table.h"

namespace minite::simd {
namespace avx2 {
const OpTable& table();
}
namespace avxvnni {
void set_products(OpTable& table);
const OpTable& table();
}  // namespace avxvnni
namespace avx512 {
const OpTable& table();
}
namespace avx512vnni {
void set_products(OpTable& table);
const OpTable& table();
}  // namespace avx512vnni
}  // namespace minite::simd
