#pragma once
// Numbers and strings of JSON lines whose bytes depend on the values alone.
#include <map>
#include <string>
#include <string_view>

namespace minite::io {

/// "text" with quotes and escapes; invalid UTF-8 is replaced.
[[nodiscard]] std::string json_text(std::string_view text);

/// "NAME":VALUE of each, joined by commas, in the order of the map. Numbers are the shortest text that reads
/// back as the same double, in any locale. JSON has no NaN or infinity: such a value is null, followed by
/// "NAME_nonfinite":"nan|inf|-inf".
[[nodiscard]] std::string json_members(const std::map<std::string, double>& values);
/// The same of one value.
[[nodiscard]] std::string json_member(const std::string& name, double value);

}  // namespace minite::io
