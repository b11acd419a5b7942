#pragma once
// One transformer forward for learner and sampler, and its backward.
//
// Legend: T rows (tokens of a packed batch), D hidden size, Q = heads * head_dim, KV = kv_heads * head_dim,
// V vocabulary, R scored rows.
#include <memory>
#include <string>
#include <vector>

#include "model/mlp.h"

namespace minite {

/// Everything one layer produces that its backward reads, plus what only the forward needs. Memory of its own
/// for each layer when training; shared by all layers otherwise.
struct LayerActivations {
  TensorView x;                 ///< [T,D] input; owned by the layer before
  LayerNormLinear::Saved attn;  ///< norm + qkv
  TensorView attn_normed;       ///< [T,D]
  TensorView qkv;               ///< [T,Q+2KV] before QK-norm
  TensorView q_rstd, k_rstd;    ///< [T,heads], [T,kv_heads]
  TensorView q, k;              ///< [T,Q], [T,KV] after QK-norm and rope
  KvStore kv;                   ///< what attention read
  TensorView lse;               ///< [T,heads]
  TensorView o;                 ///< [T,Q]
  LinearSaved o_linear;
  TensorView mid;  ///< [T,D] after the attention residual
  MlpActivations mlp;
  TensorView out;  ///< [T,D]
};

/// Keys and values of every layer for the sequences of a batch: freshly computed by this forward pass, or a
/// cache that earlier passes filled.
struct KvSet {
  std::vector<KvStore> layers;
};

inline constexpr int64_t kNoParameter = -1;

/// Modules of one layer with their weights.
struct Layer {
  LayerNormLinear qkv;
  Linear o;
  LinearWeights qkv_w, o_w;
  int64_t attn_norm, q_norm, k_norm, qkv_p, o_p;  ///< parameter indices; kNoParameter: the family has none
  std::unique_ptr<const Mlp> mlp;

  /// Without it q and k are turned in place, where qkv was written.
  [[nodiscard]] bool has_qk_norm() const { return q_norm != kNoParameter; }
};

/// Working memory of one forward (and backward) pass; placed for the exact sizes of a batch.
class Activations {
 public:
  std::vector<LayerActivations> layers;  ///< one a layer; without Keep::for_backward they share their memory
  TensorView embedded;                   ///< [T,D]
  TensorView scored, scored_normed;      ///< [R,D] gathered rows before and after the final norm
  TensorView scored_rstd;                ///< [R,1]
  TensorView logits;                     ///< [chunk,V] f32
};

/// A model as one side runs it: recipe resolved, kernels planned, weights shared through the cache.
class Network {
 public:
  /// `kv` is the format of the keys and values that attention reads. Throws when a layer's recipe cannot run
  /// on `table` or cannot keep `policy`; messages name the layer.
  Network(const Weights& weights, WeightCache& cache, const std::vector<ResolvedLinear>& resolved,
          const OpTable& table, const Policy& policy, KvFormat kv = KvFormat::bf16);

  /// Lays out activations for `rows` tokens of which `scored` get logits. The same function sizes the arena
  /// (a measuring arena) and fills it.
  [[nodiscard]] Activations place(Arena& arena, int64_t rows, int64_t scored, Keep keep) const;
  /// Bytes of the backward pass's own working memory for `rows` tokens.
  [[nodiscard]] int64_t backward_bytes(int64_t rows, int64_t scored) const;
  /// Scratch bytes that ops need for `rows` tokens with at most `max_keys` keys.
  [[nodiscard]] int64_t scratch(int64_t rows, int64_t max_keys, int threads) const;

  /// Runs the blocks over `rows`; keys and values of the rows go to `kv`, and attention reads them from
  /// there. Returns the last layer's output [T,D]. `tape` is for mixtures of experts.
  TensorView forward(const Context& ctx, const Rows& rows, const KvSet& kv, Activations& act,
                     const RouteTape& tape = {}) const;
  /// Gathers rows `scored` of `hidden` and applies the final norm; the result feeds logits().
  void gather(const Context& ctx, const TensorView& hidden, std::span<const int32_t> scored,
              Activations& act) const;
  /// Logits [n,V] of scored rows [begin, begin+n), n <= kLogitRows. The view is valid until the next call.
  TensorView logits(const Context& ctx, const Activations& act, int64_t begin, int64_t n) const;

  /// Gradients of everything from dlogp (and dentropy when given) of the scored rows; accumulates into the
  /// weights' main gradients. `act` is that of the forward pass with Keep::for_backward.
  struct HeadGradient {
    std::span<const int32_t> scored;  ///< [R] rows of the batch
    std::span<const int32_t> target;  ///< [R]
    float temperature = 1.0f;
    TensorView lse, entropy;     ///< [1,R] as logprob gave them
    TensorView dlogp, dentropy;  ///< [1,R]; dentropy may be absent
    float router_balance = 0;    ///< d loss / d router_balance() of each layer, with experts
  };
  void backward(const Context& ctx, Arena& temp, const Rows& rows, Activations& act,
                const HeadGradient& head) const;

  [[nodiscard]] const ModelConfig& config() const { return weights_->config(); }
  [[nodiscard]] const Weights& weights() const { return *weights_; }
  [[nodiscard]] DType compute() const { return weights_->compute(); }
  [[nodiscard]] std::vector<std::string> plans() const;
  [[nodiscard]] KvFormat kv_format() const { return kv_format_; }
  /// Bytes of the keys and values of all layers with `blocks` key blocks each.
  [[nodiscard]] int64_t kv_bytes(int64_t blocks) const;
  /// Stores of all layers in `memory` of kv_bytes(blocks), with the scales that the weights have now.
  /// `first_block` must outlive the result.
  [[nodiscard]] KvSet kv_set(std::byte* memory, int64_t blocks, std::span<const int64_t> first_block) const;

  static constexpr int64_t kLogitRows = 512;  ///< rows of logits held at once

 private:
  [[nodiscard]] KvStore kv_store(size_t layer) const;
  [[nodiscard]] LayerActivations place_layer(Arena& arena, const Layer& layer, int64_t rows, Keep keep,
                                             const SharedActivations& shared) const;
  [[nodiscard]] Layer make_layer(int index, WeightCache& cache, const std::vector<ResolvedLinear>& resolved,
                                 const Policy& policy) const;
  void backward_head(const Context& ctx, Arena& temp, Activations& act, const HeadGradient& head,
                     const TensorView& dhidden) const;

  const Weights* weights_;
  std::vector<Layer> layers_;
  GemmPlan logits_, dlogits_;
  const OpTable* table_;
  KvFormat kv_format_;
  int64_t embed_, final_norm_, lm_head_;
  Buffer rope_memory_;
  TensorView rope_table_;  ///< [positions, head_dim]: cosines, sines
};

}  // namespace minite
