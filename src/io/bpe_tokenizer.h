#pragma once
// Byte-level byte pair encoding, the tokenizer of GPT-2, Llama 3, Qwen and SmolLM2.
#include <array>

#include "io/bpe_merges.h"
#include "io/bpe_parts.h"
#include "io/pre_tokenizer.h"
#include "io/token_index.h"
#include "io/tokenizer.h"

namespace minite::io {

/// Encodes as the `tokenizers` library does with the same tokenizer.json. Text that is not valid UTF-8 is
/// refused, and so is a byte that has no token where the file names no token for unknown ones.
class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts);

  using Tokenizer::encode;
  [[nodiscard]] std::vector<int32_t> encode(std::string_view text,
                                            std::span<const TextRange> special) const override;
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] int32_t vocab_size() const override { return static_cast<int32_t>(bytes_.size()); }
  [[nodiscard]] int32_t pad_id() const override { return parts_.pad; }
  [[nodiscard]] int32_t bos_id() const override { return parts_.bos; }
  [[nodiscard]] int32_t eos_id() const override { return parts_.eos; }
  [[nodiscard]] std::vector<int32_t> prefix() const override { return parts_.prefix; }
  [[nodiscard]] std::string chat_template() const override { return parts_.chat_template; }
  [[nodiscard]] std::string token_text(int32_t id) const override;
  void save(const std::filesystem::path& folder) const override;

 private:
  struct Encoding;
  void encode_gap(std::string_view text, size_t from, std::span<const TextRange> special, Encoding& to) const;
  void encode_plain(std::string_view text, Encoding& to) const;
  void encode_piece(std::string_view piece, Encoding& to) const;

  BpeParts parts_;
  TokenIndex index_;  ///< of parts_.vocabulary
  BpeMerges merges_;
  PreTokenizer pre_tokenizer_;
  AddedTokens raw_, normalized_;     ///< looked for in the text as it is, and in the normalized text
  std::vector<std::string> bytes_;   ///< by id: what decode() writes; "" for ids without a token
  std::vector<bool> special_;        ///< by id
  std::array<int32_t, 256> byte_{};  ///< the token of each byte, or -1
};

}  // namespace minite::io
