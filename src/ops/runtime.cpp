// The public ops of include/minite/ops.h: a Runtime is a context that owns its threads and scratch.
#include <vector>

#include "backends/registry.h"
#include "core/env.h"
#include "core/fail.h"
#include "core/memory.h"
#include "minite/ops.h"
#include "ops/ops.h"

namespace minite {

struct Runtime::State {
  const OpTable& table;
  ThreadPool pool;
  Buffer scratch;

  State(std::string_view name, int threads)
      : table(minite::backend(name == "auto" ? env_backend() : name)),
        pool(threads > 0 ? threads : env_threads()) {}

  Context context(int64_t scratch_bytes) {
    if (scratch.size() < scratch_bytes) scratch = Buffer(scratch_bytes);
    return {&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}};
  }
};

namespace {
void multiply(Runtime::State& state, const Operand& a, const Operand& b, const TensorView& y,
              Epilogue epilogue = Epilogue::minite) {
  const GemmProblem problem{a.format(), b.format(), y.dtype, b.rows(), a.depth(), epilogue};
  const GemmPlan plan = plan_gemm(state.table, problem, Policy{}, "qgemm");
  const Context ctx = state.context(plan.scratch(a.rows(), state.pool.threads()));
  ops::gemm(ctx, plan, {a, b, {}, y, Output::overwrite, epilogue});
}

void multiply_groups(Runtime::State& state, const Operand& a, std::span<const int32_t> offset,
                     std::span<const QTensor> b, const TensorView& y) {
  require(!b.empty(), "group_qgemm: no groups");
  std::vector<Operand> weights;
  for (const QTensor& w : b) weights.push_back(Operand::of(w));
  const GemmProblem problem{a.format(), weights.front().format(), y.dtype, b.front().rows, a.depth()};
  const GemmPlan plan = plan_gemm(state.table, problem, Policy{}, "group_qgemm");
  const Context ctx = state.context(plan.scratch(a.rows(), state.pool.threads()));
  ops::group_gemm(ctx, plan, {a, {offset}, weights, y});
}

/// The weight of each group of b [E*N,K].
std::vector<QTensor> weights_of(const QTensor& b, std::span<const int32_t> offset) {
  require(offset.size() >= 2, "group_qgemm: no groups");
  const auto groups = static_cast<int64_t>(offset.size()) - 1;
  require(b.rows % groups == 0,
          "group_qgemm: {} rows of packed weights are not a whole number for each of {} groups", b.rows,
          groups);
  require(b.spec.outer != OuterScale::expert,
          "group_qgemm: packed weights of {} have one scale for all groups; give a list of {} tensors",
          to_string(b.spec), groups);
  std::vector<QTensor> all;
  for (int64_t g = 0; g < groups; ++g) all.push_back(b.slice_rows(g * (b.rows / groups), b.rows / groups));
  return all;
}
}  // namespace

Runtime::Runtime(std::string_view backend, int threads) : state_(std::make_unique<State>(backend, threads)) {}
Runtime::~Runtime() = default;
Runtime::Runtime(Runtime&&) noexcept = default;
Runtime& Runtime::operator=(Runtime&&) noexcept = default;
std::string_view Runtime::backend() const { return state_->table.name; }

void quantize(Runtime& runtime, const TensorView& x, const QTensor& out) {
  ops::quantize(runtime.state().context(0), {x, Orientation::rows, out, {}});
}
void quantize_transposed(Runtime& runtime, const TensorView& x, const QTensor& out) {
  ops::quantize(runtime.state().context(0), {x, Orientation::columns, out, {}});
}
void dequantize(Runtime& runtime, const QTensor& q, const TensorView& y) {
  ops::dequantize(runtime.state().context(0), {q, y});
}
void qgemm(Runtime& runtime, const QTensor& a, const QTensor& b, const TensorView& y) {
  multiply(runtime.state(), Operand::of(a), Operand::of(b), y);
}
void qgemm(Runtime& runtime, const QTensor& a, const QTensor& b, const TensorView& y, Epilogue epilogue) {
  multiply(runtime.state(), Operand::of(a), Operand::of(b), y, epilogue);
}
void qgemm(Runtime& runtime, const TensorView& a, const QTensor& b, const TensorView& y) {
  multiply(runtime.state(), Operand::of(a), Operand::of(b), y);
}
void qgemm(Runtime& runtime, const TensorView& a, const TensorView& b, const TensorView& y) {
  multiply(runtime.state(), Operand::of(a), Operand::of(b), y);
}
void group_quantize(Runtime& runtime, const TensorView& x, std::span<const int32_t> offset,
                    std::span<const QTensor> out) {
  ops::group_quantize(runtime.state().context(0), {x, {offset}, Orientation::rows, out, {}});
}
void group_quantize(Runtime& runtime, const TensorView& x, std::span<const int32_t> offset,
                    const QTensor& out) {
  require(out.spec.outer == OuterScale::none || out.spec.outer == OuterScale::row,
          "group_quantize: a scale of {} would span groups; give a list of tensors", to_string(out.spec));
  require(out.rows == x.rows && out.cols == x.cols, "group_quantize: out is {}x{}, x {}x{}", out.rows,
          out.cols, x.rows, x.cols);
  std::vector<QTensor> parts;  // offsets are checked before one is touched
  for (size_t g = 0; g + 1 < offset.size(); ++g)
    parts.push_back(out.slice_rows(offset[g], offset[g + 1] - offset[g]));
  group_quantize(runtime, x, offset, parts);
}
void group_qgemm(Runtime& runtime, const QTensor& a, std::span<const int32_t> offset,
                 std::span<const QTensor> b, const TensorView& y) {
  multiply_groups(runtime.state(), Operand::of(a), offset, b, y);
}
void group_qgemm(Runtime& runtime, const TensorView& a, std::span<const int32_t> offset,
                 std::span<const QTensor> b, const TensorView& y) {
  multiply_groups(runtime.state(), Operand::of(a), offset, b, y);
}
void group_qgemm(Runtime& runtime, const QTensor& a, std::span<const int32_t> offset, const QTensor& b,
                 const TensorView& y) {
  multiply_groups(runtime.state(), Operand::of(a), offset, weights_of(b, offset), y);
}
void group_qgemm(Runtime& runtime, const TensorView& a, std::span<const int32_t> offset, const QTensor& b,
                 const TensorView& y) {
  multiply_groups(runtime.state(), Operand::of(a), offset, weights_of(b, offset), y);
}
std::string describe_quantize(Runtime& runtime, const QuantSpec& spec) {
  spec.validate();
  require(spec.quantized(), "describe_quantize: {} has no codes", to_string(spec));
  const OpTable& table = runtime.state().table;
  const Support support = table.supports_quantize(spec);
  if (!support.ok)
    fail(ErrorCode::unsupported, "describe_quantize: backend {}: {}", table.name, support.reason);
  return fmt::format("{} {}: {}", table.name, support.kernel, to_string(spec));
}
std::string describe_qgemm(Runtime& runtime, FormatId a, FormatId b, DType y, int64_t n, int64_t k) {
  return to_string(plan_gemm(runtime.state().table, {a, b, y, n, k}, Policy{}, "qgemm"));
}

}  // namespace minite
