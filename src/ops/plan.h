#pragma once
// Problem -> Plan -> run: which kernel computes a product is decided once, when a module is built.
#include <string>
#include <string_view>

#include "backends/op_table.h"

namespace minite {

/// What a plan must promise.
struct Policy {
  enum class Kind : uint8_t {
    fastest,          ///< whatever is fastest
    batch_invariant,  ///< a row's bits depend on that row alone
    exact,            ///< the kernel of this name, or an error
  };
  Kind kind = Kind::batch_invariant;
  std::string kernel;  ///< for exact

  /// Parses "fastest", "batch_invariant" or "exact(NAME)".
  static Policy parse(std::string_view text);
};
[[nodiscard]] std::string to_string(const Policy& policy);

/// A decided product.
struct GemmPlan {
  GemmProblem problem;
  const OpTable* table = nullptr;
  Support support;

  [[nodiscard]] int64_t scratch(int64_t m, int threads) const {
    return table->gemm_scratch(problem, m, threads);
  }
};
/// "simd/avx512 panel_fma_chain: bf16 x bf16 -> bf16, N=288 K=96, canonical: fma, k ascending, row invariant"
[[nodiscard]] std::string to_string(const GemmPlan& plan);

/// Plans a product for `who` (a module name, used in messages). Throws unsupported when `table` cannot run
/// it or cannot promise what `policy` asks.
[[nodiscard]] GemmPlan plan_gemm(const OpTable& table, const GemmProblem& problem, const Policy& policy,
                                 std::string_view who);

}  // namespace minite
