// The tokenizer inside a GGUF file, as llama.cpp's converters store it.
#include <array>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/bpe_parts.h"
#include "io/pre_tokenizer.h"

namespace minite::io {
namespace {

using nlohmann::json;

constexpr const char *kModel = "tokenizer.ggml.model", *kTemplate = "tokenizer.chat_template";

/// tokenizer.ggml.token_type.
enum class Kind : int64_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}
json sequence(const json& first, const json& second) {
  return {{"type", "Sequence"}, {"pretokenizers", {first, second}}};
}
json split(std::string_view name) {
  const auto row = std::ranges::find(split_patterns(), name, &SplitPattern::name);
  return {
      {"type", "Split"}, {"pattern", {{"Regex", row->regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json gpt2() { return byte_level(true); }
json smollm() { return sequence({{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)); }
json llama3() { return sequence(split("Llama 3"), byte_level(false)); }
json qwen() { return sequence(split("Qwen"), byte_level(false)); }

/// A value of tokenizer.ggml.pre: which tokenizer.json it stands for.
struct PreRow {
  std::string_view name;
  json (*pre_tokenizer)();
  bool nfc, ignore_merges, add_bos;  ///< add_bos: unless tokenizer.ggml.add_bos_token says otherwise
};
constexpr std::array<PreRow, 4> kPre = {{{"gpt-2", gpt2, false, false, false},
                                         {"smollm", smollm, false, false, false},
                                         {"llama-bpe", llama3, false, true, true},
                                         {"qwen2", qwen, true, false, false}}};

const PreRow& pre_row(const GgufFile& file) {
  if (const auto model = file.text(kModel); model != "gpt2") {
    fail(ErrorCode::unsupported, "{}: {} is '{}', only byte-level 'gpt2' is supported", file.path().string(),
         kModel, printable(model));
  }
  const std::string_view name = file.text("tokenizer.ggml.pre");
  std::vector<std::string_view> known;
  for (const PreRow& row : kPre) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  fail(ErrorCode::unsupported, "{}: tokenizer.ggml.pre '{}' is not supported, only {}", file.path().string(),
       printable(name), fmt::join(known, ", "));
}

void read_tokens(const GgufFile& file, BpeParts& parts) {
  const std::vector<std::string_view> texts = file.texts("tokenizer.ggml.tokens");
  const std::vector<int64_t> kinds = file.integers("tokenizer.ggml.token_type");
  if (texts.size() != kinds.size()) {
    fail(ErrorCode::corrupt_data, "{}: {} tokens but {} token types", file.path().string(), texts.size(),
         kinds.size());
  }
  for (size_t id = 0; id < texts.size(); ++id) {
    const auto kind = static_cast<Kind>(kinds[id]);
    if (kind < Kind::normal || kind > Kind::unused) {
      fail(ErrorCode::unsupported, "{}: token {} has type {}, which a byte-level vocabulary has not",
           file.path().string(), id, kinds[id]);
    }
    if (first_invalid_utf8(texts[id])) {
      fail(ErrorCode::corrupt_data, "{}: token {}, '{}', is not UTF-8", file.path().string(), id,
           printable(texts[id]));
    }
    const bool added = kind == Kind::control || kind == Kind::user_defined;
    if (added && texts[id].empty())
      fail(ErrorCode::corrupt_data, "{}: added token {} is empty", file.path().string(), id);
    parts.vocabulary.emplace_back(added ? std::string_view{} : texts[id]);
    if (added)
      parts.added.push_back({static_cast<int32_t>(id), std::string(texts[id]), kind == Kind::control, false});
  }
}

int32_t optional_id(const GgufFile& file, const std::string& key, const BpeParts& parts) {
  if (!file.has(key)) return -1;
  const int64_t id = file.integer(key);
  if (id < 0 || id >= static_cast<int64_t>(parts.vocabulary.size())) {
    fail(ErrorCode::corrupt_data, "{}: {} is {}, but there are {} tokens", file.path().string(), key, id,
         parts.vocabulary.size());
  }
  return static_cast<int32_t>(id);
}

bool optional_flag(const GgufFile& file, const std::string& key, bool absent) {
  return file.has(key) ? file.boolean(key) : absent;
}

std::string text_of(const BpeParts& parts, int32_t id) {
  for (const AddedToken& token : parts.added) {
    if (token.id == id) return token.text;
  }
  return parts.vocabulary[static_cast<size_t>(id)];
}

/// A template that puts <bos> before the text.
json bos_template(const std::string& token, int32_t id) {
  const json begin = {{"SpecialToken", {{"id", token}, {"type_id", 0}}}};
  const auto text = [](const char* name, int type) {
    return json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {begin, text("A", 0)}},
          {"pair", {begin, text("A", 0), text("B", 1)}},
          {"special_tokens", {{token, {{"id", token}, {"ids", {id}}, {"tokens", {token}}}}}}};
}

}  // namespace

BpeParts bpe_from_gguf(const GgufFile& file) {
  const std::string name = file.path().string();
  const PreRow& row = pre_row(file);
  BpeParts parts;
  read_tokens(file, parts);
  add_merges(file.texts("tokenizer.ggml.merges"), name, parts);
  parts.bos = optional_id(file, "tokenizer.ggml.bos_token_id", parts);
  parts.eos = optional_id(file, "tokenizer.ggml.eos_token_id", parts);
  parts.pad = optional_id(file, "tokenizer.ggml.padding_token_id", parts);
  for (const char* key : {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix"}) {
    if (!optional_flag(file, key, false)) continue;
    fail(ErrorCode::unsupported, "{}: {} is true, which is not supported", name, key);
  }
  const bool bos = optional_flag(file, "tokenizer.ggml.add_bos_token", row.add_bos);
  if (bos && parts.bos < 0) {
    fail(ErrorCode::corrupt_data, "{}: texts begin with a token, but tokenizer.ggml.bos_token_id is missing",
         name);
  }
  parts.pipeline = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"normalizer", row.nfc ? json{{"type", "NFC"}} : json(nullptr)},
      {"pre_tokenizer", row.pre_tokenizer()},
      {"post_processor", bos ? bos_template(text_of(parts, parts.bos), parts.bos) : byte_level(true)},
      {"decoder", byte_level(true)},
      {"model", {{"type", "BPE"}, {"ignore_merges", row.ignore_merges}}}};
  read_pipeline(parts.pipeline, name, parts);
  if (file.has(kTemplate)) parts.chat_template = file.text(kTemplate);
  if (first_invalid_utf8(parts.chat_template))
    fail(ErrorCode::corrupt_data, "{}: {} is not UTF-8", name, kTemplate);
  return parts;
}

std::map<std::string, std::string> make_tokenizer_files(const BpeParts& parts) {
  json document = parts.pipeline;
  json &vocab = document["model"]["vocab"] = json::object(),
       &merges = document["model"]["merges"] = json::array(),
       &added = document["added_tokens"] = json::array();
  for (size_t id = 0; id < parts.vocabulary.size(); ++id) {
    if (!parts.vocabulary[id].empty()) vocab[parts.vocabulary[id]] = id;
  }
  const auto text = [&](int32_t id) -> const std::string& {
    return parts.vocabulary[static_cast<size_t>(id)];
  };
  for (const BpeMerge& m : parts.merges) merges.push_back(text(m.left) + ' ' + text(m.right));
  for (const AddedToken& token : parts.added) {
    vocab[token.text] = token.id;  // the `tokenizers` library numbers added tokens that are not here itself
    added.push_back({{"id", token.id},
                     {"content", token.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  }
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  const std::pair<const char*, int32_t> ends[] = {
      {"bos_token", parts.bos}, {"eos_token", parts.eos}, {"pad_token", parts.pad}};
  for (const auto& [key, id] : ends) {
    if (id >= 0) config[key] = text_of(parts, id);
  }
  if (!parts.chat_template.empty()) config["chat_template"] = parts.chat_template;
  return {{"tokenizer.json", document.dump(1) + "\n"}, {"tokenizer_config.json", config.dump(2) + "\n"}};
}

}  // namespace minite::io
