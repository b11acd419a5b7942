#include "diagnostics/align_fresh.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace minite::diagnostics {
namespace {

constexpr std::array<std::string_view, 4> kInputs = {"input", "input.codes", "input.block_scales",
                                                     "input.outer_scale"};

/// Kernels that quantize before they round to the dtype of the activations: their codes are a function of
/// this point, not of `input`.
struct Fused {
  std::string_view module, from;
};
constexpr std::array<Fused, 4> kFused = {{{"qkv", "attn_norm.input"},
                                          {"gate_up", "mlp_norm.input"},
                                          {"down", "gate_up.output"},
                                          {"experts.down", "experts.gate_up.output"}}};

const PointResult* find(const Comparison& c, const std::string& name) {
  const auto at = std::ranges::find(c.points, name, &PointResult::name);
  return at == c.points.end() ? nullptr : &*at;
}

std::string in_layer(int layer, std::string_view point) { return fmt::format("layers.{}.{}", layer, point); }

/// Names of the points that a residual sum adds.
std::vector<std::string> summands(const Comparison& c, const PointResult& p) {
  if (p.layer < 0) return {};
  if (p.module == "mlp_norm") return {in_layer(p.layer, "attn_norm.input"), in_layer(p.layer, "o.output")};
  if (p.module != "attn_norm" || p.layer == 0) return {};
  const std::string combined = in_layer(p.layer - 1, "combine.output");
  return {in_layer(p.layer - 1, "mlp_norm.input"),
          find(c, combined) != nullptr ? combined : in_layer(p.layer - 1, "down.output")};
}

/// Names of what the codes or scales of an input are made of.
std::vector<std::string> before_codes(const PointResult& p) {
  std::vector<std::string> names = {in_layer(p.layer, p.module + ".input")};
  const auto fused = std::ranges::find(kFused, p.module, &Fused::module);
  if (fused != kFused.end()) names.push_back(in_layer(p.layer, fused->from));
  return names;
}

/// Names of the inputs of a module that both sides hold; nothing when its weights differ or are of another
/// format.
std::vector<std::string> inputs(const Comparison& c, const PointResult& p) {
  std::vector<std::string> names;
  for (const PointResult& q : c.points) {
    if (q.layer != p.layer || q.module != p.module) continue;
    if (q.point.starts_with("weight.") && q.status != PointStatus::equal) return {};
    if (std::ranges::count(kInputs, q.point) > 0) names.push_back(q.name);
  }
  return names;
}

}  // namespace

RowSources sources_of(const Comparison& c, const PointResult& p) {
  RowSources sources{{}, "execution"};
  if (p.layer < 0 || p.domain_a == "tensor") return sources;
  if (is_residual(p.module, p.point)) {
    sources.points = summands(c, p);
  } else if (p.point.starts_with("input.")) {
    sources = {before_codes(p), "conversion"};
  } else if (p.point == "output") {
    sources.points = inputs(c, p);
  }
  const bool known = std::ranges::all_of(sources.points, [&](const std::string& name) {
    const PointResult* q = find(c, name);
    return q != nullptr && q->status != PointStatus::format &&
           row_table(q->module, q->point) == row_table(p.module, p.point);
  });
  if (!known) sources.points.clear();
  return sources;
}

int64_t fresh_rows(const Aligned& s, const PointResult& p, const RowSources& sources) {
  if (p.status != PointStatus::differs || sources.points.empty()) return 0;
  const RowPairs& pairs = pairs_of(s, *s.a.find(p.name));
  const auto equal = [&](const std::string& name, size_t at) {
    const io::TensorInfo &x = s.a.tensor(name), &y = s.b.tensor(name);
    const auto bytes = static_cast<size_t>(row_elements(x) * io::stored_type(x.type).bytes);
    return std::memcmp(x.bytes.data() + static_cast<size_t>(pairs[at].first) * bytes,
                       y.bytes.data() + static_cast<size_t>(pairs[at].second) * bytes, bytes) == 0;
  };
  int64_t rows = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (equal(p.name, i)) continue;
    rows += std::ranges::all_of(sources.points, [&](const std::string& name) { return equal(name, i); });
  }
  return rows;
}

}  // namespace minite::diagnostics
