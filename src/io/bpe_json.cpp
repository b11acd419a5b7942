// tokenizer.json of Hugging Face, with a byte-level BPE model.
#include <set>

#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"
#include "io/bpe_parts.h"
#include "io/byte_level.h"
#include "io/json_file.h"
#include "io/token_index.h"

namespace minite::io {
namespace {

using nlohmann::json;

/// Ids may leave holes, but no more than this beyond the number of tokens: memory follows the file's size.
constexpr uint64_t kMaxHoles = 4096;

const json& member(const json& object, const char* key) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

std::string text_of(const json& value, const std::string& name, std::string_view part) {
  if (!value.is_string()) fail(ErrorCode::corrupt_data, "{}: {} is not a text", name, part);
  return value.get<std::string>();
}

uint64_t id_of(const json& value, uint64_t limit, const std::string& name, std::string_view token) {
  const bool valid = value.is_number_unsigned() && value.get<uint64_t>() < limit;
  if (!valid) {
    fail(ErrorCode::corrupt_data, "{}: token '{}' has id {}; ids of this file must be below {}", name,
         printable(token), value.is_number() ? value.dump() : "no number", limit);
  }
  return value.get<uint64_t>();
}

void read_vocabulary(const json& vocab, uint64_t limit, const std::string& name, BpeParts& parts) {
  for (const auto& [token, value] : vocab.items()) {
    const uint64_t id = id_of(value, limit, name, token);
    if (id >= parts.vocabulary.size()) parts.vocabulary.resize(id + 1);
    if (token.empty() || !parts.vocabulary[id].empty()) {
      fail(ErrorCode::corrupt_data, "{}: token '{}' has the id {} of '{}'", name, printable(token), id,
           printable(parts.vocabulary[id]));
    }
    parts.vocabulary[id] = token;
  }
}

bool flag(const json& object, const char* key, const std::string& name) {
  const json& value = member(object, key);
  if (value.is_null()) return false;
  if (!value.is_boolean()) fail(ErrorCode::corrupt_data, "{}: {} is neither true nor false", name, key);
  return value.get<bool>();
}

void read_added(const json& list, uint64_t limit, const std::string& name, BpeParts& parts) {
  if (!list.is_null() && !list.is_array()) fail(ErrorCode::corrupt_data, "{}: added_tokens is no list", name);
  std::set<std::string> seen;
  for (const json& entry : list) {
    AddedToken token;
    token.text = text_of(member(entry, "content"), name, "added_tokens.content");
    token.id = static_cast<int32_t>(id_of(member(entry, "id"), limit, name, token.text));
    token.special = flag(entry, "special", name);
    token.normalized = flag(entry, "normalized", name);
    for (const char* part : {"single_word", "lstrip", "rstrip"}) {
      if (!flag(entry, part, name)) continue;
      fail(ErrorCode::unsupported, "{}: added token '{}' has {}, which is not supported", name,
           printable(token.text), part);
    }
    if (token.text.empty() || !seen.insert(token.text).second) {
      fail(ErrorCode::corrupt_data, "{}: added token '{}' is empty or there twice", name,
           printable(token.text));
    }
    parts.added.push_back(std::move(token));
  }
}

void read_merges(const json& merges, const std::string& name, BpeParts& parts) {
  if (!merges.is_array()) fail(ErrorCode::corrupt_data, "{}: model.merges is no list", name);
  std::vector<std::string> joined;  // of pairs
  joined.reserve(merges.size());    // no reallocation: `texts` views into it
  std::vector<std::string_view> texts;
  for (const json& merge : merges) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair && !merge.is_string()) {
      fail(ErrorCode::corrupt_data, "{}: merge {} is neither \"left right\" nor a pair of texts", name,
           texts.size());
    }
    if (pair) {
      joined.push_back(merge[0].get<std::string>() + ' ' + merge[1].get<std::string>());
      texts.push_back(joined.back());
    } else {
      texts.push_back(merge.get_ref<const std::string&>());
    }
  }
  add_merges(texts, name, parts);
}

}  // namespace

int32_t token_id(const BpeParts& parts, std::string_view text) {
  for (const AddedToken& token : parts.added) {
    if (token.text == text) return token.id;
  }
  for (size_t id = 0; id < parts.vocabulary.size(); ++id) {
    if (!text.empty() && parts.vocabulary[id] == text) return static_cast<int32_t>(id);
  }
  return -1;
}

void add_merges(std::span<const std::string_view> merges, const std::string& name, BpeParts& parts) {
  const TokenIndex index(parts.vocabulary);
  std::string result;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view text = merges[rank];
    // A byte-level token holds no blank.
    const size_t blank = text.find(' ');
    const auto find = [&](std::string_view token) {
      const int32_t id = index.find(parts.vocabulary, token);
      if (id >= 0) return id;
      fail(ErrorCode::corrupt_data, "{}: merge {}, '{}', needs '{}', which is not in the vocabulary", name,
           rank, printable(text), printable(token));
    };
    if (blank == text.npos || text.find(' ', blank + 1) != text.npos) {
      fail(ErrorCode::corrupt_data, "{}: merge {}, '{}', is not two tokens with a blank between", name, rank,
           printable(text));
    }
    const std::string_view left = text.substr(0, blank), right = text.substr(blank + 1);
    result.assign(left).append(right);
    parts.merges.push_back({find(left), find(right), find(result)});
  }
}

BpeParts bpe_from_json(const json& document, const std::string& name) {
  BpeParts parts;
  const json &model = member(document, "model"), &vocab = member(model, "vocab");
  if (!vocab.is_object()) fail(ErrorCode::corrupt_data, "{}: model.vocab is missing or no object", name);
  const json& added = member(document, "added_tokens");
  const uint64_t limit = vocab.size() + added.size() + kMaxHoles;
  read_vocabulary(vocab, limit, name, parts);
  read_added(added, limit, name, parts);
  read_merges(member(model, "merges"), name, parts);
  read_pipeline(document, name, parts);
  return parts;
}

}  // namespace minite::io
