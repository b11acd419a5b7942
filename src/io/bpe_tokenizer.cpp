#include "io/bpe_tokenizer.h"

#include <algorithm>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/byte_level.h"
#include "io/files.h"

namespace minite::io {
namespace {

std::vector<AddedToken> added_that(const BpeParts& parts, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : parts.added) {
    if (token.normalized != normalized) continue;
    tokens.push_back(token);
    if (normalized && parts.nfc) tokens.back().text = to_nfc(token.text);
  }
  return tokens;
}

/// What a token decodes to: the bytes of its characters, or its own text when it holds a character that no
/// byte has.
std::string bytes_of(const std::string& token) { return from_byte_level(token).value_or(token); }

}  // namespace

/// State of one encode() call.
struct BpeTokenizer::Encoding {
  std::vector<int32_t> ids, piece;
  std::string characters;
  BpeMerges::Workspace workspace;
};

BpeTokenizer::BpeTokenizer(BpeParts parts)
    : parts_(std::move(parts)),
      index_(parts_.vocabulary),
      merges_(parts_.merges),
      pre_tokenizer_(parts_.patterns),
      raw_(added_that(parts_, false)),
      normalized_(added_that(parts_, true)),
      bytes_(parts_.vocabulary.size()) {
  for (size_t id = 0; id < bytes_.size(); ++id) bytes_[id] = bytes_of(parts_.vocabulary[id]);
  special_.resize(bytes_.size());
  for (const AddedToken& token : parts_.added) {
    const auto id = static_cast<size_t>(token.id);
    if (id >= bytes_.size()) {
      bytes_.resize(id + 1);
      special_.resize(id + 1);
    }
    bytes_[id] = bytes_of(token.text);
    special_[id] = token.special;
  }
  for (int b = 0; b < 256; ++b) {
    byte_[static_cast<size_t>(b)] =
        index_.find(parts_.vocabulary, byte_character(static_cast<unsigned char>(b)));
  }
}

std::string BpeTokenizer::token_text(int32_t id) const {
  for (const AddedToken& token : parts_.added) {
    if (token.id == id) return token.text;
  }
  const bool known = id >= 0 && id < static_cast<int32_t>(parts_.vocabulary.size());
  return known ? parts_.vocabulary[static_cast<size_t>(id)] : "";
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, std::span<const TextRange> special) const {
  if (const auto bad = first_invalid_utf8(text))
    fail(ErrorCode::invalid_argument, "tokenizer: byte {} of '{}' is not valid UTF-8", *bad, printable(text));
  Encoding to;
  size_t done = 0;
  while (const auto match = raw_.find(text, done, special)) {
    encode_gap(text.substr(0, match->at.begin), done, special, to);
    to.ids.push_back(match->id);
    done = match->at.end;
  }
  encode_gap(text, done, special, to);
  return std::move(to.ids);
}

/// `text` from byte `from` on. Its places are those of the whole text, which `special` means; in text that
/// was normalized no token is special (read_pipeline() sees to it).
void BpeTokenizer::encode_gap(std::string_view text, size_t from, std::span<const TextRange> special,
                              Encoding& to) const {
  std::string normal;
  if (parts_.nfc) {
    normal = to_nfc(text.substr(from));
    text = normal;
    from = 0;
    special = {};
  }
  while (const auto match = normalized_.find(text, from, special)) {
    encode_plain(text.substr(from, match->at.begin - from), to);
    to.ids.push_back(match->id);
    from = match->at.end;
  }
  encode_plain(text.substr(from), to);
}

void BpeTokenizer::encode_plain(std::string_view text, Encoding& to) const {
  for (const std::string_view piece : pre_tokenizer_.cut(text)) encode_piece(piece, to);
}

void BpeTokenizer::encode_piece(std::string_view piece, Encoding& to) const {
  if (parts_.ignore_merges) {
    to.characters.clear();
    for (const char b : piece) to.characters += byte_character(static_cast<unsigned char>(b));
    if (const int32_t id = index_.find(parts_.vocabulary, to.characters); id >= 0) {
      to.ids.push_back(id);
      return;
    }
  }
  to.piece.clear();
  for (size_t i = 0; i < piece.size(); ++i) {
    const auto b = static_cast<unsigned char>(piece[i]);
    const int32_t id = byte_[b] >= 0 ? byte_[b] : parts_.unknown;
    require(id >= 0, "tokenizer: byte 0x{:02X} of '{}' has no token in the vocabulary", b, printable(piece));
    to.piece.push_back(id);
  }
  merges_.apply(to.piece, to.workspace);
  to.ids.insert(to.ids.end(), to.piece.begin(), to.piece.end());
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const auto at = static_cast<size_t>(id);
    if (id < 0 || at >= bytes_.size() || (bytes_[at].empty() && !special_[at])) {
      append_utf8(bytes, 0xFFFD);
    } else if (!special_[at]) {
      bytes += bytes_[at];
    }
  }
  return lossy_utf8(bytes);
}

void BpeTokenizer::save(const std::filesystem::path& folder) const {
  create_folders(folder);
  const auto made = parts_.files.empty() ? make_tokenizer_files(parts_) : parts_.files;
  for (const auto& [name, bytes] : made) write_file_atomically(folder / name, bytes);
}

}  // namespace minite::io
