// The steps around the model in a tokenizer.json. What is not understood is refused with the name of the
// part.
#include <array>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/bpe_parts.h"
#include "io/pre_tokenizer.h"

namespace minite::io {
namespace {

using nlohmann::json;

/// A part of the document, with its name for messages.
struct Part {
  const json& value;
  const std::string& file;
  std::string name;

  [[nodiscard]] Part at(const char* key) const {
    static const json kNull;
    const auto found = value.is_object() ? value.find(key) : value.end();
    const bool there = value.is_object() && found != value.end();
    return {there ? *found : kNull, file, name.empty() ? key : name + "." + key};
  }
  [[nodiscard]] std::string type() const {
    const Part type = at("type");
    return type.value.is_string() ? type.value.get<std::string>() : "";
  }
  [[noreturn]] void refuse(std::string_view supported) const {
    // Only what is short is shown, and never a nested value: it may be as large as the file.
    const bool plain = !value.is_structured();
    const std::string shown =
        plain ? printable(value.dump(-1, ' ', true, json::error_handler_t::replace)) : type();
    fail(ErrorCode::unsupported, "{}: {} {}{} is not supported, only {}", file, name,
         plain ? "= " : "of type ", shown.empty() ? "?" : shown, supported);
  }
  /// The parts of a Sequence under `key`, or this part alone; nothing when it is null.
  [[nodiscard]] std::vector<Part> steps(const char* key) const {
    if (value.is_null()) return {};
    if (type() != "Sequence") return {*this};
    const Part list = at(key);
    if (!list.value.is_array()) fail(ErrorCode::corrupt_data, "{}: {} is no list", file, list.name);
    std::vector<Part> all;
    for (size_t i = 0; i < list.value.size(); ++i)
      all.push_back({list.value[i], file, fmt::format("{}[{}]", list.name, i)});
    return all;
  }
  /// Refuses the value unless it is absent, null or `expected`.
  void only(const json& expected) const {
    if (value.is_null() || value == expected) return;
    refuse(expected.dump() + " or null");
  }
  [[nodiscard]] bool flag(bool absent) const {
    if (value.is_null()) return absent;
    if (!value.is_boolean()) fail(ErrorCode::corrupt_data, "{}: {} is neither true nor false", file, name);
    return value.get<bool>();
  }
};

void read_normalizer(const Part& part, BpeParts& parts) {
  for (const Part& step : part.steps("normalizers")) {
    if (step.type() != "NFC") step.refuse("NFC");
    parts.nfc = true;
  }
}

void add_split(const Part& step, BpeParts& parts) {
  const Part regex = step.at("pattern").at("Regex");
  step.at("invert").only(false);
  if (step.at("behavior").value != "Isolated") step.at("behavior").refuse("Isolated");
  std::vector<std::string_view> names;
  for (const SplitPattern& row : split_patterns()) {
    if (regex.value.is_string() && regex.value.get_ref<const std::string&>() == row.regex) {
      parts.patterns.push_back(row.regex);
      return;
    }
    names.push_back(row.name);
  }
  regex.refuse(fmt::format("the patterns of {}", fmt::join(names, ", ")));
}

void add_byte_level(const Part& step, BpeParts& parts) {
  step.at("add_prefix_space").only(false);
  if (step.at("use_regex").flag(true)) parts.patterns.push_back(gpt2_pattern());
}

void add_digits(const Part& step, BpeParts& parts) {
  parts.patterns.push_back(step.at("individual_digits").flag(false) ? kOneDigit : kDigits);
}

struct Step {
  std::string_view type;
  void (*add)(const Part&, BpeParts&);
};
constexpr std::array<Step, 3> kSteps = {
    {{"Split", add_split}, {"ByteLevel", add_byte_level}, {"Digits", add_digits}}};

/// Bytes become characters in the last step, so that ByteLevel stands there and nowhere else.
void read_pre_tokenizer(const Part& part, BpeParts& parts) {
  const std::vector<Part> steps = part.steps("pretokenizers");
  if (steps.empty() || steps.back().type() != "ByteLevel") part.refuse("steps that end with ByteLevel");
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string type = steps[i].type();
    const auto row = std::ranges::find(kSteps, type, &Step::type);
    const bool early = type == "ByteLevel" && i + 1 < steps.size();
    if (row == kSteps.end() || early) steps[i].refuse("Split, Digits, and ByteLevel at the end");
    row->add(steps[i], parts);
  }
}

/// The special tokens that a template puts before the text; it may put none behind it.
void read_template(const Part& part, BpeParts& parts) {
  const Part single = part.at("single");
  if (!single.value.is_array()) fail(ErrorCode::corrupt_data, "{}: {} is no list", part.file, single.name);
  bool text = false;
  for (size_t i = 0; i < single.value.size(); ++i) {
    const Part item{single.value[i], part.file, fmt::format("{}[{}]", single.name, i)};
    if (!item.at("Sequence").value.is_null()) {
      text = true;
      continue;
    }
    const Part id = item.at("SpecialToken").at("id");
    if (!id.value.is_string() || text) id.refuse("special tokens before the text");
    const int32_t token = token_id(parts, id.value.get_ref<const std::string&>());
    if (token < 0) fail(ErrorCode::corrupt_data, "{}: {} names no token", part.file, id.name);
    parts.prefix.push_back(token);
  }
}

void read_post_processor(const Part& part, BpeParts& parts) {
  for (const Part& step : part.steps("processors")) {
    const std::string type = step.type();
    if (type == "TemplateProcessing") {
      read_template(step, parts);
    } else if (type != "ByteLevel") {  // which moves offsets only
      step.refuse("ByteLevel and TemplateProcessing");
    }
  }
}

void read_model(const Part& model, BpeParts& parts) {
  if (model.type() != "BPE") model.at("type").refuse("BPE");
  model.at("continuing_subword_prefix").only("");
  model.at("end_of_word_suffix").only("");
  model.at("byte_fallback").only(false);
  if (const Part dropout = model.at("dropout"); dropout.value != 0.0) dropout.only(nullptr);
  parts.ignore_merges = model.at("ignore_merges").flag(false);
  const Part unknown = model.at("unk_token");
  if (unknown.value.is_null()) return;
  if (!unknown.value.is_string())
    fail(ErrorCode::corrupt_data, "{}: {} is not a text", model.file, unknown.name);
  parts.unknown = token_id(parts, unknown.value.get_ref<const std::string&>());
  if (parts.unknown < 0) {
    fail(ErrorCode::corrupt_data, "{}: {} '{}' is not in the vocabulary", model.file, unknown.name,
         printable(unknown.value.get_ref<const std::string&>()));
  }
}

}  // namespace

void read_pipeline(const json& document, const std::string& name, BpeParts& parts) {
  const Part root{document, name, ""};
  read_model(root.at("model"), parts);
  root.at("truncation").only(nullptr);
  root.at("padding").only(nullptr);
  read_normalizer(root.at("normalizer"), parts);
  read_pre_tokenizer(root.at("pre_tokenizer"), parts);
  read_post_processor(root.at("post_processor"), parts);
  if (const Part decoder = root.at("decoder"); decoder.type() != "ByteLevel") decoder.refuse("ByteLevel");
  for (const AddedToken& token : parts.added) {
    if (!token.special || !token.normalized || !parts.nfc) continue;
    fail(ErrorCode::unsupported,
         "{}: special token '{}' is looked for in normalized text, which is not supported", name,
         printable(token.text));
  }
}

}  // namespace minite::io
