#include "io/tokenizer_json.h"

#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"
#include "io/files.h"

namespace minite::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr int64_t kMaxBytes = int64_t{256} << 20;    // Llama 3's file has 17 MB
constexpr const char* kEveryCharacter = "[\\s\\S]";  // '.' would not match a line feed

ordered_json added_token(std::string_view content) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", true}};
}

ordered_json pre_tokenizer() {
  return {{"type", "Split"},
          {"pattern", {{"Regex", kEveryCharacter}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

/// The vocabulary: token text to id. WordLevel has no vocabulary entry for its unk_token here, so that the
/// `tokenizers` library refuses an unknown character as encode() does.
ordered_json vocabulary(std::string_view characters) {
  ordered_json vocab = ordered_json::object();
  int id = 0;
  for (const auto token : kSpecialTokens) vocab[std::string(token)] = id++;
  for (size_t i = 0; i < characters.size();) {
    const auto next = read_utf8(characters, i);
    if (!next) fail(ErrorCode::internal, "tokenizer: characters are not UTF-8 at byte {}", i);
    vocab[std::string(characters.substr(i, next->bytes))] = id++;
    i += next->bytes;
  }
  return vocab;
}

ordered_json tokenizer_document(std::string_view characters) {
  ordered_json added = ordered_json::array();
  for (size_t id = 0; id < kSpecialTokens.size(); ++id) {
    ordered_json token = {{"id", id}};
    token.update(added_token(kSpecialTokens[id]));
    added.push_back(token);
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer()},
          {"post_processor", nullptr},
          {"decoder", {{"type", "Fuse"}}},
          {"model", {{"type", "WordLevel"}, {"vocab", vocabulary(characters)}, {"unk_token", "<unk>"}}}};
}

ordered_json config_document() {
  ordered_json added = ordered_json::object();
  for (size_t id = 0; id < kSpecialTokens.size(); ++id) {
    added[fmt::format("{}", id)] = added_token(kSpecialTokens[id]);
  }
  return {{"added_tokens_decoder", added},         {"pad_token", kSpecialTokens[0]},
          {"bos_token", kSpecialTokens[1]},        {"eos_token", kSpecialTokens[2]},
          {"clean_up_tokenization_spaces", false}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
}

/// Refuses a file whose named parts are not the ones written above.
void require_character_tokenizer(const json& document, const std::string& file) {
  const auto unsupported = [&](std::string_view part, const json& found, std::string_view needed) {
    fail(ErrorCode::unsupported,
         "{}: {} is {}, but only character tokenizers ({}) are supported; supply token ids instead", file,
         part, printable(found.dump(-1, ' ', true, json::error_handler_t::replace)), needed);
  };
  const auto part = [](const json& object, const char* key) {
    return object.is_object() && object.contains(key) ? object.at(key) : json();
  };
  const auto type = part(part(document, "model"), "type");
  if (type != "WordLevel") unsupported("model.type", type, "WordLevel");
  const auto split = part(document, "pre_tokenizer");
  if (split != json(pre_tokenizer())) unsupported("pre_tokenizer", split, "a Split into single characters");
  const auto normalizer = part(document, "normalizer");
  if (!normalizer.is_null()) unsupported("normalizer", normalizer, "no normalizer");
  const auto post = part(document, "post_processor");
  if (!post.is_null()) unsupported("post_processor", post, "no post-processor");
}

/// Tokens by id; every id from 0 on exactly once.
std::vector<std::string> tokens_by_id(const json& vocab, const std::string& file) {
  std::vector<std::string> tokens(vocab.size());
  for (const auto& [token, id] : vocab.items()) {
    const bool valid = id.is_number_unsigned() && id.get<uint64_t>() < tokens.size();
    if (!valid || !tokens[id.get<size_t>()].empty() || token.empty()) {
      fail(ErrorCode::corrupt_data, "{}: token '{}' has id {}; ids must be 0 to {}, each once", file,
           printable(token), printable(id.dump()), tokens.size() - 1);
    }
    tokens[id.get<size_t>()] = token;
  }
  return tokens;
}

}  // namespace

void write_tokenizer_json(const fs::path& folder, std::string_view characters) {
  create_folders(folder);
  write_file_atomically(folder / "tokenizer.json", tokenizer_document(characters).dump(2) + "\n");
  write_file_atomically(folder / "tokenizer_config.json", config_document().dump(2) + "\n");
}

fs::path tokenizer_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path / "tokenizer.json" : path;
}

std::string read_tokenizer_text(const fs::path& file) { return read_text_file(file.string(), kMaxBytes); }

json parse_tokenizer_json(const std::string& text, const fs::path& file) {
  try {
    return json::parse(text);
  } catch (const json::exception& error) {
    fail(ErrorCode::corrupt_data, "{}: malformed JSON: {}", file.string(), error.what());
  }
}

std::string characters_of(const json& document, const std::string& file) {
  require_character_tokenizer(document, file);
  const auto& model = document.at("model");
  if (!model.contains("vocab") || !model.at("vocab").is_object()) {
    fail(ErrorCode::corrupt_data, "{}: model.vocab is missing or not an object", file);
  }
  const auto tokens = tokens_by_id(model.at("vocab"), file);
  std::string characters;
  char32_t previous = 0;
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (id < kSpecialTokens.size() && tokens[id] == kSpecialTokens[id]) continue;
    const auto character = read_utf8(tokens[id], 0);
    const bool single = character && character->bytes == tokens[id].size();
    if (id < kSpecialTokens.size() || !single || character->code_point <= previous) {
      fail(ErrorCode::unsupported,
           "{}: token {} is '{}'; ids 0 to 2 must be {} and the rest single characters in ascending order",
           file, id, printable(tokens[id]), fmt::join(kSpecialTokens, " "));
    }
    previous = character->code_point;
    characters += tokens[id];
  }
  if (characters.empty()) fail(ErrorCode::corrupt_data, "{}: model.vocab holds no character", file);
  return characters;
}

std::string read_tokenizer_json(const fs::path& file) {
  return characters_of(parse_tokenizer_json(read_tokenizer_text(file), file), file.string());
}

}  // namespace minite::io
