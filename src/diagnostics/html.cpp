#include "diagnostics/html.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "core/utf8.h"

namespace minite::diagnostics {
namespace {

struct Entity {
  char character;
  std::string_view text;
};
constexpr Entity kEntities[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

// XML 1.0, production Char: a few code points are not allowed even when escaped.
bool is_xml_char(char32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n' || c == '\r';
  return c != 0x7F && c != 0xFFFE && c != 0xFFFF;
}

std::string with_thousands(std::string digits) {
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size();) {
    const auto next = read_utf8(text, i);
    const size_t size = next ? next->bytes : 1;
    if (!next || !is_xml_char(next->code_point)) {
      out += '?';
    } else if (size == 1) {
      const Entity* entity = nullptr;
      for (const auto& e : kEntities) entity = e.character == text[i] ? &e : entity;
      entity != nullptr ? out += entity->text : out += text[i];
    } else {
      out += text.substr(i, size);
    }
    i += size;
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j)
      word = (word << 8) | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[(word >> (18 - 6 * j)) & 63] : '=';
    }
  }
  return out;
}

std::string data_uri(std::string_view media_type, std::string_view bytes) {
  return fmt::format("data:{};base64,{}", media_type, base64(bytes));
}

std::string short_number(double value) {
  constexpr double kSmall = 1e-3;
  constexpr double kLarge = 1e7;
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : (value > 0 ? "inf" : "-inf");
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 1000 && size < kLarge) return with_thousands(fmt::format("{:.0f}", value));
  if (size >= kSmall && size < 1000) return fmt::format("{:.3g}", value);
  // "1.50e-07" -> "1.5e-7"
  const std::string text = fmt::format("{:.2e}", value);
  const size_t e = text.find('e');
  std::string mantissa = text.substr(0, e);
  while (mantissa.ends_with('0')) mantissa.pop_back();
  if (mantissa.ends_with('.')) mantissa.pop_back();
  return fmt::format("{}e{}", mantissa, std::stoi(text.substr(e + 1)));
}

}  // namespace minite::diagnostics
