#pragma once
// The parameters of a model, and the quantized copies that are made of them once an update.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/memory.h"
#include "minite/model.h"
#include "model/families/table.h"
#include "modules/linear.h"

namespace minite {

/// What a set of weights is for: inference keeps weights only; training adds FP32 masters, gradients,
/// moments.
enum class Purpose : uint8_t { inference, training };

struct Parameter {
  ParameterSpec spec;
  TensorView weight;  ///< [rows, cols] compute dtype: what the model computes with
  TensorView master;  ///< [rows, cols] f32
  TensorView grad;    ///< [rows, cols] f32 (f64 for f64): main gradient
  TensorView m, v;    ///< [rows, cols] f32: AdamW moments
};

/// Owns the parameters. `version` counts updates; everything derived from weights carries it.
class Weights {
 public:
  Weights(const ModelConfig& config, DType compute, Purpose purpose);

  /// Draws every parameter (Philox keyed by seed, parameter and element) and rounds masters to weights.
  void initialize(uint64_t seed);
  /// weight = round(master), for every parameter; counts as an update.
  void round_masters();
  /// Call after weights were changed in place (an optimizer step).
  void bump_version() { ++version_; }
  void zero_gradients();

  [[nodiscard]] const ModelConfig& config() const { return config_; }
  [[nodiscard]] DType compute() const { return compute_; }
  [[nodiscard]] int64_t version() const { return version_; }
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Index of the parameter `name`; throws not_found.
  [[nodiscard]] int64_t index(const std::string& name) const;
  [[nodiscard]] const Parameter& at(const std::string& name) const { return parameters_[index(name)]; }
  [[nodiscard]] int64_t parameter_count() const;

  /// The static scales of FP8 keys and values by layer: 1 until a checkpoint says otherwise.
  [[nodiscard]] const std::vector<KvScale>& kv_scales() const { return kv_scales_; }
  /// One entry a layer.
  void set_kv_scales(std::vector<KvScale> scales);

 private:
  void place(Arena& arena, Purpose purpose);

  ModelConfig config_;
  DType compute_;
  Buffer memory_;
  std::vector<Parameter> parameters_;
  std::map<std::string, int64_t> index_;
  std::vector<KvScale> kv_scales_;
  int64_t version_ = 0;
};

/// Codes that come from elsewhere than the weights: from a checkpoint that holds them.
class CodesSource {
 public:
  virtual ~CodesSource() = default;
  /// Writes codes, block scales, outer scales and amaxes of quantization unit `unit` of a parameter into
  /// `to`, whose spec, rows and columns are set. False: it has none, and the weight is quantized.
  virtual bool fill(const ParameterSpec& parameter, int64_t unit, const QTensor& to) const = 0;
};

/// The quantized forms of weights that the registered recipes read. Learner and sampler register what they
/// need; equal needs share one copy, so that synchronising weights is reading the same pointer.
class WeightCache {
 public:
  explicit WeightCache(const Weights& weights) : weights_(&weights) {}

  /// Registers what one linear layer needs of parameter `name`. The views stay valid for the life of the
  /// cache; their contents are those of the last refresh().
  LinearWeights add(const std::string& name, const QLinearParams& params);
  /// The same for each quantization unit of the parameter (ParameterSpec::units).
  std::vector<LinearWeights> add_units(const std::string& name, const QLinearParams& params);

  /// Requantizes everything when the weights have a new version; returns how many tensors were quantized.
  /// Codes along rows come from `stored` where it has them.
  int64_t refresh(const Context& ctx, const CodesSource* stored = nullptr);
  [[nodiscard]] int64_t version() const { return version_; }

 private:
  /// What is stored: codes of w, codes of w^T, or decoded codes.
  enum class Form : uint8_t { codes, transposed_codes, decoded };
  /// One quantization unit of a parameter.
  struct Part {
    int64_t parameter, unit;
    friend bool operator==(const Part&, const Part&) = default;
  };
  struct Entry {
    Part part;
    QuantSpec spec;
    Form form;
    Buffer memory;
    QTensor q;                        ///< codes forms
    TensorView decoded;               ///< decoded form
    const QTensor* source = nullptr;  ///< codes that it is made from, or nullptr
  };
  [[nodiscard]] TensorView view(const TensorView& whole, const Part& part) const;
  LinearWeights forms(const Part& part, const QLinearParams& params);
  /// The codes that a form is made from; nullptr when it is made from the weight.
  const QTensor* source_of(const Part& part, const QuantSpec& spec, Form form);
  Entry& entry(const Part& part, const QuantSpec& spec, Form form);

  const Weights* weights_;
  std::vector<std::unique_ptr<Entry>> entries_;          ///< codes before what is made from them
  std::map<int64_t, std::vector<Entry*>> of_parameter_;  ///< the same by parameter
  int64_t version_ = -1;
};

}  // namespace minite
