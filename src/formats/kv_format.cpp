// One row per format of keys and values.
#include "minite/kv_format.h"

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/fail.h"

namespace minite {
namespace {

constexpr std::array<KvFormatRow, 2> kKvFormats = {{
    {KvFormat::bf16, "bf16", "", false, "as ops exchange them: BF16"},
    {KvFormat::fp8, "fp8", "fp8_e4m3", true,
     "E4M3 codes of one byte, with one static FP32 scale a layer for keys and one for values"},
}};

}  // namespace

std::span<const KvFormatRow> kv_formats() { return kKvFormats; }
const KvFormatRow& kv_format(KvFormat id) { return kKvFormats[static_cast<size_t>(id)]; }

KvFormat parse_kv_format(std::string_view option, std::string_view name) {
  std::vector<std::string_view> names;
  for (const KvFormatRow& row : kKvFormats) {
    if (name == row.name || (!row.alias.empty() && name == row.alias)) return row.id;
    names.push_back(row.name);
    if (!row.alias.empty()) names.push_back(row.alias);
  }
  fail(ErrorCode::invalid_argument, "{}={}: expected {}{}", option, name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

int64_t kv_element_size(KvFormat format, DType exchanged) {
  return kv_format(format).scaled ? 1 : dtype_size(exchanged);
}

bool is_kv_scale(float scale) { return std::isfinite(scale) && scale > 0.0f; }

}  // namespace minite
