#pragma once
// How other projects store quantized weights in a Hugging Face folder: one row of layouts() each.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/safetensors.h"
#include "minite/convention.h"
#include "minite/format.h"

namespace minite::checkpoints {

/// Who reads a folder or a file: a row of containers().
enum class Container : uint8_t { plain, modelopt, compressed_tensors, gguf };

struct ContainerRow {
  Container id;
  std::string_view name;     ///< of --to
  std::string_view purpose;  ///< one sentence
};
[[nodiscard]] std::span<const ContainerRow> containers();
[[nodiscard]] std::string_view to_string(Container container);
/// Errors: not_found, with the nearest name.
[[nodiscard]] Container parse_container(std::string_view name);

/// What the numbers of activations are: of --activations.
enum class Activations : uint8_t { a16, a8, a4 };
[[nodiscard]] std::string_view to_string(Activations activations);
/// Errors: not_found, with the nearest name.
[[nodiscard]] Activations parse_activations(std::string_view name);

/// A linear layer X in a folder. Codes hold two elements a byte for 4 bits, the even one in the low nibble;
/// block scales are [rows, cols / block], in rows, not swizzled.
struct Layout {
  std::string_view name;
  Container container;
  FormatId format;
  /// What follows X; empty: does not exist.
  std::string_view codes, scales, global, input_global;
  io::StoredType codes_type, scales_type;
  StoredGlobal stored;     ///< of both globals: multiplier amax / 2688, or reciprocal 2688 / amax
  bool scalar;             ///< globals are scalars (), not [1]
  OuterScale outer;        ///< what one value of `global` is for
  Convention convention;   ///< whose bytes convert makes, and the order in which codes decode
  Activations narrow;      ///< activations of the quantized variant
  std::string_view label;  ///< quant_algo (ModelOpt) or format (compressed-tensors) of that variant
  std::string_view label_weights_only;  ///< of 16-bit activations; empty: there is none
};
[[nodiscard]] std::span<const Layout> layouts();
/// The layout of `container` for `format` and an outer scale of `outer` (tensor and expert are one here);
/// nullptr: there is none.
[[nodiscard]] const Layout* find_layout(Container container, FormatId format, OuterScale outer);
/// The layouts of a container in words, for messages: "nvfp4, mxfp8".
[[nodiscard]] std::string formats_of(Container container);

/// The name without `suffix`, or nothing when it ends otherwise.
[[nodiscard]] std::string_view stem_of(std::string_view name, std::string_view suffix);

/// A scale of keys or values: `X.k_proj.k_scale` and `X.v_proj.v_scale` of ModelOpt, `X.k_scale` and
/// `X.v_scale` of compressed-tensors.
struct KvScaleName {
  std::string_view modelopt, compressed_tensors;
};
inline constexpr std::array<KvScaleName, 2> kKvScaleNames = {
    {{".k_proj.k_scale", ".k_scale"}, {".v_proj.v_scale", ".v_scale"}}};
/// Whether a tensor is one of them.
[[nodiscard]] bool is_kv_scale_name(std::string_view name);
/// The name that `container` has for it; other names, and containers without names of their own, as they are.
[[nodiscard]] std::string kv_scale_name(const std::string& name, Container container);

}  // namespace minite::checkpoints
