// Mixture of experts: arguments checked, then run. Products by group are one plan, run group after group.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/check.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

void check_groups(std::string_view op, const Groups& groups, int64_t rows) {
  require(!groups.offset.empty() && groups.offset.front() == 0 && groups.total() == rows,
          "{}: groups must cover the {} packed rows from 0", op, rows);
  for (int64_t g = 0; g < groups.count(); ++g) {
    require(groups.rows(g) >= 0, "{}: group {} begins at row {} and ends at row {}", op, g, groups.begin(g),
            groups.begin(g + 1));
  }
}

/// R rows of `packed` belong to T tokens; returns R / T.
int64_t check_slots(std::string_view op, int64_t packed, int64_t tokens) {
  const bool whole = tokens == 0 ? packed == 0 : packed % tokens == 0;
  require(whole, "{}: {} packed rows are not a whole number for each of {} tokens", op, packed, tokens);
  return tokens == 0 ? 0 : packed / tokens;
}

/// One product of a group: a plan for the largest depth serves every depth below.
void check_product(const GemmPlan& plan, const GemmArgs& args) {
  const GemmProblem& p = plan.problem;
  require(args.a.depth() == args.b.depth() && args.a.depth() <= p.k,
          "group_qgemm: a has K={} and b K={}, planned for K={} at most", args.a.depth(), args.b.depth(),
          p.k);
  require(args.b.rows() == p.n, "group_qgemm: b has {} rows, planned for N={}", args.b.rows(), p.n);
  require(args.a.format() == p.a && args.b.format() == p.b, "group_qgemm: {} x {}, planned for {} x {}",
          format(args.a.format()).name, format(args.b.format()).name, format(p.a).name, format(p.b).name);
}

Operand slice(const Operand& x, int64_t begin, int64_t rows) {
  return x.quantized() ? Operand::of(x.q.slice_rows(begin, rows))
                       : Operand::of(x.dense.slice_rows(begin, rows));
}

/// A token's replayed experts are all -1, or different and in range.
void check_replay(std::span<const int32_t> replay, int64_t top_k, int64_t experts) {
  for (size_t begin = 0; begin < replay.size(); begin += static_cast<size_t>(top_k)) {
    const auto slots = replay.subspan(begin, static_cast<size_t>(top_k));
    const std::string fault = replay_fault(slots, experts);
    if (fault.empty()) continue;
    fail(ErrorCode::invalid_argument, "route: replay of token {} is [{}]: {}",
         begin / static_cast<size_t>(top_k), fmt::join(slots, ", "), fault);
  }
}

/// Ids in a device's memory are not looked at.
void check_permute(const Context& ctx, std::string_view op, const PermuteArgs& args) {
  check_shape(op, "y", args.y, args.y.rows, args.x.cols, args.x.dtype);
  (void)check_slots(op, args.y.rows, args.x.rows);
  check_count(op, "slot_of", args.slot_of.size(), args.y.rows);
  if (ctx.table->memory == nullptr) check_ids(op, "slot_of", args.slot_of, args.y.rows);
}

}  // namespace

std::string replay_fault(std::span<const int32_t> slots, int64_t experts) {
  const auto absent = std::count(slots.begin(), slots.end(), -1);
  if (absent == static_cast<std::ptrdiff_t>(slots.size())) return {};
  if (absent > 0) return "some slots are -1 and some are not; -1 means that the whole row was not recorded";
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] < 0 || slots[i] >= experts)
      return fmt::format("expert {} of slot {} is outside [0, {})", slots[i], i, experts);
    if (std::count(slots.begin(), slots.end(), slots[i]) > 1)
      return fmt::format("expert {} stands twice", slots[i]);
  }
  return {};
}

void route(const Context& ctx, const RouteArgs& args) {
  const int64_t t = args.logits.rows, experts = args.logits.cols;
  const DType dtype = accumulator(args.logits.dtype);
  check_shape("route", "logits", args.logits, t, experts, dtype);
  require(args.top_k >= 1 && args.top_k <= experts, "route: top_k={} must be between 1 and {} experts",
          args.top_k, experts);
  check_shape("route", "prob", args.prob, t, experts, dtype);
  check_shape("route", "weight", args.weight, t, args.top_k, dtype);
  check_count("route", "expert", args.expert.size(), t * args.top_k);
  if (!args.live.empty()) check_count("route", "live", args.live.size(), t * args.top_k);
  if (!args.replay.empty()) {
    check_count("route", "replay", args.replay.size(), t * args.top_k);
    check_replay(args.replay, args.top_k, experts);
  }
  ctx.table->route(args, ctx.exec());
}

void route_backward(const Context& ctx, const RouteBackwardArgs& args) {
  const int64_t t = args.prob.rows, experts = args.prob.cols, k = args.weight.cols;
  const DType dtype = accumulator(args.prob.dtype);
  check_shape("route_backward", "prob", args.prob, t, experts, dtype);
  check_shape("route_backward", "weight", args.weight, t, k, dtype);
  check_shape("route_backward", "dweight", args.dweight, t, k, dtype);
  check_shape("route_backward", "dlogits", args.dlogits, t, experts, dtype);
  check_count("route_backward", "expert", args.expert.size(), t * k);
  check_ids("route_backward", "expert", args.expert, experts);
  check_count("route_backward", "offset", args.groups.offset.size(), experts + 1);
  ctx.table->route_backward(args, ctx.exec());
}

double router_balance(const Context& ctx, const TensorView& prob, const Groups& groups) {
  check_shape("router_balance", "prob", prob, prob.rows, prob.cols, accumulator(prob.dtype));
  check_count("router_balance", "offset", groups.offset.size(), prob.cols + 1);
  require(prob.rows > 0, "router_balance: no tokens");
  double out = 0;
  ctx.table->router_balance({prob, groups, &out}, ctx.exec());
  return out;
}

void dispatch(const Context& ctx, const DispatchArgs& args) {
  require(args.offset.size() >= 2, "dispatch: offset has {} entries, needs one more than experts",
          args.offset.size());
  require(args.expert.size() <= static_cast<size_t>(std::numeric_limits<int32_t>::max()),
          "dispatch: {} slots are more than an index of 32 bits holds", args.expert.size());
  check_ids("dispatch", "expert", args.expert, static_cast<int64_t>(args.offset.size()) - 1);
  const auto slots = static_cast<int64_t>(args.expert.size());
  check_count("dispatch", "row_of", args.row_of.size(), slots);
  check_count("dispatch", "slot_of", args.slot_of.size(), slots);
  ctx.table->dispatch(args, ctx.exec());
}

void permute(const Context& ctx, const PermuteArgs& args) {
  check_permute(ctx, "permute", args);
  if (args.y.size() > 0) ctx.table->permute(args, ctx.exec());
}

void permute_quantize(const Context& ctx, const PermuteQuantizeArgs& args) {
  check_permute(ctx, "permute_quantize", args.permute);
  check_codes("permute_quantize", args.out, args.permute.y);
  if (args.permute.y.size() > 0) ctx.table->permute_quantize(args, ctx.exec());
}

void combine(const Context& ctx, const CombineArgs& args) {
  check_shape("combine", "x", args.x, args.x.rows, args.y.cols, args.y.dtype);
  const int64_t k = check_slots("combine", args.x.rows, args.y.rows);
  check_optional("combine", "weight", args.weight, args.y.rows, k, accumulator(args.y.dtype));
  check_count("combine", "row_of", args.row_of.size(), args.x.rows);
  check_ids("combine", "row_of", args.row_of, args.x.rows);
  if (args.y.size() > 0) ctx.table->combine(args, ctx.exec());
}

void combine_backward(const Context& ctx, const CombineBackwardArgs& args) {
  const int64_t rows = args.x.rows, cols = args.x.cols;
  const int64_t k = check_slots("combine_backward", rows, args.dy.rows);
  check_shape("combine_backward", "dy", args.dy, args.dy.rows, cols, args.x.dtype);
  check_shape("combine_backward", "dx", args.dx, rows, cols, args.x.dtype);
  check_shape("combine_backward", "weight", args.weight, args.dy.rows, k, accumulator(args.x.dtype));
  check_shape("combine_backward", "dweight", args.dweight, args.dy.rows, k, accumulator(args.x.dtype));
  check_count("combine_backward", "slot_of", args.slot_of.size(), rows);
  check_ids("combine_backward", "slot_of", args.slot_of, rows);
  if (rows > 0) ctx.table->combine_backward(args, ctx.exec());
}

void group_quantize(const Context& ctx, const GroupQuantizeArgs& args) {
  check_groups("group_quantize", args.groups, args.x.rows);
  check_count("group_quantize", "out", args.out.size(), args.groups.count());
  for (int64_t g = 0; g < args.groups.count(); ++g) {
    const int64_t rows = args.groups.rows(g);
    if (rows == 0) continue;
    quantize(ctx, {args.x.slice_rows(args.groups.begin(g), rows),
                   args.along,
                   args.out[static_cast<size_t>(g)],
                   {args.noise.seed, args.noise.stream + static_cast<uint64_t>(g)}});
  }
}

void group_gemm(const Context& ctx, const GemmPlan& plan, const GroupGemmArgs& args) {
  require(plan.problem.epilogue == Epilogue::minite, "group_qgemm: epilogue {} is for single products",
          to_string(plan.problem.epilogue));
  check_groups("group_qgemm", args.groups, args.a.rows());
  check_count("group_qgemm", "b", args.b.size(), args.groups.count());
  require(args.a.along == Orientation::rows, "group_qgemm: a must be packed along rows");
  check_shape("group_qgemm", "y", args.y, args.a.rows(), plan.problem.n, plan.problem.y);
  check_scratch("group_qgemm", ctx.scratch, plan.scratch(args.y.rows, ctx.pool->threads()));
  std::vector<GemmArgs> products;
  for (int64_t g = 0; g < args.groups.count(); ++g) {
    const int64_t begin = args.groups.begin(g), rows = args.groups.rows(g);
    if (rows == 0) continue;
    products.push_back({slice(args.a, begin, rows),
                        args.b[static_cast<size_t>(g)],
                        {},
                        args.y.slice_rows(begin, rows),
                        Output::overwrite,
                        Epilogue::minite,
                        plan.problem.order});
    check_product(plan, products.back());
  }
  plan.table->gemms(products, ctx.exec());
}

void group_wgrad(const Context& ctx, const GemmPlan& plan, const GroupWgradArgs& args) {
  const auto groups = static_cast<int64_t>(args.a.size());
  check_count("group_wgrad", "b", args.b.size(), groups);
  require(groups > 0 && args.y.rows % groups == 0, "group_wgrad: y has {} rows for {} groups", args.y.rows,
          groups);
  const int64_t n = args.y.rows / groups;
  check_shape("group_wgrad", "y", args.y, args.y.rows, plan.problem.n, plan.problem.y);
  check_scratch("group_wgrad", ctx.scratch, plan.scratch(n, ctx.pool->threads()));
  std::vector<GemmArgs> products;
  for (int64_t g = 0; g < groups; ++g) {
    const Operand &a = args.a[static_cast<size_t>(g)], &b = args.b[static_cast<size_t>(g)];
    if (a.depth() == 0) continue;
    require(a.rows() == n, "group_wgrad: a of group {} has {} rows, expected {}", g, a.rows(), n);
    products.push_back(
        {a, b, {}, args.y.slice_rows(g * n, n), Output::accumulate, Epilogue::minite, plan.problem.order});
    check_product(plan, products.back());
  }
  plan.table->gemms(products, ctx.exec());
}

}  // namespace minite::ops
