#include "checkpoints/layout.h"

#include <vector>

#include "core/fail.h"

namespace minite::checkpoints {
namespace {

using io::StoredType;
using C = Container;

constexpr std::array<ContainerRow, 4> kContainers = {{
    {C::plain, "bf16", "a Hugging Face folder with BF16 weights"},
    {C::modelopt, "modelopt", "a Hugging Face folder as NVIDIA ModelOpt exports it"},
    {C::compressed_tensors, "compressed-tensors", "a Hugging Face folder as llm-compressor exports it"},
    {C::gguf, "gguf", "one GGUF file for llama.cpp"},
}};
constexpr std::array<std::string_view, 3> kActivations = {"a16", "a8", "a4"};

constexpr std::array<Layout, 6> kLayouts = {{
    {"ModelOpt NVFP4", C::modelopt, FormatId::nvfp4, ".weight", ".weight_scale", ".weight_scale_2",
     ".input_scale", StoredType::u8, StoredType::f8_e4m3, StoredGlobal::multiplier, true, OuterScale::tensor,
     Convention::modelopt, Activations::a4, "NVFP4", "W4A16_NVFP4"},
    {"ModelOpt MXFP8", C::modelopt, FormatId::mxfp8, ".weight", ".weight_scale", "", "", StoredType::f8_e4m3,
     StoredType::u8, StoredGlobal::none, true, OuterScale::none, Convention::modelopt, Activations::a8,
     "MXFP8", ""},
    {"compressed-tensors NVFP4", C::compressed_tensors, FormatId::nvfp4, ".weight_packed", ".weight_scale",
     ".weight_global_scale", ".input_global_scale", StoredType::u8, StoredType::f8_e4m3,
     StoredGlobal::reciprocal, false, OuterScale::tensor, Convention::compressed_tensors, Activations::a4,
     "nvfp4-pack-quantized", "nvfp4-pack-quantized"},
    {"compressed-tensors MXFP4", C::compressed_tensors, FormatId::mxfp4, ".weight_packed", ".weight_scale",
     "", "", StoredType::u8, StoredType::u8, StoredGlobal::none, false, OuterScale::none,
     Convention::compressed_tensors, Activations::a4, "mxfp4-pack-quantized", "mxfp4-pack-quantized"},
    {"compressed-tensors MXFP8", C::compressed_tensors, FormatId::mxfp8, ".weight", ".weight_scale", "", "",
     StoredType::f8_e4m3, StoredType::u8, StoredGlobal::none, false, OuterScale::none,
     Convention::compressed_tensors, Activations::a8, "mxfp8-quantized", "mxfp8-quantized"},
    // One outer scale a row, which only miniTE reads: other loaders must stop at the algorithm's name. The
    // convention is one that has outer scales of rows and decodes as ModelOpt's, q * fl(d * s).
    {"miniTE NVFP4 with a scale a row", C::modelopt, FormatId::nvfp4, ".weight", ".weight_scale",
     ".weight_scale_2", ".input_scale", StoredType::u8, StoredType::f8_e4m3, StoredGlobal::multiplier, false,
     OuterScale::row, Convention::flashinfer, Activations::a4, "MINITE_NVFP4_ROW", "MINITE_W4A16_NVFP4_ROW"},
}};

template <class Rows, class Name>
auto named(std::string_view what, std::string_view wanted, const Rows& rows, const Name& name_of) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < rows.size(); ++i) {
    names.push_back(name_of(rows[i]));
    if (names.back() == wanted) return i;
  }
  fail(ErrorCode::not_found, "{} '{}'; known: {}{}", what, wanted, fmt::join(names, ", "),
       did_you_mean(wanted, names));
}

/// Tensors and experts are one here: a file stores an expert as a tensor.
OuterScale stored_outer(OuterScale outer) { return outer == OuterScale::expert ? OuterScale::tensor : outer; }

}  // namespace

std::span<const ContainerRow> containers() { return kContainers; }
std::string_view to_string(Container container) { return kContainers[static_cast<size_t>(container)].name; }
Container parse_container(std::string_view name) {
  return kContainers[named("unknown container", name, kContainers,
                           [](const ContainerRow& row) { return row.name; })]
      .id;
}

std::string_view to_string(Activations activations) { return kActivations[static_cast<size_t>(activations)]; }
Activations parse_activations(std::string_view name) {
  return static_cast<Activations>(
      named("unknown activations", name, kActivations, [](std::string_view row) { return row; }));
}

std::span<const Layout> layouts() { return kLayouts; }

const Layout* find_layout(Container container, FormatId format, OuterScale outer) {
  for (const Layout& row : kLayouts) {
    if (row.container == container && row.format == format && row.outer == stored_outer(outer)) return &row;
  }
  return nullptr;
}

std::string formats_of(Container container) {
  std::vector<std::string> names;
  for (const Layout& row : kLayouts) {
    if (row.container != container) continue;
    names.push_back(fmt::format("{}{}", format(row.format).name,
                                row.outer == OuterScale::row ? " with a scale a row" : ""));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string_view stem_of(std::string_view name, std::string_view suffix) {
  if (suffix.empty() || !name.ends_with(suffix) || name.size() == suffix.size()) return {};
  return name.substr(0, name.size() - suffix.size());
}

bool is_kv_scale_name(std::string_view name) {
  for (const KvScaleName& row : kKvScaleNames) {
    if (!stem_of(name, row.compressed_tensors).empty()) return true;  // ModelOpt's names end so as well
  }
  return false;
}

std::string kv_scale_name(const std::string& name, Container container) {
  for (const KvScaleName& row : kKvScaleNames) {
    const std::string_view full = stem_of(name, row.modelopt), half = stem_of(name, row.compressed_tensors);
    if (half.empty()) continue;
    const std::string stem(full.empty() ? half : full);
    if (container == Container::modelopt) return stem + std::string(row.modelopt);
    if (container == Container::compressed_tensors) return stem + std::string(row.compressed_tensors);
  }
  return name;
}

}  // namespace minite::checkpoints
