#pragma once
// What a byte-level BPE tokenizer is made of, and the files that say so.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/added_tokens.h"
#include "io/bpe_merges.h"
#include "io/gguf.h"

namespace minite::io {

struct BpeParts {
  std::vector<std::string> vocabulary;  ///< by id, in byte-level characters; "" where the model has no token
  std::vector<BpeMerge> merges;
  std::vector<AddedToken> added;
  bool ignore_merges = false;  ///< a piece that is a token is that token, whatever its merges say
  int32_t unknown = -1;        ///< stands for bytes without a token; -1: they are refused
  bool nfc = false;
  std::vector<std::string_view> patterns;  ///< of the pre-tokenizer
  std::vector<int32_t> prefix;             ///< special tokens before every text
  int32_t bos = -1, eos = -1, pad = -1;    ///< -1: none
  std::string chat_template;               ///< Jinja text; "": none
  std::map<std::string, std::string>
      files;                ///< name and bytes of what save() writes; empty: made of the parts
  nlohmann::json pipeline;  ///< without files: a tokenizer.json but for vocabulary, merges and added tokens
};

/// The parts of a tokenizer.json; `name` stands for the file in errors. Errors: corrupt_data; unsupported,
/// with the name of the part that is not understood.
[[nodiscard]] BpeParts bpe_from_json(const nlohmann::json& document, const std::string& name);

/// Reads what stands beside tokenizer.json in `folder`: which tokens begin, end and pad a text, and the chat
/// template (tokenizer_config.json, special_tokens_map.json, chat_template.jinja; each may be absent). Keeps
/// the bytes of all files.
void add_tokenizer_config(const std::filesystem::path& folder, BpeParts& parts);

/// The tokenizer inside a GGUF file: tokenizer.ggml.model "gpt2" with a known tokenizer.ggml.pre. Errors:
/// corrupt_data, not_found (a key), unsupported.
[[nodiscard]] BpeParts bpe_from_gguf(const GgufFile& file);

/// The files of a tokenizer that came without: tokenizer.json and tokenizer_config.json.
[[nodiscard]] std::map<std::string, std::string> make_tokenizer_files(const BpeParts& parts);

// Steps that both readers share.

/// Reads normalizer, pre_tokenizer, post_processor, decoder and the flags of `model` in a tokenizer.json.
/// Needs parts.vocabulary and parts.added.
void read_pipeline(const nlohmann::json& document, const std::string& name, BpeParts& parts);
/// The id of a token by its text, added ones first; -1: none.
[[nodiscard]] int32_t token_id(const BpeParts& parts, std::string_view text);
/// Adds the merges written as "left right". Error: corrupt_data with the number of the merge.
void add_merges(std::span<const std::string_view> merges, const std::string& name, BpeParts& parts);

}  // namespace minite::io
