#pragma once
// The one block: what a layer computes, forward and backward.
#include "model/network.h"

namespace minite {

/// What a block needs besides its activations.
struct BlockInput {
  const Weights& weights;
  const Layer& layer;
  int index;  ///< layer number
  const Rows& rows;
  const TensorView& rope_table;
  float router_balance = 0;  ///< d loss / d router_balance() of this layer; backward only
};

/// act.x -> act.out. Writes this batch's keys and values to act.kv, then attends to what act.kv holds:
/// the fresh ones alone (learner, prefill) or all since the sequence began (decode).
void block_forward(const Context& ctx, const BlockInput& in, LayerActivations& act);

/// Working memory of block_backward for T rows.
struct BlockGradients {
  TensorView dnormed, dmid, do_, dq, dk, dqkv;
  static BlockGradients place(Arena& arena, const ModelConfig& config, DType compute, int64_t rows);
};

/// dout [T,D] -> dx [T,D]; parameter gradients accumulate.
void block_backward(const Context& ctx, const BlockInput& in, const LayerActivations& act,
                    const TensorView& dout, Arena& temp, const BlockGradients& grads, const TensorView& dx);

}  // namespace minite
