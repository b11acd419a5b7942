#pragma once
// Text to token ids and back. The one tokenizer built here has a token for each character, for models trained
// from scratch; it is stored as a Hugging Face tokenizer.json that the `tokenizers` library reads the same
// way.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Token ids of `text` (UTF-8), without <bos> or <eos>; text that spells a special token is plain text.
  /// Error (invalid_argument) names a character that has no token, and its byte position.
  [[nodiscard]] virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  /// The text of `ids`: special tokens are left out. An id outside the vocabulary (a model may pad its
  /// vocabulary, and sampling may choose such a row) becomes U+FFFD, which no encodable text holds.
  [[nodiscard]] virtual std::string decode(std::span<const int32_t> ids) const = 0;
  /// Number of ids, special tokens included: ids are [0, vocab_size()).
  [[nodiscard]] virtual int32_t vocab_size() const = 0;
  [[nodiscard]] virtual int32_t pad_id() const = 0;
  [[nodiscard]] virtual int32_t bos_id() const = 0;
  [[nodiscard]] virtual int32_t eos_id() const = 0;
  /// Writes tokenizer.json and tokenizer_config.json into `folder`, made if it is missing. Errors: io.
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

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] int32_t vocab_size() const override;
  [[nodiscard]] int32_t pad_id() const override { return 0; }
  [[nodiscard]] int32_t bos_id() const override { return 1; }
  [[nodiscard]] int32_t eos_id() const override { return 2; }
  void save(const std::filesystem::path& folder) const override;

  /// All characters of the vocabulary, by id.
  [[nodiscard]] std::string characters() const;

 private:
  std::vector<char32_t> characters_;  // ascending; the id of characters_[i] is i + 3
};

/// The tokenizer of a checkpoint folder. Errors as CharTokenizer::load.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& folder);

}  // namespace minite::io
