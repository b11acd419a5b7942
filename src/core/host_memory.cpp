#include "core/host_memory.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace minite {
namespace {

/// "MemTotal:   7994 kB" -> 7994 * 1024; 0 when the line is absent.
int64_t field_bytes(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string_view::npos) return 0;
  text.remove_prefix(at + key.size());
  const auto digit = text.find_first_not_of(' ');
  if (digit == std::string_view::npos) return 0;
  text.remove_prefix(digit);
  int64_t kib = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), kib);
  const bool plausible = result.ec == std::errc{} && kib >= 0 && kib < (int64_t{1} << 50);
  return plausible ? kib * 1024 : 0;
}

}  // namespace

HostMemory parse_meminfo(std::string_view text) {
  return {field_bytes(text, "MemTotal:"), field_bytes(text, "MemAvailable:")};
}

HostMemory host_memory() {
  std::ifstream file("/proc/meminfo");
  return parse_meminfo(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace minite
