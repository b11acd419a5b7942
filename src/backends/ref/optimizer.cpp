#include "backends/ref/optimizer.h"

#include <algorithm>
#include <cmath>

#include "backends/ref/numeric.h"

namespace minite::ref {

BiasCorrection::BiasCorrection(const AdamWArgs& args)
    : c1(static_cast<float>(1.0 - std::pow(static_cast<double>(args.beta1), static_cast<double>(args.step)))),
      c2(static_cast<float>(1.0 -
                            std::pow(static_cast<double>(args.beta2), static_cast<double>(args.step)))) {}

void adamw(const AdamWArgs& args) {
  const BiasCorrection bias(args);
  for (int64_t i = 0; i < args.master.size(); ++i) {
    float& master = args.master.as<float>()[i];
    float& m = args.m.as<float>()[i];
    float& v = args.v.as<float>()[i];
    const float g = args.grad.as<const float>()[i] * args.grad_scale;
    m = math::fma(args.beta1, m, (1.0f - args.beta1) * g);
    v = math::fma(args.beta2, v, (1.0f - args.beta2) * g * g);
    const float update = m / bias.c1 / (std::sqrt(v / bias.c2) + args.eps);
    master = math::fma(-args.lr, math::fma(args.weight_decay, master, update), master);
    if (args.weight.dtype == DType::bf16) {
      args.weight.as<bf16>()[i] = bf16(master);
    } else {
      args.weight.as<float>()[i] = master;
    }
  }
}

double sum_squares_chunk(const float* x, int64_t n) {
  return lane_sum<double>(n, [&](double acc, int64_t i) {
    const double value = static_cast<double>(x[i]);
    return acc + value * value;
  });
}

void sum_squares(const SumSquaresArgs& args) {
  const auto* x = args.x.as<const float>();
  double sum = 0;
  for (int64_t begin = 0; begin < args.x.size(); begin += kSumChunk) {
    sum += sum_squares_chunk(x + begin, std::min(kSumChunk, args.x.size() - begin));
  }
  *args.out = sum;
}

}  // namespace minite::ref
