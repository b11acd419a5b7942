#include "model/network.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "model/block.h"
#include "model/families/table.h"
#include "model/rope.h"

namespace minite {
namespace {

DType wide(DType compute) { return compute == DType::f64 ? DType::f64 : DType::f32; }
FormatId stored_as(DType dtype) { return dtype == DType::bf16 ? FormatId::bf16 : FormatId::fp32; }

}  // namespace

Network::Network(const Weights& weights, WeightCache& cache, const std::vector<ResolvedLinear>& resolved,
                 const OpTable& table, const Policy& policy, KvFormat kv)
    : weights_(&weights), table_(&table), kv_format_(kv) {
  const ModelConfig& c = config();
  for (int i = 0; i < static_cast<int>(c.num_hidden_layers); ++i) {
    layers_.push_back(make_layer(i, cache, resolved, policy));
  }
  embed_ = weights.index("embed");
  final_norm_ = weights.index("final_norm");
  lm_head_ = c.tie_word_embeddings ? embed_ : weights.index("lm_head");
  const FormatId dense = stored_as(compute());
  // exact(KERNEL) names the kernel of the recipe's linear layers; the head is no part of the recipe.
  const Policy head_policy = policy.kind == Policy::Kind::exact ? Policy{} : policy;
  logits_ =
      plan_gemm(table, {dense, dense, wide(compute()), c.vocab_size, c.hidden_size}, head_policy, "lm_head");
  dlogits_ = plan_gemm(table, {dense, dense, compute(), c.hidden_size, c.vocab_size},
                       Policy{Policy::Kind::fastest, {}}, "lm_head dgrad");
  rope_memory_ = Buffer(c.max_position_embeddings * c.head_dim * int64_t{sizeof(float)});
  rope_table_ = TensorView(rope_memory_.data(), DType::f32, c.max_position_embeddings, c.head_dim);
  fill_rope_table(rope_table_, c.rope_theta, c.rope_scaling);
}

Layer Network::make_layer(int index, WeightCache& cache, const std::vector<ResolvedLinear>& resolved,
                          const Policy& policy) const {
  const bool qk_norm = model_family(config().family).qk_norm;
  const LayerBuild build{fmt::format("layers.{}.", index), *weights_, cache, resolved, *table_, policy};
  return Layer{build.norm_linear("qkv", "attn_norm"),
               build.linear("o"),
               build.forms("qkv"),
               build.forms("o"),
               build.parameter("attn_norm"),
               qk_norm ? build.parameter("q_norm") : kNoParameter,
               qk_norm ? build.parameter("k_norm") : kNoParameter,
               build.parameter("qkv"),
               build.parameter("o"),
               config().num_experts > 0 ? make_experts(build) : make_gated_mlp(build)};
}

LayerActivations Network::place_layer(Arena& arena, const Layer& layer, int64_t rows, Keep keep,
                                      const SharedActivations& shared) const {
  const ModelConfig& c = config();
  const DType dtype = compute();
  const bool training = keep == Keep::for_backward;
  LayerActivations a;
  const auto codes = [&](const Linear& linear) {
    return linear.needs().quantized_x ? arena.take_qtensor(linear.params().fprop.a, rows, linear.k())
                                      : QTensor{};
  };
  const auto normed = [&](const Linear& linear, const TensorView& common) {
    return training && linear.needs().saved_x ? arena.take_tensor(dtype, rows, linear.k()) : common;
  };
  const auto if_training = [&](int64_t cols) {
    return training ? arena.take_tensor(wide(dtype), rows, cols) : TensorView{};
  };
  a.attn_normed = normed(layer.qkv.linear(), shared.attn_normed);
  a.attn.rstd = if_training(1);
  a.attn.linear.xq = codes(layer.qkv.linear());
  a.qkv = arena.take_tensor(dtype, rows, c.qkv_size());
  if (layer.has_qk_norm()) {
    a.q_rstd = if_training(c.num_attention_heads);
    a.k_rstd = if_training(c.num_key_value_heads);
    a.q = arena.take_tensor(dtype, rows, c.q_size());
    a.k = arena.take_tensor(dtype, rows, c.kv_size());
  } else {
    a.q = a.qkv.slice_cols(0, c.q_size());
    a.k = a.qkv.slice_cols(c.q_size(), c.kv_size());
  }
  a.lse = if_training(c.num_attention_heads);
  a.o = arena.take_tensor(dtype, rows, c.q_size());
  a.o_linear.xq = codes(layer.o);
  a.mid = arena.take_tensor(dtype, rows, c.hidden_size);
  a.mlp = layer.mlp->place(arena, rows, keep, shared);
  a.out = arena.take_tensor(dtype, rows, c.hidden_size);
  return a;
}

Activations Network::place(Arena& arena, int64_t rows, int64_t scored, Keep keep) const {
  const ModelConfig& c = config();
  const DType dtype = compute();
  Activations act;
  SharedActivations shared;
  shared.attn_normed = arena.take_tensor(dtype, rows, c.hidden_size);
  shared.mlp_normed = arena.take_tensor(dtype, rows, c.hidden_size);
  shared.packed = arena.take_tensor(dtype, rows * c.num_experts_per_tok, c.hidden_size);
  if (keep == Keep::for_backward) {
    act.embedded = arena.take_tensor(dtype, rows, c.hidden_size);
    for (const Layer& layer : layers_) act.layers.push_back(place_layer(arena, layer, rows, keep, shared));
  } else {
    // Layers may differ in recipe; each lays its activations over the same memory, the largest wins. The
    // residual stream lives in one buffer in front of them: x and out are the same.
    act.embedded = arena.take_tensor(dtype, rows, c.hidden_size);
    const int64_t mark = arena.mark();
    int64_t end = mark;
    for (const Layer& layer : layers_) {
      arena.rewind(mark);
      act.layers.push_back(place_layer(arena, layer, rows, keep, shared));
      act.layers.back().out = act.embedded;
      end = std::max(end, arena.mark());
    }
    arena.rewind(end);
  }
  act.scored = arena.take_tensor(dtype, scored, c.hidden_size);
  act.scored_normed = arena.take_tensor(dtype, scored, c.hidden_size);
  act.scored_rstd = arena.take_tensor(wide(dtype), scored, 1);
  act.logits = arena.take_tensor(wide(dtype), std::min(scored, kLogitRows), c.vocab_size);
  return act;
}

KvStore Network::kv_store(size_t layer) const {
  const ModelConfig& c = config();
  const bool scaled = minite::kv_format(kv_format_).scaled;
  return {nullptr,
          compute(),
          c.num_key_value_heads,
          c.head_dim,
          {},
          kv_format_,
          scaled ? weights_->kv_scales()[layer] : KvScale{}};
}

int64_t Network::kv_bytes(int64_t blocks) const {
  const int64_t layer = blocks * kv_store(0).block_elements() * kv_element_size(kv_format_, compute());
  return align_up(layer) * config().num_hidden_layers;
}

KvSet Network::kv_set(std::byte* memory, int64_t blocks, std::span<const int64_t> first_block) const {
  const int64_t layer_bytes = kv_bytes(blocks) / config().num_hidden_layers;
  KvSet set;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    KvStore store = kv_store(layer);
    store.data = memory + static_cast<int64_t>(layer) * layer_bytes;
    store.first_block = first_block;
    set.layers.push_back(store);
  }
  return set;
}

int64_t Network::scratch(int64_t rows, int64_t max_keys, int threads) const {
  int64_t bytes = std::max({logits_.scratch(kLogitRows, threads), dlogits_.scratch(kLogitRows, threads),
                            table_->attention_scratch(max_keys, config().head_dim, threads),
                            table_->choose_scratch(config().vocab_size, threads)});
  const GemmProblem wgrad{logits_.problem.a, logits_.problem.a, wide(compute()), config().hidden_size,
                          kLogitRows};
  bytes = std::max(bytes, table_->gemm_scratch(wgrad, config().vocab_size, threads));
  for (const Layer& layer : layers_) {
    bytes = std::max({bytes, layer.qkv.linear().scratch(rows, threads), layer.o.scratch(rows, threads),
                      layer.mlp->scratch(rows, threads)});
  }
  return bytes;
}

TensorView Network::forward(const Context& ctx, const Rows& rows, const KvSet& kv, Activations& act,
                            const RouteTape& tape) const {
  const Parameter& embed = weights_->parameters()[embed_];
  TensorView x = act.embedded;
  ops::embedding(ctx, {rows.token, embed.weight, x});
  ctx.observe(-1, "embed", x);
  for (size_t i = 0; i < layers_.size(); ++i) {
    LayerActivations& a = act.layers[i];
    a.x = x;
    a.kv = kv.layers[i];
    a.mlp.router.tape = tape.layer(i, rows.size() * config().num_experts_per_tok);
    const BlockInput in{*weights_, layers_[i], static_cast<int>(i), rows, rope_table_};
    block_forward(ctx, in, a);
    x = a.out;
  }
  return x;
}

void Network::gather(const Context& ctx, const TensorView& hidden, std::span<const int32_t> scored,
                     Activations& act) const {
  ops::embedding(ctx, {scored, hidden, act.scored});
  if (ctx.probe != nullptr) {
    ctx.probe->scored(scored);
    ctx.probe->value({-1, "final_norm", Point::input}, act.scored);
  }
  const TensorView weight = weights_->parameters()[final_norm_].weight;
  ops::norm(ctx, {act.scored, weight, config().rms_norm_eps, 1, act.scored_normed, act.scored_rstd});
  ctx.observe(-1, "final_norm", act.scored_normed);
}

TensorView Network::logits(const Context& ctx, const Activations& act, int64_t begin, int64_t n) const {
  const TensorView out = act.logits.slice_rows(0, n);
  const Operand a = Operand::of(act.scored_normed.slice_rows(begin, n));
  ops::gemm(ctx, logits_,
            {a, Operand::of(weights_->parameters()[lm_head_].weight), {}, out, Output::overwrite});
  ctx.observe(-1, "lm_head", out);
  return out;
}

void Network::backward_head(const Context& ctx, Arena& temp, Activations& act, const HeadGradient& head,
                            const TensorView& dhidden) const {
  const Parameter& lm_head = weights_->parameters()[lm_head_];
  const Parameter& norm = weights_->parameters()[final_norm_];
  const auto scored = static_cast<int64_t>(head.scored.size());
  const TensorView dnormed = temp.take_tensor(compute(), scored, config().hidden_size);
  const TensorView dlogits = temp.take_tensor(compute(), std::min(scored, kLogitRows), config().vocab_size);
  const auto part = [](const TensorView& t, int64_t begin, int64_t n) {
    return t.empty() ? t : t.slice_cols(begin, n);
  };
  for (int64_t begin = 0; begin < scored; begin += kLogitRows) {
    const int64_t n = std::min(kLogitRows, scored - begin);
    const TensorView d = dlogits.slice_rows(0, n);
    ops::logprob_backward(ctx, {logits(ctx, act, begin, n), head.target.subspan(begin, n), head.temperature,
                                part(head.lse, begin, n), part(head.entropy, begin, n),
                                part(head.dlogp, begin, n), part(head.dentropy, begin, n), d});
    ops::gemm(ctx, dlogits_,
              {Operand::of(d),
               Operand::of(lm_head.weight, Orientation::columns),
               {},
               dnormed.slice_rows(begin, n),
               Output::overwrite});
    const GemmPlan wgrad =
        plan_gemm(*table_, {logits_.problem.a, logits_.problem.a, wide(compute()), config().hidden_size, n},
                  Policy{Policy::Kind::fastest, {}}, "lm_head wgrad");
    ops::gemm(ctx, wgrad,
              {Operand::of(d, Orientation::columns),
               Operand::of(act.scored_normed.slice_rows(begin, n), Orientation::columns),
               {},
               lm_head.grad,
               Output::accumulate});
  }
  ops::norm_backward(ctx, {dnormed, act.scored, norm.weight, act.scored_rstd, 1, {}, dnormed, norm.grad});
  std::memset(dhidden.data, 0, static_cast<size_t>(dhidden.size() * dtype_size(compute())));
  const auto row_bytes = static_cast<size_t>(config().hidden_size * dtype_size(compute()));
  for (int64_t r = 0; r < scored; ++r) {
    std::memcpy(dhidden.slice_rows(head.scored[r], 1).data, dnormed.slice_rows(r, 1).data, row_bytes);
  }
}

int64_t Network::backward_bytes(int64_t rows, int64_t scored) const {
  Arena measure;
  for (int i = 0; i < 2; ++i) measure.take_tensor(compute(), rows, config().hidden_size);
  const int64_t head = align_up(scored * config().hidden_size * dtype_size(compute())) +
                       align_up(std::min(scored, kLogitRows) * config().vocab_size * dtype_size(compute()));
  const int64_t mark = measure.mark();
  BlockGradients::place(measure, config(), compute(), rows);
  int64_t block = 0;
  for (const Layer& layer : layers_) {
    block = std::max({block, layer.qkv.linear().backward_bytes(rows), layer.o.backward_bytes(rows),
                      layer.mlp->backward_bytes(rows)});
  }
  return std::max(mark + head, measure.mark() + block);
}

void Network::backward(const Context& ctx, Arena& temp, const Rows& rows, Activations& act,
                       const HeadGradient& head) const {
  const int64_t start = temp.mark();
  TensorView dout = temp.take_tensor(compute(), rows.size(), config().hidden_size);
  TensorView dx = temp.take_tensor(compute(), rows.size(), config().hidden_size);
  const int64_t mark = temp.mark();
  backward_head(ctx, temp, act, head, dout);
  temp.rewind(mark);
  const BlockGradients grads = BlockGradients::place(temp, config(), compute(), rows.size());
  for (size_t i = layers_.size(); i-- > 0;) {
    const BlockInput in{*weights_, layers_[i], static_cast<int>(i), rows, rope_table_, head.router_balance};
    block_backward(ctx, in, act.layers[i], dout, temp, grads, dx);
    std::swap(dout, dx);
  }
  ops::embedding_backward(ctx, {rows.token, dout, weights_->parameters()[embed_].grad});
  temp.rewind(start);
}

std::vector<std::string> Network::plans() const {
  std::vector<std::string> all;
  for (const Layer& layer : layers_) {
    for (auto lines : {layer.qkv.linear().plans(), layer.o.plans(), layer.mlp->plans()}) {
      for (std::string& line : lines) all.push_back(std::move(line));
    }
  }
  all.push_back(fmt::format("attention: keys and values in {}", minite::kv_format(kv_format_).name));
  all.push_back("lm_head fprop: " + to_string(logits_));
  all.push_back("lm_head dgrad: " + to_string(dlogits_));
  return all;
}

}  // namespace minite
