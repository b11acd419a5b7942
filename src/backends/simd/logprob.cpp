// Log-probabilities, their gradient, and choosing tokens (formulas: backends/ref/logprob.h, choose.h).
#include "backends/ref/logprob.h"

#include "backends/ref/choose.h"
#include "backends/simd/gumbel.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

/// Sums of one row so far.
struct Softmax {
  float m = -__builtin_inff();
  float s = 0;  ///< sum exp(z - m)
  float w = 0;  ///< sum exp(z - m) (z - m)
};

MINITE_INLINE void softmax_tile(Softmax& stats, const float* x, int64_t n, float temperature) {
  alignas(64) float z[ref::kVocabTile + kLanes];
  vf largest(stats.m);
  for_lanes(n, [&](int64_t j, int64_t lanes) {
    const vf scaled = load_n(x + j, lanes) / vf(temperature);
    store(z + j, scaled);
    const vf next = max_or_second(scaled, largest);
    largest = lanes == kLanes ? next : select(first_lanes(lanes), next, largest);
  });
  const float m = fold_max(largest);
  // The first tile has s = w = 0; its distance is -inf and must not meet a 0.
  const float distance = stats.s > 0.0f ? stats.m - m : 0.0f;
  const float c = math::exp(distance);
  vf sum, weighted;
  for_lanes(n, [&](int64_t j, int64_t lanes) {
    const vf t = load(z + j) - vf(m);
    const vf e = math::exp(t);
    const vmask live = first_lanes(lanes);
    sum = select(live, sum + e, sum);
    weighted = select(live, select(vf(0.0f) < e, fma(e, t, weighted), weighted), weighted);
  });
  stats.w = math::fma(c, math::fma(distance, stats.s, stats.w), fold_add(weighted));
  stats.s = math::fma(stats.s, c, fold_add(sum));
  stats.m = m;
}

MINITE_INLINE void logprob_row(const LogprobArgs& args, int64_t r) {
  const float* x = args.logits.row<const float>(r);
  Softmax stats;
  for (int64_t begin = 0; begin < args.logits.cols; begin += ref::kVocabTile) {
    softmax_tile(stats, x + begin, min64(ref::kVocabTile, args.logits.cols - begin), args.temperature);
  }
  const float log_s = math::log(stats.s);
  const float lse = stats.m + log_s;
  args.logp.as<float>()[r] = x[args.target[static_cast<size_t>(r)]] / args.temperature - lse;
  if (!args.entropy.empty()) args.entropy.as<float>()[r] = log_s - stats.w / stats.s;
  if (!args.lse.empty()) args.lse.as<float>()[r] = lse;
}

/// The gradient of one row.
struct RowGrad {
  float temperature, lse, dlogp;
  bool with_entropy;
  float entropy = 0, dentropy = 0;

  /// `one` is 1 at the target and 0 elsewhere.
  [[nodiscard]] MINITE_INLINE vf at(vf x, float one) const {
    const vf log_p = x / vf(temperature) - vf(lse);
    const vf p = math::exp(log_p);
    const vf grad = vf(dlogp) * (vf(one) - p);
    if (!with_entropy) return grad / vf(temperature);
    const vf both = fma(vf(-dentropy), p * (log_p + vf(entropy)), grad);
    return select(vf(0.0f) < p, both, grad) / vf(temperature);
  }
};

template <class T>
MINITE_INLINE void logprob_backward_row(const LogprobBackwardArgs& args, int64_t r) {
  const float* x = args.logits.row<const float>(r);
  T* out = args.dlogits.row<T>(r);
  RowGrad grad{args.temperature, args.lse.as<const float>()[r], args.dlogp.as<const float>()[r],
               !args.dentropy.empty()};
  if (grad.with_entropy) {
    grad.entropy = args.entropy.as<const float>()[r];
    grad.dentropy = args.dentropy.as<const float>()[r];
  }
  const int64_t target = args.target[static_cast<size_t>(r)];
  const vf at_target = grad.at(vf(x[target]), 1.0f);
  for_lanes(args.logits.cols,
            [&](int64_t j, int64_t n) { store_n(out + j, grad.at(load_n(x + j, n), 0.0f), n); });
  store(out + target, at_target, 1);
}

}  // namespace

void logprob(const LogprobArgs& args, const Exec& exec) {
  if (args.logits.dtype != DType::f32) unsupported("logprob", args.logits.dtype);
  for_rows(exec, args.logits.rows, args.logits.cols, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) logprob_row(args, r);
  });
}

void logprob_backward(const LogprobBackwardArgs& args, const Exec& exec) {
  if (args.logits.dtype != DType::f32) unsupported("logprob_backward", args.logits.dtype);
  with_type("logprob_backward", args.dlogits.dtype, [&](auto tag) {
    for_rows(exec, args.logits.rows, args.logits.cols, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) logprob_backward_row<decltype(tag)>(args, r);
    });
  });
}

int64_t choose_scratch(int64_t vocab, int threads) { return threads * ref::choose_scratch(vocab); }

void choose(const ChooseArgs& args, const Exec& exec) {
  const int64_t vocab = args.logits.cols, each = ref::choose_scratch(vocab);
  const bool all = (args.top_k <= 0 || args.top_k >= vocab) && args.top_p >= 1.0f;
  const bool sampled = args.temperature != 0.0f;
  if (sampled && !all && static_cast<int64_t>(exec.scratch.size()) < each * threads_of(exec)) {
    short_scratch("choose", static_cast<int64_t>(exec.scratch.size()) / threads_of(exec), each);
  }
  // The noise of an entry costs about as much as 16 elements of another op.
  const int64_t rows = max64(1, kTaskElements / 16 / vocab);
  for_tasks(exec, ceil_div(args.logits.rows, rows), [&](int64_t task, int thread) {
    for (int64_t r = task * rows; r < min64(args.logits.rows, (task + 1) * rows); ++r) {
      if (sampled && all) {
        args.token[static_cast<size_t>(r)] = gumbel_argmax(args, r);
      } else {
        ref::choose_row(args, r, reinterpret_cast<int32_t*>(exec.scratch.data() + thread * each));
      }
    }
  });
}

}  // namespace minite::simd::MINITE_ISA
