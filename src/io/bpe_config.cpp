// What stands beside tokenizer.json in a folder.
#include <array>
#include <system_error>

#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"
#include "io/bpe_parts.h"
#include "io/json_file.h"

namespace minite::io {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr int64_t kMaxBytes = int64_t{64} << 20;

struct NamedToken {
  const char* key;
  int32_t BpeParts::*id;
};
constexpr std::array<NamedToken, 3> kNamed = {
    {{"bos_token", &BpeParts::bos}, {"eos_token", &BpeParts::eos}, {"pad_token", &BpeParts::pad}}};

/// Takes the ids that are still unknown.
void read_named(const json& config, const std::string& name, BpeParts& parts) {
  for (const NamedToken& row : kNamed) {
    if (parts.*row.id >= 0 || !config.is_object() || !config.contains(row.key)) continue;
    const json* value = &config.at(row.key);
    if (value->is_object() && value->contains("content")) value = &value->at("content");
    if (value->is_null()) continue;
    if (!value->is_string()) fail(ErrorCode::corrupt_data, "{}: {} is no text", name, row.key);
    const auto& text = value->get_ref<const std::string&>();
    parts.*row.id = token_id(parts, text);
    if (parts.*row.id >= 0) continue;
    fail(ErrorCode::corrupt_data, "{}: {} '{}' is not in the vocabulary", name, row.key, printable(text));
  }
}

/// A text, or a list of named ones of which "default" counts.
std::string template_of(const json& config) {
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const json& value = config.at("chat_template");
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return {};
  for (const json& entry : value) {
    const bool named = entry.is_object() && entry.contains("name") && entry.contains("template");
    if (named && entry.at("name") == "default" && entry.at("template").is_string())
      return entry.at("template").get<std::string>();
  }
  return {};
}

}  // namespace

void add_tokenizer_config(const fs::path& folder, BpeParts& parts) {
  const auto keep = [&](const char* file) -> const std::string* {
    std::error_code ignored;
    if (!fs::exists(folder / file, ignored)) return nullptr;
    return &(parts.files[file] = read_text_file((folder / file).string(), kMaxBytes));
  };
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string* text = keep(file);
    if (text == nullptr) continue;
    const std::string name = (folder / file).string();
    const json config = parse_json(*text, name);
    read_named(config, name, parts);
    if (parts.chat_template.empty()) parts.chat_template = template_of(config);
  }
  // As Transformers: the file of its own wins.
  if (const std::string* jinja = keep("chat_template.jinja")) parts.chat_template = *jinja;
}

}  // namespace minite::io
