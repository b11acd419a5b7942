#include "model/route_tape.h"

#include <algorithm>

namespace minite {
namespace {

template <class T>
std::span<T> part(std::span<T> whole, size_t index, int64_t slots) {
  const auto n = static_cast<size_t>(slots);
  return whole.empty() ? whole : whole.subspan(index * n, n);
}

}  // namespace

RouteTape RouteTape::layer(size_t index, int64_t slots) const {
  return {part(replay, index, slots), part(used, index, slots), part(weight, index, slots),
          part(live, index, slots)};
}

void RouteTape::record(std::span<const int32_t> experts, const TensorView& weights) const {
  if (!used.empty()) std::copy(experts.begin(), experts.end(), used.begin());
  for (size_t i = 0; i < weight.size(); ++i) {
    weight[i] =
        weights.dtype == DType::f64 ? static_cast<float>(weights.as<double>()[i]) : weights.as<float>()[i];
  }
}

RouteBuffer::RouteBuffer(const ModelConfig& config, int64_t rows, Parts parts)
    : layers_(config.num_hidden_layers), top_k_(config.num_experts_per_tok), rows_(rows) {
  const size_t n = slot(layers_, 0);
  if (parts.replay) replay_.assign(n, -1);
  if (parts.used) used_.assign(n, -1), weight_.assign(n, 0.0f);
  if (parts.live) live_.assign(n, -1);
}

RouteTape RouteBuffer::tape() { return {replay_, used_, weight_, live_}; }

void RouteBuffer::set(int64_t row, const Routes& from, int64_t token) {
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto experts = from.row(token, layer);
    std::copy(experts.begin(), experts.end(),
              replay_.begin() + static_cast<std::ptrdiff_t>(slot(layer, row)));
  }
}

void RouteBuffer::get(const std::vector<int32_t>& from, int64_t row, Routes& to, int64_t token) const {
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto begin = static_cast<std::ptrdiff_t>(slot(layer, row));
    const auto end = static_cast<std::ptrdiff_t>((token * layers_ + layer) * top_k_);
    std::copy_n(from.begin() + begin, top_k_, to.expert.begin() + end);
  }
}

void RouteBuffer::get_used(int64_t row, Routes& to, int64_t token) const {
  get(used_, row, to, token);
  to.weight.resize(to.expert.size());
  for (int64_t layer = 0; layer < layers_; ++layer) {
    const auto begin = static_cast<std::ptrdiff_t>(slot(layer, row));
    const auto end = static_cast<std::ptrdiff_t>((token * layers_ + layer) * top_k_);
    std::copy_n(weight_.begin() + begin, top_k_, to.weight.begin() + end);
  }
}

void RouteBuffer::get_live(int64_t row, Routes& to, int64_t token) const { get(live_, row, to, token); }

}  // namespace minite
