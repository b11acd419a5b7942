#include "cli/quantized_groups.h"

#include <algorithm>
#include <array>
#include <set>

#include "cli/output.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

using io::StoredType;

constexpr std::array<StorageScheme, 7> kSchemes = {{
    {"minite", ".codes", ".block_scales", ".outer_scale", StoredType::u8, StoredType::u8, "", 0, 0,
     Element::none, false, true, false},
    {"ModelOpt NVFP4", ".weight", ".weight_scale", ".weight_scale_2", StoredType::u8, StoredType::f8_e4m3,
     "nvfp4", 4, 16, Element::e4m3, true, false, false},
    {"compressed-tensors NVFP4", ".weight_packed", ".weight_scale", ".weight_global_scale", StoredType::u8,
     StoredType::f8_e4m3, "nvfp4", 4, 16, Element::e4m3, true, false, false},
    {"compressed-tensors MXFP4", ".weight_packed", ".weight_scale", "", StoredType::u8, StoredType::u8,
     "mxfp4", 4, 32, Element::e8m0, false, true, false},
    {"MXFP8 of ModelOpt or compressed-tensors", ".weight", ".weight_scale", "", StoredType::f8_e4m3,
     StoredType::u8, "mxfp8", 8, 32, Element::e8m0, false, false, false},
    {"GPT-OSS MXFP4", "_blocks", "_scales", "", StoredType::u8, StoredType::u8, "mxfp4", 4, 32, Element::e8m0,
     false, true, true},
    {"torchao NVFP4", "_qdata", "_scale", "_per_tensor_scale", StoredType::u8, StoredType::f8_e4m3, "nvfp4",
     4, 16, Element::e4m3, false, true, false, "_act_per_tensor_scale", true},
}};

/// The numbers of the scheme's format, or of the one that the metadata names.
struct Layout {
  std::string format;
  int bits = 0, block = 0;
  bool outer = false;  ///< the metadata says that there is an outer scale
};
/// Of a spec in words, "nvfp4[te,outer=row]".
bool row_has_outer(const std::string& spec) {
  return spec.find("outer=") != std::string::npos && spec.find("outer=none") == std::string::npos;
}
std::optional<Layout> layout_of(const StorageScheme& scheme, const TensorSpace& space,
                                const std::string& name) {
  if (scheme.block > 0)
    return Layout{std::string(scheme.format), scheme.bits, scheme.block, scheme.outer_required};
  const bool columns = name.ends_with(".columnwise");
  const auto spec = space.metadata.find(columns ? "minite.columnwise.spec" : "minite.spec");
  if (spec == space.metadata.end()) return std::nullopt;
  const std::string wanted = spec->second.substr(0, spec->second.find('['));
  const bool outer = row_has_outer(spec->second);
  for (const Format& row : formats()) {
    if (row.name == wanted) return Layout{wanted, row.bits, row.block, outer};
  }
  return std::nullopt;
}

class GroupFinder {
 public:
  GroupFinder(const TensorSpace& space, std::vector<Fault>& faults) : space_(space), faults_(faults) {}

  std::vector<QuantizedGroup> run() {
    for (const auto& [key, entry] : space_.tensors) {
      for (const StorageScheme& scheme : kSchemes) {
        if (entry.info.type == scheme.codes_type && key.ends_with(scheme.codes) &&
            try_group(scheme, key, entry))
          break;
      }
    }
    report_orphans();
    return std::move(groups_);
  }

 private:
  void fault(const TensorSpace::Entry& entry, const std::string& tensor, std::string what) {
    faults_.push_back({entry.file, tensor, std::move(what)});
  }

  /// Whether `key` belongs to the scheme, sound or not.
  bool try_group(const StorageScheme& scheme, const std::string& key, const TensorSpace::Entry& codes) {
    const std::string name = key.substr(0, key.size() - scheme.codes.size());
    const TensorSpace::Entry* scales = space_.find(name + std::string(scheme.scales));
    if (scales == nullptr) {
      if (!scheme.codes_alone) return false;  // another scheme may know them
      fault(codes, key, fmt::format("has no {}{}: codes without block scales", name, scheme.scales));
      return true;
    }
    used_.insert(name + std::string(scheme.scales));
    if (scales->info.type != scheme.scales_type) return false;
    const std::string outer_name = name + std::string(scheme.outer);
    const TensorSpace::Entry* outer = scheme.outer.empty() ? nullptr : space_.find(outer_name);
    if (outer != nullptr) used_.insert(outer_name);
    used_.insert(name + std::string(scheme.activation));
    const auto layout = layout_of(scheme, space_, name);
    if (!layout) {
      fault(codes, key, "has codes of an unknown format: the metadata has no minite.spec");
      return true;
    }
    if (outer == nullptr && layout->outer) {
      fault(codes, key, fmt::format("has no {}: block scales without their outer scale", outer_name));
      return true;
    }
    add(scheme, *layout, name, codes, *scales, outer);
    return true;
  }

  void add(const StorageScheme& scheme, const Layout& layout, const std::string& name,
           const TensorSpace::Entry& codes, const TensorSpace::Entry& scales,
           const TensorSpace::Entry* outer) {
    std::vector<int64_t> shape = codes.info.shape;
    const int64_t block_bytes = layout.block * layout.bits / 8;
    const std::string scales_name = name + std::string(scheme.scales);
    const std::string codes_name = name + std::string(scheme.codes);
    if (scheme.blocked) {
      if (shape.empty() || shape.back() != block_bytes) {
        fault(codes, codes_name,
              fmt::format("is {}; blocks of {} bytes come last", shape_text(shape), block_bytes));
        return;
      }
      shape.pop_back();
    }
    if (shape.size() < 2) {
      fault(codes, codes_name, fmt::format("is {}; codes have two dimensions or three", shape_text(shape)));
      return;
    }
    // Codes of an odd K fill the last byte; the number of blocks is the same for both.
    std::vector<int64_t> expected = shape;
    const int64_t elements = scheme.blocked ? shape.back() * layout.block : shape.back() * 8 / layout.bits;
    expected.back() = (elements + layout.block - 1) / layout.block;
    if (scales.info.shape != expected && !(scheme.tiled && fits_tiles(scales, shape, expected.back()))) {
      fault(scales, scales_name,
            fmt::format("is {}, but codes {} in blocks of {} need {}", shape_text(scales.info.shape),
                        shape_text(codes.info.shape), layout.block, shape_text(expected)));
      return;
    }
    shape.back() = elements;
    if (outer != nullptr && !outer_fits(*outer, shape)) {
      fault(*outer, name + std::string(scheme.outer),
            fmt::format("is {} {}; expected F32 with one value, one an expert or one a row of {}",
                        io::stored_type(outer->info.type).name, shape_text(outer->info.shape),
                        shape_text(shape)));
      return;
    }
    const TensorSpace::Entry* activation =
        scheme.activation.empty() ? nullptr : space_.find(name + std::string(scheme.activation));
    groups_.push_back({&scheme, name, layout.format, shape, &codes, &scales, outer, activation});
  }

  /// Whether scales have the bytes of whole 128x4 tiles of [.., rows, blocks], in any shape.
  static bool fits_tiles(const TensorSpace::Entry& scales, const std::vector<int64_t>& shape,
                         int64_t blocks) {
    const int64_t rows = shape[shape.size() - 2], experts = shape.size() == 3 ? shape[0] : 1;
    return scales.info.count() == experts * ((rows + 127) / 128) * ((blocks + 3) / 4) * 512;
  }

  static bool outer_fits(const TensorSpace::Entry& outer, const std::vector<int64_t>& shape) {
    if (outer.info.type != StoredType::f32) return false;
    const int64_t count = outer.info.count();
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    return count == 1 || count == rows || (shape.size() == 3 && count == shape[0]);
  }

  /// Scales whose codes are not there.
  void report_orphans() {
    for (const auto& [key, entry] : space_.tensors) {
      for (const std::string_view suffix : {".block_scales", ".outer_scale", ".weight_scale_2",
                                            ".weight_global_scale", "_per_tensor_scale"}) {
        if (key.ends_with(suffix) && used_.count(key) == 0) fault(entry, key, "is a scale without codes");
      }
    }
  }

  const TensorSpace& space_;
  std::vector<Fault>& faults_;
  std::vector<QuantizedGroup> groups_;
  std::set<std::string> used_;
};

}  // namespace

std::span<const StorageScheme> storage_schemes() { return kSchemes; }

std::vector<QuantizedGroup> find_groups(const TensorSpace& space, std::vector<Fault>& faults) {
  return GroupFinder(space, faults).run();
}

}  // namespace minite::cli
