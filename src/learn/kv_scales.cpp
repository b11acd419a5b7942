#include "learn/kv_scales.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/fail.h"

namespace minite {
namespace {

using io::StoredType;
using io::TensorInfo;

/// One scale of a layer and its names after "model.layers.L.self_attn."; the first is written.
struct ScaleNames {
  float KvScale::*value;
  std::array<const char*, 2> names;
};
constexpr std::array<ScaleNames, 2> kScales = {
    {{&KvScale::k, {"k_proj.k_scale", "k_scale"}}, {&KvScale::v, {"v_proj.v_scale", "v_scale"}}}};

constexpr const char* kTrainerName = "kv_scale";

std::string full_name(size_t layer, const char* name) {
  return fmt::format("model.layers.{}.self_attn.{}", layer, name);
}

std::span<const std::byte> bytes_of(const float& x) {
  return {reinterpret_cast<const std::byte*>(&x), sizeof(float)};
}

bool all_ones(const Weights& weights) {
  return std::ranges::all_of(weights.kv_scales(), [](const KvScale& s) { return s == KvScale{}; });
}

float checked(const std::filesystem::path& file, const std::string& name, float scale) {
  require(is_kv_scale(scale), "{}: {} is {}; a scale of keys or values must be positive and finite",
          file.string(), name, scale);
  return scale;
}

/// The scale stored as `name`, if it is there.
std::optional<float> find_scale(const ModelTensors& file, const std::string& name) {
  const auto it = file.tensors().find(name);
  if (it == file.tensors().end()) return std::nullopt;
  const TensorInfo& t = it->second;
  float scale = 0;
  if (t.type == StoredType::f32 && t.count() == 1) {
    std::memcpy(&scale, t.bytes.data(), sizeof(scale));
  } else if (t.type == StoredType::bf16 && t.count() == 1) {
    bf16 narrow;
    std::memcpy(&narrow, t.bytes.data(), sizeof(narrow));
    scale = narrow;
  } else {
    fail(ErrorCode::invalid_argument, "{}: {} is {} [{}], expected one element of F32 or BF16",
         file.path().string(), name, io::stored_type(t.type).name, fmt::join(t.shape, ", "));
  }
  return checked(file.path(), name, scale);
}

}  // namespace

bool names_kv_scale(const Weights& weights, std::string_view name) {
  for (size_t layer = 0; layer < weights.kv_scales().size(); ++layer) {
    for (const ScaleNames& scale : kScales) {
      for (const char* written : scale.names) {
        if (full_name(layer, written) == name) return true;
      }
    }
  }
  return false;
}

void load_kv_scales(const ModelTensors& file, Weights& weights) {
  std::vector<KvScale> scales(weights.kv_scales().size());
  for (size_t layer = 0; layer < scales.size(); ++layer) {
    for (const ScaleNames& row : kScales) {
      const std::string first = full_name(layer, row.names[0]), second = full_name(layer, row.names[1]);
      const std::optional<float> a = find_scale(file, first), b = find_scale(file, second);
      require(!a || !b || *a == *b, "{}: {} is {} and {} is {}; they name the same scale",
              file.path().string(), first, a.value_or(1), second, b.value_or(1));
      scales[layer].*row.value = a ? *a : b.value_or(1.0f);
    }
  }
  weights.set_kv_scales(std::move(scales));
}

void add_kv_scales(const Weights& weights, io::TensorMap& tensors) {
  if (all_ones(weights)) return;
  for (size_t layer = 0; layer < weights.kv_scales().size(); ++layer) {
    for (const ScaleNames& row : kScales) {
      tensors[full_name(layer, row.names[0])] = {
          StoredType::f32, {1}, bytes_of(weights.kv_scales()[layer].*row.value)};
    }
  }
}

void load_trainer_kv_scales(const io::SafetensorsFile& file, Weights& weights) {
  std::vector<KvScale> scales(weights.kv_scales().size());
  const auto it = file.tensors().find(kTrainerName);
  if (it != file.tensors().end()) {
    const TensorInfo& t = it->second;
    const std::vector<int64_t> shape = {static_cast<int64_t>(scales.size()), 2};
    require(t.type == StoredType::f32 && t.shape == shape, "{}: {} is {} [{}], the model needs F32 [{}]",
            file.path().string(), kTrainerName, io::stored_type(t.type).name, fmt::join(t.shape, ", "),
            fmt::join(shape, ", "));
    std::memcpy(scales.data(), t.bytes.data(), t.bytes.size());
    for (const KvScale& s : scales) {
      for (const ScaleNames& row : kScales) (void)checked(file.path(), kTrainerName, s.*row.value);
    }
  }
  weights.set_kv_scales(std::move(scales));
}

void add_trainer_kv_scales(const Weights& weights, io::TensorMap& tensors) {
  static_assert(sizeof(KvScale) == 2 * sizeof(float));
  if (all_ones(weights)) return;
  tensors[kTrainerName] = {StoredType::f32,
                           {static_cast<int64_t>(weights.kv_scales().size()), 2},
                           std::as_bytes(std::span(weights.kv_scales()))};
}

}  // namespace minite
