#include "io/json_line.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace minite::io {
namespace {

std::string number(double value) {
  std::array<char, 32> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

const char* nonfinite_name(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_member(const std::string& name, double value) {
  if (std::isfinite(value)) return fmt::format("{}:{}", json_text(name), number(value));
  return fmt::format("{}:null,{}:\"{}\"", json_text(name), json_text(name + "_nonfinite"),
                     nonfinite_name(value));
}

std::string json_members(const std::map<std::string, double>& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (!text.empty()) text += ',';
    text += json_member(name, value);
  }
  return text;
}

}  // namespace minite::io
