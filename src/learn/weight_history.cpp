#include "learn/weight_history.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "io/safetensors.h"

namespace minite::learn {
namespace {

constexpr const char* kFile = "rollout_weights.safetensors";

/// Visits every parameter with its place in the list of all masters.
template <class Visit>
void each_parameter(const Weights& weights, const Visit& visit) {
  int64_t begin = 0;
  for (const Parameter& p : weights.parameters()) {
    visit(p, begin);
    begin += p.master.size();
  }
}

std::string tensor_name(int64_t version, const Parameter& p) {
  return fmt::format("version_{:06}.{}", version, p.spec.name);
}

}  // namespace

void WeightHistory::keep(int64_t version, const Weights& weights) {
  if (depth_ == 0) return;
  std::vector<float>& all = versions_[version];
  all.resize(static_cast<size_t>(weights.parameter_count()));
  each_parameter(weights, [&](const Parameter& p, int64_t begin) {
    std::copy_n(p.master.as<float>(), p.master.size(), all.begin() + begin);
  });
  versions_.erase(versions_.begin(), versions_.lower_bound(oldest(version)));
}

void WeightHistory::restore(int64_t version, Weights& to) const {
  const auto it = versions_.find(version);
  if (it == versions_.end()) {
    fail(ErrorCode::internal, "version {} of the weights is not kept; there are [{}]", version,
         fmt::join(versions(), ", "));
  }
  require(static_cast<int64_t>(it->second.size()) == to.parameter_count(),
          "version {} of the weights has {} elements, the model {}", version, it->second.size(),
          to.parameter_count());
  each_parameter(to, [&](const Parameter& p, int64_t begin) {
    std::copy_n(it->second.begin() + begin, p.master.size(), p.master.as<float>());
  });
  to.round_masters();
}

std::vector<int64_t> WeightHistory::versions() const {
  std::vector<int64_t> all;
  for (const auto& [version, masters] : versions_) all.push_back(version);
  return all;
}

void WeightHistory::save(const std::filesystem::path& folder, const Weights& shape, int64_t newest) const {
  io::TensorMap tensors;
  for (const auto& [version, masters] : versions_) {
    if (version < oldest(newest) || version >= newest) continue;
    each_parameter(shape, [&, v = version, all = std::span(masters)](const Parameter& p, int64_t begin) {
      const auto part = all.subspan(static_cast<size_t>(begin), static_cast<size_t>(p.master.size()));
      tensors[tensor_name(v, p)] = {io::StoredType::f32, {p.spec.rows, p.spec.cols}, std::as_bytes(part)};
    });
  }
  if (!tensors.empty()) io::write_safetensors(folder / kFile, tensors, {});
}

void WeightHistory::load(const std::filesystem::path& folder, const Weights& shape, int64_t newest) {
  clear();
  if (depth_ == 0 || newest == 0) return;
  const io::SafetensorsFile file(folder / kFile);
  for (int64_t version = oldest(newest); version < newest; ++version) {
    std::vector<float>& all = versions_[version];
    all.resize(static_cast<size_t>(shape.parameter_count()));
    each_parameter(shape, [&](const Parameter& p, int64_t begin) {
      const io::TensorInfo& t = file.at(tensor_name(version, p));
      const std::vector<int64_t> want = {p.spec.rows, p.spec.cols};
      require(t.type == io::StoredType::f32 && t.shape == want, "{}: {} is {} [{}], the model needs F32 [{}]",
              file.path().string(), tensor_name(version, p), io::stored_type(t.type).name,
              fmt::join(t.shape, ", "), fmt::join(want, ", "));
      std::memcpy(all.data() + begin, t.bytes.data(), t.bytes.size());
    });
  }
}

}  // namespace minite::learn
