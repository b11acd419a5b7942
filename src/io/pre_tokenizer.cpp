#include "io/pre_tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/fail.h"

namespace minite::io {

const std::vector<SplitPattern>& split_patterns() {
  static const std::vector<SplitPattern> rows = {
      {"GPT-2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
      {"Llama 3",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
      {"Qwen",
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
  };
  return rows;
}

std::string_view gpt2_pattern() { return split_patterns()[0].regex; }

PreTokenizer::PreTokenizer(const std::vector<std::string_view>& patterns) {
  for (const std::string_view pattern : patterns) steps_.emplace_back(pattern);
}

std::vector<std::string_view> PreTokenizer::cut(std::string_view text) const {
  RegexMemory memory;
  std::vector<std::string_view> pieces, next;
  if (!text.empty()) pieces.push_back(text);
  for (const Regex& step : steps_) {
    next.clear();
    for (const std::string_view piece : pieces) step.cut(piece, memory, next);
    pieces.swap(next);
  }
  return pieces;
}

std::string to_nfc(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return std::string(text);
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &raw, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(raw, &std::free);
  if (size < 0) {
    fail(ErrorCode::resource, "normalizing a text of {} bytes: {}", text.size(), utf8proc_errmsg(size));
  }
  return {reinterpret_cast<const char*>(raw), static_cast<size_t>(size)};
}

}  // namespace minite::io
