#include "minite/routes.h"

#include <algorithm>
#include <cmath>

#include "core/fail.h"
#include "ops/ops.h"

namespace minite {
namespace {

size_t at(const Routes& r, int64_t token, int64_t layer) {
  return static_cast<size_t>((token * r.layers + layer) * r.top_k);
}

void check_shape(const Routes& r, size_t sample, int64_t tokens, const ModelConfig& c) {
  require(r.layers == c.num_hidden_layers && r.top_k == c.num_experts_per_tok,
          "routes of sample {}: {} layers of {} experts a token, the model has num_hidden_layers={} and "
          "num_experts_per_tok={}",
          sample, r.layers, r.top_k, c.num_hidden_layers, c.num_experts_per_tok);
  const auto count = static_cast<size_t>(tokens * r.layers * r.top_k);
  require(r.expert.size() == count,
          "routes of sample {}: {} experts for {} tokens, {} layers and {} slots; give one row a token",
          sample, r.expert.size(), tokens, r.layers, r.top_k);
  require(r.weight.empty() || r.weight.size() == count, "routes of sample {}: {} weights for {} experts",
          sample, r.weight.size(), count);
}

bool same_set(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::is_permutation(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

Routes::Routes(int64_t tokens, int64_t n_layers, int64_t n_slots)
    : layers(n_layers), top_k(n_slots), expert(static_cast<size_t>(tokens * n_layers * n_slots), -1) {}

int64_t Routes::tokens() const {
  return expert.empty() ? 0 : static_cast<int64_t>(expert.size()) / (layers * top_k);
}

std::span<const int32_t> Routes::row(int64_t token, int64_t layer) const {
  return std::span(expert).subspan(at(*this, token, layer), static_cast<size_t>(top_k));
}

void validate_routes(std::span<const Routes> routes, std::span<const int64_t> tokens,
                     const ModelConfig& config) {
  require(config.num_experts > 0, "routes: the model has no experts (num_experts=0), so nothing to replay");
  require(routes.size() == tokens.size(), "routes: {} samples recorded, {} to replay", routes.size(),
          tokens.size());
  for (size_t i = 0; i < routes.size(); ++i) {
    const Routes& r = routes[i];
    check_shape(r, i, tokens[i], config);
    for (int64_t t = 0; t < tokens[i]; ++t) {
      for (int64_t layer = 0; layer < r.layers; ++layer) {
        const std::string fault = ops::replay_fault(r.row(t, layer), config.num_experts);
        if (fault.empty()) continue;
        fail(ErrorCode::invalid_argument, "routes of sample {}, token {}, layer {}: [{}]: {}", i, t, layer,
             fmt::join(r.row(t, layer), ", "), fault);
      }
    }
  }
}

RouteDifference& RouteDifference::operator+=(const RouteDifference& other) {
  rows += other.rows;
  experts += other.experts;
  order += other.order;
  weights += other.weights;
  weight_abs_sum += other.weight_abs_sum;
  weight_abs_max = std::max(weight_abs_max, other.weight_abs_max);
  return *this;
}

RouteDifference compare_routes(const Routes& a, const Routes& b) {
  require(a.layers == b.layers && a.top_k == b.top_k && a.expert.size() == b.expert.size(),
          "routes: {} tokens, {} layers, {} slots cannot be compared with {} tokens, {} layers, {} slots",
          a.tokens(), a.layers, a.top_k, b.tokens(), b.layers, b.top_k);
  RouteDifference d;
  const bool weighed = !a.weight.empty() && !b.weight.empty();
  for (int64_t t = 0; t < a.tokens(); ++t) {
    for (int64_t layer = 0; layer < a.layers; ++layer) {
      const auto x = a.row(t, layer), y = b.row(t, layer);
      if (x.front() < 0 || y.front() < 0) continue;
      ++d.rows;
      const bool equal = std::equal(x.begin(), x.end(), y.begin());
      if (!equal) ++(same_set(x, y) ? d.order : d.experts);
      if (!equal || !weighed) continue;
      for (size_t i = at(a, t, layer); i < at(a, t, layer) + x.size(); ++i) {
        const double difference =
            std::abs(static_cast<double>(a.weight[i]) - static_cast<double>(b.weight[i]));
        d.weight_abs_sum += difference;
        d.weight_abs_max = std::max(d.weight_abs_max, difference);
        ++d.weights;
      }
    }
  }
  return d;
}

int64_t longest_repeat(const Routes& routes) {
  const auto width = static_cast<std::ptrdiff_t>(routes.layers * routes.top_k);
  int64_t longest = 0, run = 0;
  auto before = routes.expert.end();
  for (auto row = routes.expert.begin(); row != routes.expert.end(); row += width) {
    if (*row < 0) {
      run = 0;
      continue;
    }
    run = run > 0 && std::equal(before, before + width, row) ? run + 1 : 1;
    longest = std::max(longest, run);
    before = row;
  }
  return longest;
}

}  // namespace minite
