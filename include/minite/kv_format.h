#pragma once
// Formats of keys and values: what attention reads, on either side of a run.
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/tensor.h"

namespace minite {

/// How keys and values are kept between the op that writes them and attention: a row of kv_formats().
enum class KvFormat : uint8_t { bf16, fp8 };

/// One row of the table.
struct KvFormatRow {
  KvFormat id;
  std::string_view name;        ///< as written on the command line
  std::string_view alias;       ///< another name that is accepted, "" for none
  bool scaled;                  ///< codes of one byte and a static scale; else the dtype that ops exchange
  std::string_view definition;  ///< one sentence
};

/// All rows in KvFormat order.
[[nodiscard]] std::span<const KvFormatRow> kv_formats();
[[nodiscard]] const KvFormatRow& kv_format(KvFormat id);
/// The row named `name`; throws invalid_argument that names `option` and every row.
[[nodiscard]] KvFormat parse_kv_format(std::string_view option, std::string_view name);
/// Bytes of one key or value element between ops that exchange `exchanged`.
[[nodiscard]] int64_t kv_element_size(KvFormat format, DType exchanged);

/// The static scales of one layer: a value is its code times the scale.
struct KvScale {
  float k = 1.0f, v = 1.0f;
  friend constexpr bool operator==(const KvScale&, const KvScale&) = default;
};
/// Whether `scale` can be one: positive and finite.
[[nodiscard]] bool is_kv_scale(float scale);

}  // namespace minite
