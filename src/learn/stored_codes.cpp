#include "learn/stored_codes.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"

namespace minite::learn {
namespace {

using checkpoints::StoredModule;

constexpr std::string_view kWeight = ".weight";
constexpr float kRange = 2688.0f;  ///< 6 * 448: an amax over its outer scale

/// The multiplier of row `row` of a module.
float outer_of(const StoredModule& module, int64_t row) {
  const bool inverse = module.layout->stored == StoredGlobal::reciprocal;
  size_t at = 0;
  if (module.layout->outer == OuterScale::row) {
    at = static_cast<size_t>(row);
  } else {
    while (at + 1 < module.segments.size() && module.segments[at + 1].begin <= row) ++at;
  }
  return inverse ? 1.0f / module.global[at] : module.global[at];
}

}  // namespace

StoredCodes::StoredCodes(const std::filesystem::path& folder)
    : path_(folder), folder_(checkpoints::open_quantized(folder, checkpoints::OnFault::thrown)) {}

std::vector<StoredCodes::Part> StoredCodes::parts_of(const ParameterSpec& parameter, int64_t unit) const {
  const int64_t rows = parameter.rows / parameter.units, begin = unit * rows, end = begin + rows;
  std::vector<Part> parts;
  int64_t at = 0;
  for (const CheckpointPiece& piece : parameter.pieces) {
    const int64_t first = std::max(begin, at), last = std::min(end, at + piece.rows);
    if (first < last) {
      Part part{piece.name, nullptr, first - at, last - first, first - begin};
      if (part.name.ends_with(kWeight)) part.name.resize(part.name.size() - kWeight.size());
      const auto found = folder_.modules.find(part.name);
      if (found != folder_.modules.end()) part.module = &found->second;
      parts.push_back(std::move(part));
    }
    at += piece.rows;
  }
  return parts;
}

void StoredCodes::copy(const Part& part, const QTensor& to) const {
  const StoredModule& m = *part.module;
  require(m.layout->format == to.spec.format, "{}: {} holds {}, the recipe asks for {}", path_.string(),
          part.name, format(m.layout->format).name, format(to.spec.format).name);
  require(m.cols == to.cols && part.first + part.rows <= m.rows,
          "{}: {} is {} x {}, the model has {} columns", path_.string(), part.name, m.rows, m.cols, to.cols);
  require(to.spec.blocks == BlockShape::row,
          "{}: the recipe has 2D blocks, codes of a folder are blocks of a row", part.name);
  const int64_t codes = to.code_stride(), scales = to.scale_stride();
  std::memcpy(to.codes + part.at * codes, m.codes->bytes.data() + part.first * codes,
              static_cast<size_t>(part.rows * codes));
  std::memcpy(to.block_scales + part.at * scales, m.scales->bytes.data() + part.first * scales,
              static_cast<size_t>(part.rows * scales));
  if (to.outer == nullptr || m.global.empty()) {
    require(to.outer == nullptr && m.global.empty(), "{}: {} has {} outer scale, the recipe has {}",
            path_.string(), part.name, m.global.empty() ? "no" : "an", to.outer == nullptr ? "none" : "one");
    return;
  }
  const bool each = to.spec.outer == OuterScale::row;
  for (int64_t r = 0; r < part.rows; ++r) {
    const float outer = outer_of(m, part.first + r);
    float& place = to.outer[each ? part.at + r : 0];
    require(each || (part.at == 0 && r == 0) || place == outer,
            "{}: the outer scale of {} is {}, another part of the same product has {}; convert with --fused "
            "rescale",
            path_.string(), part.name, outer, place);
    place = outer;
    if (to.amax != nullptr) to.amax[each ? part.at + r : 0] = outer * kRange;
  }
}

bool StoredCodes::fill(const ParameterSpec& parameter, int64_t unit, const QTensor& to) const {
  const std::vector<Part> parts = parts_of(parameter, unit);
  const auto stored =
      std::count_if(parts.begin(), parts.end(), [](const Part& p) { return p.module != nullptr; });
  if (stored == 0) return false;
  for (const Part& part : parts) {
    require(part.module != nullptr, "{}: {} is not in codes, but another part of {} is", path_.string(),
            part.name, parameter.name);
    copy(part, to);
  }
  return true;
}

}  // namespace minite::learn
