#pragma once
// Router replay inside a forward pass: which experts to take, and what was taken.
#include <vector>

#include "minite/routes.h"
#include "minite/tensor.h"

namespace minite {

/// Routes of a batch of T rows, layer after layer; each span is [layers, T, top_k] or empty.
struct RouteTape {
  std::span<const int32_t> replay;  ///< experts to take; rows of -1 route live
  std::span<int32_t> used;          ///< out: experts taken
  std::span<float> weight;          ///< out: their weights
  std::span<int32_t> live;          ///< out: experts of the live logits

  /// The part of one layer, whose rows hold `slots` = T * top_k experts.
  [[nodiscard]] RouteTape layer(size_t index, int64_t slots) const;
  /// Keeps what a layer took: `experts` by slot and `weights` [T, top_k] f32 (f64).
  void record(std::span<const int32_t> experts, const TensorView& weights) const;
};

/// Memory of a tape, filled from and read into the routes of single tokens.
class RouteBuffer {
 public:
  /// What a pass is to do with routes.
  struct Parts {
    bool replay = false, used = false, live = false;
  };
  RouteBuffer(const ModelConfig& config, int64_t rows, Parts parts);

  [[nodiscard]] RouteTape tape();
  /// Row `row` replays what `from` holds for `token`.
  void set(int64_t row, const Routes& from, int64_t token);
  /// Writes what row `row` took to `token` of `to`, with weights.
  void get_used(int64_t row, Routes& to, int64_t token) const;
  /// Writes the live experts of row `row`; where nothing is replayed they are those taken.
  void get_live(int64_t row, Routes& to, int64_t token) const;

 private:
  [[nodiscard]] size_t slot(int64_t layer, int64_t row) const {
    return static_cast<size_t>((layer * rows_ + row) * top_k_);
  }
  void get(const std::vector<int32_t>& from, int64_t row, Routes& to, int64_t token) const;

  int64_t layers_, top_k_, rows_;
  std::vector<int32_t> replay_, used_, live_;
  std::vector<float> weight_;
};

}  // namespace minite
