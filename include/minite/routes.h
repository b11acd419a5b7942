#pragma once
// Experts that a mixture of experts took, as a plain value: one pass records them, another replays them.
#include <cstdint>
#include <span>
#include <vector>

#include "minite/model.h"

namespace minite {

/// Routes of the tokens of one sequence. A row is what one token got in one layer: top_k experts by slot,
/// best first. A row of -1 was not recorded (no pass read the token); whoever replays it routes the token
/// live.
struct Routes {
  int64_t layers = 0;
  int64_t top_k = 0;
  std::vector<int32_t> expert;  ///< [tokens, layers, top_k]
  std::vector<float>
      weight;  ///< [tokens, layers, top_k] what the experts' outputs were multiplied with, or empty

  Routes() = default;
  /// `tokens` rows a layer, none recorded, without weights.
  Routes(int64_t tokens, int64_t n_layers, int64_t n_slots);

  [[nodiscard]] int64_t tokens() const;
  [[nodiscard]] bool empty() const { return expert.empty(); }
  /// Experts of `token` in `layer`.
  [[nodiscard]] std::span<const int32_t> row(int64_t token, int64_t layer) const;
};

/// Checks routes that are to be replayed: one entry a sample, `tokens[i]` rows in sample i, layers and top_k
/// of the model, and each row all -1 or different experts of the model. Throws invalid_argument that names
/// sample, token, layer and expert, or both sizes.
void validate_routes(std::span<const Routes> routes, std::span<const int64_t> tokens,
                     const ModelConfig& config);

/// How two recordings of the same tokens differ, in counts that add up. Rows that either side did not record
/// are left out.
struct RouteDifference {
  int64_t rows = 0;           ///< (token, layer) rows that both recorded
  int64_t experts = 0;        ///< of them, rows with other experts
  int64_t order = 0;          ///< rows with the same experts in other slots
  int64_t weights = 0;        ///< slots of the remaining rows whose weights could be compared
  double weight_abs_sum = 0;  ///< sum over these slots of |a - b|
  double weight_abs_max = 0;
  RouteDifference& operator+=(const RouteDifference& other);
};
/// Throws invalid_argument unless a and b have the same shape.
[[nodiscard]] RouteDifference compare_routes(const Routes& a, const Routes& b);

/// Tokens of the longest run of equal rows (all layers), unrecorded tokens left out. A buffer that an engine
/// forgot to refresh repeats one row; compare with the length of the sequence.
[[nodiscard]] int64_t longest_repeat(const Routes& routes);

}  // namespace minite
