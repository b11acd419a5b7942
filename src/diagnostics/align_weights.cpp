#include "diagnostics/align_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace minite::diagnostics {
namespace {

constexpr std::string_view kDigest = ".weight.digest";

std::string other_expert(const std::vector<float>& x, const std::vector<float>& y, size_t n) {
  const auto part = [&](const std::vector<float>& v, size_t e) { return std::span(v).subspan(e * n, n); };
  const auto named = [&](const std::vector<float>& right, const std::vector<float>& wrong, char side) {
    std::string text;
    for (size_t e = 0; e < right.size() / n; ++e) {
      if (std::ranges::equal(part(right, e), part(wrong, e))) continue;
      size_t other = 0;
      while (other < right.size() / n && !std::ranges::equal(part(right, other), part(wrong, e))) ++other;
      if (other == right.size() / n) return std::string();
      text += fmt::format(": expert {} of {} has the scales of expert {}", e, side, other);
    }
    return text;
  };
  const std::string text = named(x, y, 'B');
  return text.empty() ? named(y, x, 'A') : text;
}

}  // namespace

WeightSlip weight_slip(const Aligned& s, const PointResult& p) {
  WeightSlip slip;
  slip.parameter = p.name.substr(0, p.name.size() - kDigest.size());
  std::vector<std::string> left = s.a.manifest().weights.digests.at(slip.parameter),
                           right = s.b.manifest().weights.digests.at(slip.parameter);
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (left[i] != right[i]) slip.moved.push_back(i);
  }
  std::ranges::sort(left);
  std::ranges::sort(right);
  slip.permuted = left == right;
  return slip;
}

bool stale(const Aligned& s) {
  const int64_t promised = s.a.manifest().contract.weight_version;
  return s.a.manifest().weights.version != promised || s.b.manifest().weights.version != promised;
}

std::string stale_text(const Aligned& s) {
  return fmt::format("Stale: the contract says version {}, in use were {} at A and {} at B.",
                     s.a.manifest().contract.weight_version, s.a.manifest().weights.version,
                     s.b.manifest().weights.version);
}

bool permuted_parts(const Aligned& s, const PointResult& p) {
  const io::TensorInfo &x = s.a.tensor(p.name), &y = s.b.tensor(p.name);
  if (x.shape.size() < 2 || x.shape != y.shape || p.point.ends_with("outer_scale")) return false;
  const auto parts = [](const io::TensorInfo& t) {
    const auto count = static_cast<size_t>(t.shape.front()), bytes = t.bytes.size() / count;
    std::vector<std::string> all;
    for (size_t i = 0; i < count; ++i)
      all.emplace_back(reinterpret_cast<const char*>(t.bytes.data()) + i * bytes, bytes);
    std::ranges::sort(all);
    return all;
  };
  return parts(x) == parts(y);
}

std::string scale_text(const Aligned& s, const PointResult& p) {
  if (!p.point.ends_with("outer_scale")) return "";
  const auto x = s.a.values<float>(p.name, io::StoredType::f32),
             y = s.b.values<float>(p.name, io::StoredType::f32);
  const std::vector<int64_t>& shape = s.a.tensor(p.name).shape;
  if (p.point.starts_with("weight.") && shape.size() == 2 && x.size() == y.size()) {
    const std::string text = other_expert(x, y, static_cast<size_t>(shape[1]));
    if (!text.empty()) return text;
  }
  if (x.size() != y.size()) return "";
  const float ratio = y[0] / x[0];
  const bool constant = std::ranges::equal(x, y, [&](float left, float right) {
    return std::abs(right / left - ratio) <= 1e-6f * std::abs(ratio);
  });
  return constant ? fmt::format(": those of B are {} times those of A", ratio) : "";
}

}  // namespace minite::diagnostics
