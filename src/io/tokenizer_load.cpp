// Which tokenizer a checkpoint has.
#include <array>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/bpe_tokenizer.h"
#include "io/tokenizer_json.h"

namespace minite::io {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> characters(const json& document, std::string /*text*/, const fs::path& file) {
  return std::make_unique<CharTokenizer>(
      CharTokenizer::from_characters(characters_of(document, file.string()), file.string()));
}

std::unique_ptr<Tokenizer> byte_level(const json& document, std::string text, const fs::path& file) {
  BpeParts parts = bpe_from_json(document, file.string());
  parts.files["tokenizer.json"] = std::move(text);
  add_tokenizer_config(file.parent_path(), parts);
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

struct Model {
  std::string_view type;  ///< model.type in tokenizer.json
  std::unique_ptr<Tokenizer> (*load)(const json&, std::string text, const fs::path&);
};
constexpr std::array<Model, 2> kModels = {{{"WordLevel", characters}, {"BPE", byte_level}}};

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const fs::path& checkpoint) {
  if (begins_as_gguf(checkpoint)) return std::make_unique<BpeTokenizer>(bpe_from_gguf(GgufFile(checkpoint)));
  const fs::path file = tokenizer_file(checkpoint);
  std::string text = read_tokenizer_text(file);
  const json document = parse_tokenizer_json(text, file);
  const json type = document.is_object() && document.contains("model") && document.at("model").is_object()
                        ? document.at("model").value("type", json())
                        : json();
  for (const Model& row : kModels) {
    if (type == row.type) return row.load(document, std::move(text), file);
  }
  fail(
      ErrorCode::unsupported,
      "{}: model.type is {}, but only BPE of bytes and WordLevel of characters are supported; supply token "
      "ids "
      "instead",
      file.string(),
      type.is_structured() ? "no text" : printable(type.dump(-1, ' ', true, json::error_handler_t::replace)));
}

}  // namespace minite::io
