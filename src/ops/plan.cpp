#include "ops/plan.h"

#include "core/fail.h"

namespace minite {

Policy Policy::parse(std::string_view text) {
  if (text == "fastest") return {Kind::fastest, {}};
  if (text == "batch_invariant") return {Kind::batch_invariant, {}};
  if (text.starts_with("exact(") && text.ends_with(")") && text.size() > 7) {
    return {Kind::exact, std::string(text.substr(6, text.size() - 7))};
  }
  fail(ErrorCode::invalid_argument, "unknown policy '{}'; use fastest, batch_invariant or exact(KERNEL)",
       text);
}

std::string to_string(const Policy& policy) {
  switch (policy.kind) {
    case Policy::Kind::fastest:
      return "fastest";
    case Policy::Kind::batch_invariant:
      return "batch_invariant";
    case Policy::Kind::exact:
      return fmt::format("exact({})", policy.kernel);
  }
  return {};
}

std::string to_string(const GemmPlan& plan) {
  const GemmProblem& p = plan.problem;
  return fmt::format(
      "{} {}: {} x {} -> {}, N={} K={}, {}, {}{}", plan.table->name, plan.support.kernel, format(p.a).name,
      format(p.b).name, dtype_name(p.y), p.n, p.k, plan.support.order,
      plan.support.row_invariant ? "row invariant" : "depends on the batch",
      p.epilogue == Epilogue::minite ? "" : fmt::format(", epilogue {}", to_string(p.epilogue)));
}

GemmPlan plan_gemm(const OpTable& table, const GemmProblem& problem, const Policy& policy,
                   std::string_view who) {
  GemmPlan plan{problem, &table, table.supports_gemm(problem)};
  if (policy.kind == Policy::Kind::exact && plan.support.kernel != policy.kernel) {
    plan.problem.order = SumOrder::canonical;
    plan.support = table.supports_gemm(plan.problem);
  }
  if (!plan.support.ok)
    fail(ErrorCode::unsupported, "{}: backend {}: {}", who, table.name, plan.support.reason);
  if (policy.kind == Policy::Kind::batch_invariant && !plan.support.row_invariant) {
    fail(ErrorCode::unsupported,
         "{}: kernel {} cannot promise batch invariance; use --sampler-policy fastest", who,
         plan.support.kernel);
  }
  if (policy.kind == Policy::Kind::exact && policy.kernel != plan.support.kernel) {
    fail(ErrorCode::unsupported, "{}: kernel '{}' was asked for, but backend {} runs {} here", who,
         policy.kernel, table.name, plan.support.kernel);
  }
  return plan;
}

}  // namespace minite
