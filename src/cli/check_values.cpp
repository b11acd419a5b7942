// The checks of quantized_groups.h that read every byte.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/quantized_groups.h"
#include "core/fail.h"
#include "formats/element_codes.h"

namespace minite::cli {
namespace {

/// "[3, 17]": where element `index` of a tensor of `shape` stands.
std::string place_of(int64_t index, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i > 0; --i) {
    at[i - 1] = index % shape[i - 1];
    index /= shape[i - 1];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

/// How often something holds, and where first.
struct Count {
  int64_t count = 0, first = -1;
  void add(bool holds, int64_t index) {
    if (!holds) return;
    if (count++ == 0) first = index;
  }
};

template <class T>
T element(const io::TensorInfo& tensor, int64_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// Whether element `i` is NaN or infinite; false for types without such values.
bool is_nonfinite(const io::TensorInfo& tensor, int64_t i) {
  switch (tensor.type) {
    case io::StoredType::f64:
      return !std::isfinite(element<double>(tensor, i));
    case io::StoredType::f32:
      return !std::isfinite(element<float>(tensor, i));
    case io::StoredType::f16:
      return (element<uint16_t>(tensor, i) & 0x7C00u) == 0x7C00u;
    case io::StoredType::bf16:
      return (element<uint16_t>(tensor, i) & 0x7F80u) == 0x7F80u;
    case io::StoredType::f8_e4m3:
      return (element<uint8_t>(tensor, i) & 0x7Fu) == 0x7Fu;
    case io::StoredType::f8_e5m2:
      return (element<uint8_t>(tensor, i) & 0x7Cu) == 0x7Cu;
    case io::StoredType::f8_e8m0:
      return element<uint8_t>(tensor, i) == 0xFFu;
    default:
      return false;
  }
}

void check_scales(const QuantizedGroup& group, std::vector<Fault>& faults) {
  const io::TensorInfo& scales = group.scales->info;
  const std::string name = group.name + std::string(group.scheme->scales);
  const Element encoding =
      group.scheme->block > 0 ? group.scheme->scale : format(std::string_view(group.format)).block_scale;
  Count nan, zero;
  for (int64_t i = 0; i < scales.count(); ++i) {
    const auto byte = element<uint8_t>(scales, i);
    nan.add(is_nan_scale(encoding, byte), i);
    zero.add(is_zero_scale(encoding, byte), i);
  }
  if (nan.count > 0)
    faults.push_back({group.scales->file, name,
                      fmt::format("has {} NaN scale bytes, the first at {}", nan.count,
                                  place_of(nan.first, scales.shape))});
  if (scales.count() > 0 && zero.count == scales.count())
    faults.push_back({group.scales->file, name, "has scales of 0 only: every value decodes to 0"});
}

/// Of an outer scale, which is stored as the group's name and `suffix`; nullptr: there is none.
void check_outer(const QuantizedGroup& group, const TensorSpace::Entry* entry, std::string_view suffix,
                 std::vector<Fault>& faults) {
  if (entry == nullptr || entry->info.type != io::StoredType::f32) return;
  const io::TensorInfo& outer = entry->info;
  Count bad;
  for (int64_t i = 0; i < outer.count(); ++i) {
    const auto value = element<float>(outer, i);
    bad.add(std::isfinite(value) && value <= 0, i);
  }
  if (bad.count == 0) return;
  faults.push_back({entry->file, group.name + std::string(suffix),
                    fmt::format("has {} outer scales that are not above 0, the first, {}, at {}", bad.count,
                                element<float>(outer, bad.first), place_of(bad.first, outer.shape))});
}

}  // namespace

void check_values(const TensorSpace& space, const std::vector<QuantizedGroup>& groups,
                  std::vector<Fault>& faults) {
  std::vector<const TensorSpace::Entry*> scales;  // NaN among them is said by check_scales
  for (const QuantizedGroup& group : groups) {
    check_scales(group, faults);
    check_outer(group, group.outer, group.scheme->outer, faults);
    check_outer(group, group.activation, group.scheme->activation, faults);
    scales.push_back(group.scales);
  }
  for (const auto& [name, entry] : space.tensors) {
    if (std::find(scales.begin(), scales.end(), &entry) != scales.end()) continue;
    Count bad;
    for (int64_t i = 0; i < entry.info.count(); ++i) bad.add(is_nonfinite(entry.info, i), i);
    if (bad.count > 0)
      faults.push_back({entry.file, name,
                        fmt::format("has {} values that are NaN or infinite, the first at {}", bad.count,
                                    place_of(bad.first, entry.info.shape))});
  }
}

}  // namespace minite::cli
