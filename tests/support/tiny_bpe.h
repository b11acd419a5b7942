#pragma once
// A byte-level BPE tokenizer of a few tokens, as the document of its tokenizer.json.
#include <nlohmann/json.hpp>

#include "io/byte_level.h"

namespace minite::test_support {

/// Ids 0 to 255 are the bytes, then "th", "the", " the", "12", and the special tokens <|im_start|> (260) and
/// <|im_end|> (261). GPT-2's pre-tokenizer.
inline nlohmann::json tiny_bpe() {
  nlohmann::json vocab = nlohmann::json::object();
  for (int b = 0; b < 256; ++b) vocab[std::string(io::byte_character(static_cast<unsigned char>(b)))] = b;
  const std::string blank(io::byte_character(' '));
  for (const std::string& token : {std::string("th"), std::string("the"), blank + "the", std::string("12")})
    vocab[token] = vocab.size();
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  nlohmann::json added = nlohmann::json::array();
  for (const char* text : {"<|im_start|>", "<|im_end|>"}) {
    added.push_back({{"id", 260 + added.size()},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", {"t h", "th e", blank + " the", nlohmann::json::array({"1", "2"})}}}}};
}

/// The tokenizer_config.json of it.
inline nlohmann::json tiny_bpe_config() {
  return {{"bos_token", "<|im_start|>"}, {"eos_token", {{"content", "<|im_end|>"}}}, {"pad_token", nullptr}};
}

}  // namespace minite::test_support
