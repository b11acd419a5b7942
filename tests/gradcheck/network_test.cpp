// The whole model in FP64: every parameter's gradient of sum c_t logp_t + sum e_t entropy_t.
#include "model/network.h"

#include <array>

#include "gradcheck/differences.h"
#include "support/tiny_model.h"

namespace minite::gradcheck {
namespace {

struct Variant {
  const char* name;
  bool tied, experts, norm_topk_prob;
  float balance;        ///< coefficient of the load-balancing loss
  bool replay = false;  ///< experts are given instead of chosen
  const char* dense = "qwen3";
};
constexpr std::array<Variant, 6> kVariants = {{{"untied", false, false, false, 0},
                                               {"tied", true, false, false, 0},
                                               {"experts", false, true, true, 0.25f},
                                               {"plain_probabilities", false, true, false, 0},
                                               {"replayed", false, true, true, 0.25f, true},
                                               {"llama", true, false, false, 0, false, "llama"}}};

ModelConfig config(const Variant& v) {
  ModelConfig c;
  c.family = v.dense;
  if (v.experts) {
    c.family = "qwen3_moe";
    c.num_experts = 5;
    c.num_experts_per_tok = 2;
    c.moe_intermediate_size = 7;
    c.norm_topk_prob = v.norm_topk_prob;
  }
  c.vocab_size = 13;
  c.hidden_size = 12;
  c.intermediate_size = 10;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.max_position_embeddings = 16;
  c.rope_theta = 100;
  c.rms_norm_eps = 1e-3f;
  c.tie_word_embeddings = v.tied;
  return c;
}

/// Two packed sequences; every row but one is scored.
class Model {
 public:
  explicit Model(const Variant& variant)
      : weights(config(variant), DType::f64, Purpose::training),
        balance_(variant.balance),
        cache_(weights),
        network_(weights, cache_, resolve("fp32", {}, linear_modules(config(variant)), 2), ref::table(),
                 Policy{}) {
    test_support::fill_strong(weights, 81);
    for (const int64_t length : {9, 5}) {
      for (int32_t p = 0; p < length; ++p) {
        seq_.push_back(length == 9 ? 0 : 1);
        pos_.push_back(p);
      }
    }
    const auto rows = static_cast<int64_t>(seq_.size());
    token_ = test_support::random_tokens(rows, 13, 82, 0);
    for (int32_t r = 1; r < rows; ++r) scored_.push_back(r);
    target_ = test_support::random_tokens(rows - 1, 13, 82, 1);
    kv_memory_ = Buffer(network_.kv_bytes(2));
    kv_ = network_.kv_set(kv_memory_.data(), 2, first_block_);
    Arena measure;
    (void)network_.place(measure, rows, rows - 1, Keep::for_backward);
    memory_ = Buffer(measure.peak() + network_.backward_bytes(rows, rows - 1));
    c_ = Matrix::random(1, rows - 1, 83);
    e_ = Matrix::random(1, rows - 1, 84);
    logp_ = entropy_ = lse_ = Matrix(1, rows - 1);
    for (int32_t i = 0; variant.replay && i < 2 * rows; ++i)  // two of five experts for each layer and row
      replay_.insert(replay_.end(), {i * 3 % 5, (i * 3 + 1 + i % 4) % 5});
  }

  double loss() {
    Arena arena(memory_);
    Activations act = place(arena);
    return forward(act);
  }
  /// Adds to the main gradients.
  void add_gradients() {
    Arena arena(memory_);
    Activations act = place(arena);
    (void)forward(act);
    network_.backward(
        ref_.context(), arena, rows(), act,
        {scored_, target_, kTemperature, lse_.view(), entropy_.view(), c_.view(), e_.view(), balance_});
  }

  Weights weights;

 private:
  static constexpr float kTemperature = 0.8f;

  [[nodiscard]] Rows rows() const { return {token_, seq_, pos_}; }
  Activations place(Arena& arena) const {
    return network_.place(arena, static_cast<int64_t>(token_.size()), static_cast<int64_t>(scored_.size()),
                          Keep::for_backward);
  }
  double forward(Activations& act) {
    const TensorView hidden = network_.forward(ref_.context(), rows(), kv_, act, {replay_, {}, {}, {}});
    network_.gather(ref_.context(), hidden, scored_, act);
    const TensorView logits = network_.logits(ref_.context(), act, 0, static_cast<int64_t>(scored_.size()));
    ops::logprob(ref_.context(), {logits, target_, kTemperature, logp_.view(), entropy_.view(), lse_.view()});
    double loss = logp_.dot(c_) + entropy_.dot(e_);
    if (balance_ == 0.0f) return loss;
    for (const LayerActivations& layer : act.layers) {
      const RouterActivations& r = layer.mlp.router;
      loss += static_cast<double>(balance_) * ops::router_balance(ref_.context(), r.prob, r.groups());
    }
    return loss;
  }

  float balance_;
  WeightCache cache_;
  Network network_;
  Reference ref_;
  std::vector<int32_t> token_, seq_, pos_, scored_, target_, replay_;
  std::vector<int64_t> first_block_ = {0, 1};
  Buffer kv_memory_, memory_;
  KvSet kv_;
  Matrix c_{0, 0}, e_{0, 0}, logp_{0, 0}, entropy_{0, 0}, lse_{0, 0};
};

class WholeModel : public testing::TestWithParam<Variant> {};
INSTANTIATE_TEST_SUITE_P(Of, WholeModel, testing::ValuesIn(kVariants),
                         [](const auto& variant) { return std::string(variant.param.name); });

TEST_P(WholeModel, GradientOfEveryParameter) {
  Model model(GetParam());
  model.weights.zero_gradients();
  model.add_gradients();
  uint64_t stream = 100;
  for (const Parameter& p : model.weights.parameters()) {
    const std::span<double> x(p.weight.as<double>(), static_cast<size_t>(p.weight.size()));
    const std::span<const double> gradient(p.grad.as<double>(), x.size());
    const Loss loss = [&] { return model.loss(); };
    for (int i = 0; i < 2; ++i) check_direction(p.spec.name, x, gradient, loss, stream++);
    check_elements(p.spec.name, x, gradient, loss, 1e-8, x.size() < 40 ? 5 : x.size() / 6 + 1);
  }
}

TEST_P(WholeModel, GradientsAccumulateOverCalls) {
  Model model(GetParam());
  model.weights.zero_gradients();
  model.add_gradients();
  std::vector<double> once;
  for (const Parameter& p : model.weights.parameters()) {
    once.insert(once.end(), p.grad.as<double>(), p.grad.as<double>() + p.grad.size());
  }
  model.add_gradients();
  size_t i = 0;
  for (const Parameter& p : model.weights.parameters()) {
    for (int64_t j = 0; j < p.grad.size(); ++j, ++i) {
      ASSERT_NEAR(p.grad.as<double>()[j], 2 * once[i], 1e-12 * (1 + std::abs(once[i]))) << p.spec.name;
    }
  }
}

}  // namespace
}  // namespace minite::gradcheck
