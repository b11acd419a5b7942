#include "cli/bench/ours.h"

#include <fmt/format.h>

#include "ops/plan.h"

namespace minite::cli {
namespace {

constexpr QuantSpec kNvfp4{FormatId::nvfp4, OuterScale::row};
constexpr double kPackedBytes = 0.5 + 1.0 / 16;  ///< an NVFP4 element

}  // namespace

Ours::Ours(const Spec& spec, const OpTable& table, int threads)
    : spec_(spec), table_(table), pool_(threads), x_(activations(spec.m, spec.k)) {
  place(spec.m, codes_x_, x_q_);
  const Exec exec{&pool_, {}};
  table.quantize({x_.view, Orientation::rows, x_q_}, exec);
  if (spec.job == Job::quantize) return;
  w_.emplace(weights(spec.n, spec.k));
  place(spec.n, codes_w_, w_q_);
  table.quantize({w_->view, Orientation::rows, w_q_}, exec);
  y_ = Buffer(spec.m * spec.n * 2);
  args_.a = spec.job == Job::w4a4 ? Operand::of(x_q_) : Operand::of(x_.view);
  args_.b = Operand::of(w_q_);
  args_.y = TensorView(y_.data(), DType::bf16, spec.m, spec.n);
  const GemmPlan plan =
      plan_gemm(table, {args_.a.format(), args_.b.format(), DType::bf16, spec.n, spec.k}, {}, spec.name);
  scratch_ = Buffer(plan.scratch(spec.m, threads));
  kernel_ = plan.support.kernel;
}

void Ours::run() {
  if (spec_.job == Job::quantize) return table_.quantize({x_.view, Orientation::rows, x_q_}, {&pool_, {}});
  table_.gemm(args_, {&pool_, {scratch_.data(), static_cast<size_t>(scratch_.size())}});
}

std::vector<float> Ours::product() const {
  return spec_.job == Job::quantize ? std::vector<float>{} : widened(args_.y);
}

Problem Ours::problem() const { return {x_.view, w_ ? w_->view : TensorView{}, pool_.threads()}; }

std::string Ours::description() const {
  if (spec_.job == Job::quantize)
    return fmt::format("{}x{} bf16, {} thread(s)", spec_.m, spec_.k, pool_.threads());
  return fmt::format("M={} N={} K={}, {} {}, {} thread(s)", spec_.m, spec_.n, spec_.k, table_.name, kernel_,
                     pool_.threads());
}

double Ours::work() const {
  const auto m = static_cast<double>(spec_.m), n = static_cast<double>(spec_.n),
             k = static_cast<double>(spec_.k);
  if (spec_.job == Job::quantize) return 1e-9 * m * k;
  return spec_.job == Job::gemv ? 1e-9 * n * k * kPackedBytes : 2e-9 * m * n * k;
}

double Ours::bytes() const {
  if (spec_.job == Job::quantize) return work() * (2 + kPackedBytes);
  return spec_.job == Job::gemv ? work() : 0;
}

void Ours::place(int64_t rows, Buffer& memory, QTensor& q) const {
  memory = Buffer(QTensor::bytes(kNvfp4, rows, spec_.k));
  q = QTensor::place(kNvfp4, rows, spec_.k, memory.data());
}

}  // namespace minite::cli
