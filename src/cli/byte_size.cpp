#include "cli/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/fail.h"
#include "core/utf8.h"

namespace minite::cli {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr std::array<Unit, 8> kUnits = {{{"", 1},
                                         {"B", 1},
                                         {"KB", 1e3},
                                         {"MB", 1e6},
                                         {"GB", 1e9},
                                         {"KiB", 0x1p10},
                                         {"MiB", 0x1p20},
                                         {"GiB", 0x1p30}}};

}  // namespace

int64_t parse_byte_size(std::string_view option, const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const Unit& unit : kUnits) {
    const double bytes = number * unit.bytes;
    if (error == std::errc() && rest == unit.name && bytes >= 1 && bytes < 0x1p62) return std::llround(bytes);
  }
  fail(ErrorCode::invalid_argument, "{} {}: expected a size such as 500MB or 2GiB", option, printable(text));
}

std::string byte_text(int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  if (value < 1e6) return fmt::format("{:.1f} kB", value / 1e3);
  if (value < 1e9) return fmt::format("{:.1f} MB", value / 1e6);
  return fmt::format("{:.2f} GB", value / 1e9);
}

}  // namespace minite::cli
