#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/fail.h"
#include "core/philox.h"

namespace minite {
namespace {

void fill(const TensorView& t, float value) { std::fill_n(t.as<float>(), t.size(), value); }

/// Standard normal by Box-Muller, in FP64: two values from one Philox call.
void fill_normal(const TensorView& t, uint64_t seed, uint64_t stream, double std_dev) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  for (int64_t i = 0; i < t.size(); i += 2) {
    const auto words = Philox::generate(seed, static_cast<uint64_t>(i / 2), stream);
    const double u = (static_cast<double>(words[0]) + 0.5) * 0x1p-32;
    const double angle = kTwoPi * static_cast<double>(words[1]) * 0x1p-32;
    const double radius = std_dev * std::sqrt(-2.0 * std::log(u));
    t.as<float>()[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < t.size()) t.as<float>()[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void round_to(const TensorView& master, const TensorView& weight) {
  const auto* from = master.as<const float>();
  switch (weight.dtype) {
    case DType::bf16:
      for (int64_t i = 0; i < weight.size(); ++i) weight.as<bf16>()[i] = bf16(from[i]);
      return;
    case DType::f32:
      std::copy_n(from, weight.size(), weight.as<float>());
      return;
    default:
      std::copy_n(from, weight.size(), weight.as<double>());
      return;
  }
}

}  // namespace

Weights::Weights(const ModelConfig& config, DType compute, Purpose purpose)
    : config_(config), compute_(compute) {
  config_.validate();
  kv_scales_.resize(static_cast<size_t>(config_.num_hidden_layers));
  for (ParameterSpec& spec : model_family(config_.family).parameters(config_)) {
    index_[spec.name] = static_cast<int64_t>(parameters_.size());
    parameters_.push_back({std::move(spec), {}, {}, {}, {}, {}});
  }
  Arena measure;
  place(measure, purpose);
  memory_ = Buffer(measure.peak());
  Arena arena(memory_);
  place(arena, purpose);
}

void Weights::place(Arena& arena, Purpose purpose) {
  const DType grad = compute_ == DType::f64 ? DType::f64 : DType::f32;
  for (Parameter& p : parameters_) {
    p.weight = arena.take_tensor(compute_, p.spec.rows, p.spec.cols);
    p.master = arena.take_tensor(DType::f32, p.spec.rows, p.spec.cols);
    if (purpose == Purpose::inference) continue;
    p.grad = arena.take_tensor(grad, p.spec.rows, p.spec.cols);
    p.m = arena.take_tensor(DType::f32, p.spec.rows, p.spec.cols);
    p.v = arena.take_tensor(DType::f32, p.spec.rows, p.spec.cols);
  }
}

void Weights::initialize(uint64_t seed) {
  const double std_dev = 0.02;
  const double residual = std_dev / std::sqrt(2.0 * static_cast<double>(config_.num_hidden_layers));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    switch (p.spec.init) {
      case Init::ones:
        fill(p.master, 1.0f);
        break;
      case Init::normal:
        fill_normal(p.master, seed, i, std_dev);
        break;
      case Init::residual:
        fill_normal(p.master, seed, i, residual);
        break;
    }
  }
  round_masters();
}

void Weights::round_masters() {
  for (const Parameter& p : parameters_) round_to(p.master, p.weight);
  bump_version();
}

void Weights::zero_gradients() {
  for (const Parameter& p : parameters_) {
    std::memset(p.grad.data, 0, static_cast<size_t>(p.grad.size() * dtype_size(p.grad.dtype)));
  }
}

int64_t Weights::index(const std::string& name) const {
  const auto it = index_.find(name);
  if (it == index_.end()) fail(ErrorCode::not_found, "the model has no parameter '{}'", name);
  return it->second;
}

int64_t Weights::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& p : parameters_) count += p.weight.size();
  return count;
}

void Weights::set_kv_scales(std::vector<KvScale> scales) {
  if (scales.size() != kv_scales_.size())
    fail(ErrorCode::internal, "{} scales of keys and values for {} layers", scales.size(), kv_scales_.size());
  kv_scales_ = std::move(scales);
}

TensorView WeightCache::view(const TensorView& whole, const Part& part) const {
  const int64_t rows = whole.rows / weights_->parameters()[part.parameter].spec.units;
  return whole.slice_rows(part.unit * rows, rows);
}

LinearWeights WeightCache::forms(const Part& part, const QLinearParams& params) {
  const LinearNeeds needs(params);
  const Parameter& p = weights_->parameters()[part.parameter];
  const bool master = params.fprop.b.format == FormatId::fp32 && weights_->compute() == DType::bf16;
  LinearWeights w;
  w.dense = view(master ? p.master : p.weight, part);
  if (needs.quantized_w) w.fprop = entry(part, params.fprop.b, Form::codes).q;
  if (needs.dgrad_codes) w.dgrad = entry(part, params.dgrad.b, Form::transposed_codes).q;
  if (needs.dequantized_w) w.dequantized = entry(part, params.fprop.b, Form::decoded).decoded;
  version_ = -1;
  return w;
}

LinearWeights WeightCache::add(const std::string& name, const QLinearParams& params) {
  const std::vector<LinearWeights> units = add_units(name, params);
  if (units.size() != 1)
    fail(ErrorCode::internal, "{} has {} quantization units, expected 1", name, units.size());
  return units.front();
}

std::vector<LinearWeights> WeightCache::add_units(const std::string& name, const QLinearParams& params) {
  const int64_t parameter = weights_->index(name);
  std::vector<LinearWeights> units;
  for (int64_t unit = 0; unit < weights_->parameters()[parameter].spec.units; ++unit) {
    units.push_back(forms({parameter, unit}, params));
  }
  return units;
}

const QTensor* WeightCache::source_of(const Part& part, const QuantSpec& spec, Form form) {
  if (form == Form::decoded) return &entry(part, spec, Form::codes).q;
  if (form == Form::codes || !spec.transposable()) return nullptr;
  for (const Entry* e : of_parameter_[part.parameter]) {
    if (e->part == part && e->spec == spec && e->form == Form::codes) return &e->q;
  }
  return nullptr;
}

WeightCache::Entry& WeightCache::entry(const Part& part, const QuantSpec& spec, Form form) {
  for (Entry* e : of_parameter_[part.parameter]) {
    if (e->part == part && e->spec == spec && e->form == form) return *e;
  }
  const QTensor* source = source_of(part, spec, form);
  const TensorView w = view(weights_->parameters()[part.parameter].weight, part);
  auto e = std::make_unique<Entry>();
  e->part = part;
  e->spec = spec;
  e->form = form;
  e->source = source;
  const int64_t rows = form == Form::transposed_codes ? w.cols : w.rows;
  const int64_t cols = form == Form::transposed_codes ? w.rows : w.cols;
  if (form == Form::decoded) {
    e->memory = Buffer(rows * cols * dtype_size(weights_->compute()));
    e->decoded = TensorView(e->memory.data(), weights_->compute(), rows, cols);
  } else {
    e->memory = Buffer(QTensor::bytes(spec, rows, cols));
    e->q = QTensor::place(spec, rows, cols, e->memory.data());
  }
  of_parameter_[part.parameter].push_back(e.get());
  entries_.push_back(std::move(e));
  return *entries_.back();
}

int64_t WeightCache::refresh(const Context& ctx, const CodesSource* stored) {
  if (version_ == weights_->version()) return 0;
  int64_t quantized = 0;
  for (const auto& e : entries_) {
    if (e->form == Form::decoded) {
      ops::dequantize(ctx, {*e->source, e->decoded});
      continue;
    }
    if (e->source != nullptr) {
      ops::transpose_codes(ctx, {*e->source, e->q});
      continue;
    }
    const Parameter& p = weights_->parameters()[e->part.parameter];
    if (stored != nullptr && e->form == Form::codes && stored->fill(p.spec, e->part.unit, e->q)) continue;
    const auto along = e->form == Form::codes ? Orientation::rows : Orientation::columns;
    ops::quantize(ctx, {view(p.weight, e->part), along, e->q, {}});
    ++quantized;
  }
  version_ = weights_->version();
  return quantized;
}

}  // namespace minite
