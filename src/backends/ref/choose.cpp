#include "backends/ref/choose.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/math.h"
#include "core/philox.h"

namespace minite::ref {
namespace {

/// Gumbel noise of four neighbouring vocabulary entries; u has 24 significant bits, so it is exact in FP32.
struct Gumbel4 {
  std::array<float, 4> value;
  Gumbel4(uint64_t seed, uint64_t request, int32_t pos, int64_t group) {
    const auto high = static_cast<uint64_t>(static_cast<uint32_t>(pos)) << 32 | static_cast<uint32_t>(group);
    const auto words = Philox::generate(seed, request, high);
    for (size_t i = 0; i < 4; ++i) {
      const float u = (static_cast<float>(words[i] >> 9) + 0.5f) * 0x1p-23f;
      value[i] = -math::log(-math::log(u));
    }
  }
};

/// Indices of the kept entries, best first; returns how many.
int64_t keep(const ChooseArgs& args, const float* x, int32_t* order) {
  const int64_t vocab = args.logits.cols;
  std::iota(order, order + vocab, 0);
  const auto better = [x](int32_t a, int32_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; };
  const int64_t k = args.top_k > 0 ? std::min(args.top_k, vocab) : vocab;
  std::partial_sort(order, order + k, order + vocab, better);
  if (args.top_p >= 1.0f) return k;
  const float top = x[order[0]] / args.temperature;
  float total = 0;
  for (int64_t i = 0; i < k; ++i) total += math::exp(x[order[i]] / args.temperature - top);
  float reached = 0;
  for (int64_t i = 0; i < k; ++i) {
    reached += math::exp(x[order[i]] / args.temperature - top);
    if (reached >= args.top_p * total) return i + 1;
  }
  return k;
}

int32_t argmax(const float* x, int64_t n) {
  int32_t best = 0;
  for (int64_t j = 1; j < n; ++j) best = x[j] > x[best] ? static_cast<int32_t>(j) : best;
  return best;
}

}  // namespace

int64_t choose_scratch(int64_t vocab) { return vocab * int64_t{sizeof(int32_t)}; }

void choose_row(const ChooseArgs& args, int64_t r, int32_t* order) {
  const float* x = args.logits.row<const float>(r);
  const int64_t vocab = args.logits.cols;
  if (args.temperature == 0.0f) {
    args.token[r] = argmax(x, vocab);
    return;
  }
  const bool all = (args.top_k <= 0 || args.top_k >= vocab) && args.top_p >= 1.0f;
  const int64_t kept = all ? vocab : keep(args, x, order);
  // Walk in index order so that the noise of four entries is drawn once and ties go to the lowest index.
  if (!all) std::sort(order, order + kept);
  float best = -std::numeric_limits<float>::infinity();
  int32_t token = all ? 0 : order[0];
  int64_t group = -1;
  Gumbel4 noise(args.seed, args.request[r], args.pos[r], 0);
  for (int64_t i = 0; i < kept; ++i) {
    const int64_t j = all ? i : order[i];
    if (j / 4 != group) {
      group = j / 4;
      noise = Gumbel4(args.seed, args.request[r], args.pos[r], group);
    }
    const float key = x[j] / args.temperature + noise.value[static_cast<size_t>(j % 4)];
    if (key > best) {
      best = key;
      token = static_cast<int32_t>(j);
    }
  }
  args.token[r] = token;
}

}  // namespace minite::ref
