#include "io/tokenizer.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/tokenizer_json.h"

namespace minite::io {
namespace {

constexpr int32_t kFirstCharacter = static_cast<int32_t>(kSpecialTokens.size());
constexpr char32_t kReplacement = 0xFFFD;

/// Control characters would not survive other readers, and U+FFFD stands for ids outside the vocabulary.
bool is_allowed(char32_t c) {
  if (c == '\t' || c == '\n') return true;
  return c >= 0x20 && !(c >= 0x7F && c < 0xA0) && c != kReplacement;
}

AddedTokens special_tokens() {
  std::vector<AddedToken> tokens;
  for (const std::string_view text : kSpecialTokens)
    tokens.push_back({static_cast<int32_t>(tokens.size()), std::string(text), true, false});
  return AddedTokens(tokens);
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view characters) {
  for (size_t i = 0; i < characters.size();) {
    const auto next = read_utf8(characters, i);
    require(next.has_value(), "tokenizer: byte {} of its characters is not valid UTF-8", i);
    require(is_allowed(next->code_point),
            "tokenizer: character U+{:04X} at byte {} cannot be in a vocabulary",
            static_cast<uint32_t>(next->code_point), i);
    characters_.push_back(next->code_point);
    i += next->bytes;
  }
  require(!characters_.empty(), "tokenizer: no characters were given, so nothing could be encoded");
  std::sort(characters_.begin(), characters_.end());
  characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
}

CharTokenizer CharTokenizer::load(const std::filesystem::path& path) {
  const std::filesystem::path file = tokenizer_file(path);
  return from_characters(read_tokenizer_json(file), file.string());
}

CharTokenizer CharTokenizer::from_characters(const std::string& characters, const std::string& file) {
  try {
    return CharTokenizer(characters);
  } catch (const Error& error) {
    fail(ErrorCode::corrupt_data, "{}: {}", file, error.what());
  }
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text, std::span<const TextRange> special) const {
  static const AddedTokens kSpecial = special_tokens();
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  std::optional<AddedTokens::Match> ahead;
  if (!special.empty()) ahead = kSpecial.find(text, 0, special);
  for (size_t i = 0; i < text.size();) {
    if (ahead && ahead->at.begin == i) {
      ids.push_back(ahead->id);
      i = ahead->at.end;
      ahead = kSpecial.find(text, i, special);
      continue;
    }
    const auto next = read_utf8(text, i);
    require(next.has_value(), "tokenizer: byte {} of '{}' is not valid UTF-8", i, printable(text));
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), next->code_point);
    require(found != characters_.end() && *found == next->code_point,
            "tokenizer: character '{}' (U+{:04X}) at byte {} of '{}' is not in the vocabulary '{}'",
            next->code_point < 0x20 ? printable(text.substr(i, 1)) : std::string(text.substr(i, next->bytes)),
            static_cast<uint32_t>(next->code_point), i, printable(text), characters());
    ids.push_back(kFirstCharacter + static_cast<int32_t>(found - characters_.begin()));
    i += next->bytes;
  }
  return ids;
}

std::string CharTokenizer::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id >= 0 && id < kFirstCharacter) continue;
    const bool known = id >= 0 && id < vocab_size();
    append_utf8(text, known ? characters_[static_cast<size_t>(id - kFirstCharacter)] : kReplacement);
  }
  return text;
}

int32_t CharTokenizer::vocab_size() const {
  return kFirstCharacter + static_cast<int32_t>(characters_.size());
}

std::string CharTokenizer::characters() const {
  std::string text;
  for (const char32_t c : characters_) append_utf8(text, c);
  return text;
}

void CharTokenizer::save(const std::filesystem::path& folder) const {
  write_tokenizer_json(folder, characters());
}

std::string CharTokenizer::token_text(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  if (id < kFirstCharacter) return std::string(kSpecialTokens[static_cast<size_t>(id)]);
  std::string text;
  append_utf8(text, characters_[static_cast<size_t>(id - kFirstCharacter)]);
  return text;
}

}  // namespace minite::io
