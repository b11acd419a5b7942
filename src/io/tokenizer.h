#pragma once
// Text to token ids and back: the interface, the tokenizer that has a token for each character (for models
// trained from scratch; stored as a Hugging Face tokenizer.json that the `tokenizers` library reads the same
// way), and the loading of any of them. Byte-level BPE is in io/bpe_tokenizer.h.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/added_tokens.h"

namespace minite::io {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Token ids of `text` (UTF-8), without prefix() or <eos>; text that spells a special token is plain text.
  /// Error (invalid_argument) names a character or byte that has no token, and where it stands.
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const { return encode(text, {}); }
  /// The same, but in the ranges `special`, which rise and do not overlap, text that spells a special token
  /// is that token: the parts of a chat that its template wrote.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text,
                                                    std::span<const TextRange> special) const = 0;
  /// prefix(), then encode(text): what a model is given to continue.
  [[nodiscard]] std::vector<int32_t> encode_prompt(std::string_view text) const {
    std::vector<int32_t> ids = prefix();
    const std::vector<int32_t> rest = encode(text);
    ids.insert(ids.end(), rest.begin(), rest.end());
    return ids;
  }
  /// The text of `ids`: special tokens are left out. An id outside the vocabulary (a model may pad its
  /// vocabulary, and sampling may choose such a row) becomes U+FFFD, and so do the bytes of a character that
  /// is not whole.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Number of ids, special tokens included: ids are [0, vocab_size()).
  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  // Special tokens; -1: there is none.
  [[nodiscard]] virtual int32_t pad_id() const = 0;
  [[nodiscard]] virtual int32_t bos_id() const = 0;
  [[nodiscard]] virtual int32_t eos_id() const = 0;
  /// Special tokens that stand before every text: <bos>, or nothing.
  [[nodiscard]] virtual std::vector<int32_t> prefix() const = 0;
  /// The Jinja text of the chat template that came with the tokenizer; "": none.
  [[nodiscard]] virtual std::string chat_template() const = 0;
  /// How the vocabulary writes a token; "" for an id without one.
  [[nodiscard]] virtual std::string token_text(int32_t id) const = 0;
  /// Writes tokenizer.json and tokenizer_config.json (and what else came with them, byte for byte) into
  /// `folder`, made if it is missing. Errors: io.
  virtual void save(const std::filesystem::path& folder) const = 0;
};

/// One token for each code point. Ids: 0 <pad>, 1 <bos>, 2 <eos>, then the characters by code point.
class CharTokenizer final : public Tokenizer {
 public:
  /// The vocabulary is the set of characters of `characters` (UTF-8; order and repeats do not matter).
  /// Errors (invalid_argument): none, ill-formed UTF-8, a control character other than tab and line feed,
  /// U+FFFD.
  explicit CharTokenizer(std::string_view characters);

  /// Reads tokenizer.json in `path` (a folder), or `path` itself. Errors: (not_found) no such file;
  /// (corrupt_data) malformed; (unsupported) a tokenizer that is not one token for each character.
  static CharTokenizer load(const std::filesystem::path& path);
  /// As the constructor, for what `file` holds: (corrupt_data) in place of invalid_argument.
  static CharTokenizer from_characters(const std::string& characters, const std::string& file);

  using Tokenizer::encode;
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            std::span<const TextRange> special) const override;
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] int32_t vocab_size() const override;
  [[nodiscard]] int32_t pad_id() const override { return 0; }
  [[nodiscard]] int32_t bos_id() const override { return 1; }
  [[nodiscard]] int32_t eos_id() const override { return 2; }
  [[nodiscard]] std::vector<int32_t> prefix() const override { return {bos_id()}; }
  [[nodiscard]] std::string chat_template() const override { return {}; }
  [[nodiscard]] std::string token_text(int32_t id) const override;
  void save(const std::filesystem::path& folder) const override;

  /// All characters of the vocabulary, by id.
  [[nodiscard]] std::string characters() const;

 private:
  std::vector<char32_t> characters_;  // ascending; the id of characters_[i] is i + 3
};

/// The tokenizer of a checkpoint: a folder with tokenizer.json, that file itself, or a GGUF file. Errors: as
/// CharTokenizer::load, and (unsupported) a part of a tokenizer that is not understood, by name.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& checkpoint);

}  // namespace minite::io
