#pragma once
// The tokenizer of tiny_bpe.h as the values of a GGUF file.
#include "io/gguf.h"
#include "support/tiny_bpe.h"

namespace minite::test_support {

inline void put_tiny_bpe(io::GgufValues& values, const std::string& pre) {
  const nlohmann::json document = tiny_bpe();
  std::vector<std::string> tokens(262);
  std::vector<int64_t> kinds(262, 1);
  for (const auto& [token, id] : document["model"]["vocab"].items()) tokens[id.get<size_t>()] = token;
  for (const nlohmann::json& token : document["added_tokens"]) {
    tokens[token["id"].get<size_t>()] = token["content"];
    kinds[token["id"].get<size_t>()] = 3;
  }
  std::vector<std::string> merges;
  for (const nlohmann::json& merge : document["model"]["merges"]) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  values.put_text("tokenizer.ggml.model", "gpt2");
  values.put_text("tokenizer.ggml.pre", pre);
  values.put_texts("tokenizer.ggml.tokens", std::vector<std::string_view>(tokens.begin(), tokens.end()));
  values.put_integers("tokenizer.ggml.token_type", io::GgufValueType::i32, kinds);
  values.put_texts("tokenizer.ggml.merges", std::vector<std::string_view>(merges.begin(), merges.end()));
  values.put_integer("tokenizer.ggml.bos_token_id", io::GgufValueType::u32, 260);
  values.put_integer("tokenizer.ggml.eos_token_id", io::GgufValueType::u32, 261);
}

}  // namespace minite::test_support
