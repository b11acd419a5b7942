// The tokenizer of a GGUF file; checkpoints/gguf_export.h.
#include <array>
#include <nlohmann/json.hpp>

#include "checkpoints/gguf_export.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/json_file.h"

namespace minite::checkpoints {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

/// llama.cpp names pre-tokenizers; a regular expression tells which one it is.
struct PreTokenizer {
  std::string_view mark;  ///< part of the pre_tokenizer of tokenizer.json as JSON text
  std::string_view name;  ///< tokenizer.ggml.pre
};
constexpr std::array<PreTokenizer, 4> kPreTokenizers = {{
    {R"(\\p{N}{1,3})", "llama-bpe"},
    {R"(|\\p{N}|)", "qwen2"},
    {R"("individual_digits":true)", "smollm"},
    {R"("use_regex":true)", "gpt-2"},
}};

/// Kinds of tokens in tokenizer.ggml.token_type.
constexpr int64_t kNormal = 1, kControl = 3, kUserDefined = 4, kUnused = 5;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  fail(ErrorCode::unsupported, "{}: {}; leave the tokenizer out with --no-tokenizer", file, why);
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<int64_t> types;

  void put(const std::string& file, const std::string& text, const json& id, int64_t type) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 ||
        id.get<int64_t>() >= static_cast<int64_t>(texts.size()))
      refuse(file,
             fmt::format("token '{}' has an id outside of the {} embeddings", printable(text), texts.size()));
    const auto i = static_cast<size_t>(id.get<int64_t>());
    texts[i] = text;
    types[i] = type;
  }
};

Tokens read_tokens(const std::string& file, const json& document, int64_t vocab_size) {
  Tokens tokens;
  tokens.texts.resize(static_cast<size_t>(vocab_size));
  tokens.types.assign(tokens.texts.size(), kUnused);
  for (const auto& [text, id] : document["model"]["vocab"].items()) tokens.put(file, text, id, kNormal);
  if (document.contains("added_tokens") && document["added_tokens"].is_array()) {
    for (const json& added : document["added_tokens"]) {
      if (!added.is_object() || !added.contains("content") || !added["content"].is_string() ||
          !added.contains("id"))
        refuse(file, "an added token has no id or no content");
      tokens.put(file, added["content"].get<std::string>(), added["id"],
                 added.contains("special") && added["special"] == true ? kControl : kUserDefined);
    }
  }
  for (size_t i = 0; i < tokens.texts.size(); ++i) {
    if (tokens.types[i] == kUnused) tokens.texts[i] = fmt::format("[PAD{}]", i);
  }
  return tokens;
}

/// "a b", or in newer files ["a", "b"].
std::vector<std::string> read_merges(const std::string& file, const json& merges) {
  std::vector<std::string> result;
  for (const json& merge : merges) {
    if (merge.is_string()) {
      result.push_back(merge.get<std::string>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      result.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      refuse(file, "a merge is no pair of texts");
    }
  }
  return result;
}

std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

std::string_view pre_tokenizer_of(const std::string& file, const json& document) {
  const std::string text = document.contains("pre_tokenizer") ? document["pre_tokenizer"].dump() : "";
  for (const PreTokenizer& row : kPreTokenizers) {
    if (text.find(row.mark) != std::string::npos) return row.name;
  }
  refuse(file, "llama.cpp has no name for its pre_tokenizer");
}

/// The id under `key` of config.json (the first of a list), if there is one.
void put_id(const json& config, const char* key, const char* to, io::GgufValues& values) {
  if (!config.contains(key)) return;
  const json& id = config[key].is_array() && !config[key].empty() ? config[key].front() : config[key];
  if (id.is_number_integer() && id.get<int64_t>() >= 0)
    values.put_integer(to, io::GgufValueType::u32, id.get<int64_t>());
}

/// Of tokenizer_config.json or chat_template.jinja.
void put_chat_template(const fs::path& folder, io::GgufValues& values) {
  std::error_code ignored;
  if (!fs::exists(folder / "tokenizer_config.json", ignored)) return;
  const json config = io::read_json_file(folder / "tokenizer_config.json");
  if (config.is_object() && config.contains("chat_template") && config["chat_template"].is_string())
    values.put_text("tokenizer.chat_template", config["chat_template"].get<std::string>());
}

}  // namespace

void put_gguf_tokenizer(const fs::path& folder, const json& config, io::GgufValues& values) {
  const std::string file = (folder / "tokenizer.json").string();
  std::error_code ignored;
  if (!fs::exists(file, ignored)) refuse(file, "is missing, and a GGUF file holds its tokenizer");
  const json document = io::read_json_file(file);
  const json model = document.is_object() && document.contains("model") ? document["model"] : json();
  const bool bpe = model.is_object() && model.contains("type") && model["type"] == "BPE" &&
                   model.contains("vocab") && model["vocab"].is_object() && model.contains("merges") &&
                   model["merges"].is_array();
  const bool byte_level = document.is_object() && document.dump().find("\"ByteLevel\"") != std::string::npos;
  if (!bpe || !byte_level) refuse(file, "is no byte-level BPE, the only kind that is written here");
  const std::string_view pre = pre_tokenizer_of(file, document);
  if (!config.contains("vocab_size") || !config["vocab_size"].is_number_integer() ||
      config["vocab_size"].get<int64_t>() < 1 || config["vocab_size"].get<int64_t>() > (int64_t{1} << 24))
    refuse(file, "config.json has no vocab_size");
  const Tokens tokens = read_tokens(file, document, config["vocab_size"].get<int64_t>());
  const std::vector<std::string> merges = read_merges(file, model["merges"]);
  values.put_text("tokenizer.ggml.model", "gpt2");
  values.put_text("tokenizer.ggml.pre", pre);
  values.put_texts("tokenizer.ggml.tokens", views_of(tokens.texts));
  values.put_integers("tokenizer.ggml.token_type", io::GgufValueType::i32, tokens.types);
  values.put_texts("tokenizer.ggml.merges", views_of(merges));
  put_id(config, "bos_token_id", "tokenizer.ggml.bos_token_id", values);
  put_id(config, "eos_token_id", "tokenizer.ggml.eos_token_id", values);
  put_id(config, "pad_token_id", "tokenizer.ggml.padding_token_id", values);
  put_chat_template(folder, values);
}

}  // namespace minite::checkpoints
