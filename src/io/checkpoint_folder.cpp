#include "io/checkpoint_folder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/fail.h"
#include "core/text_file.h"
#include "core/utf8.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

/// Refuses a key that an object holds twice; the parser would keep the last.
json parse_index(std::string_view text, const std::string& name) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    const auto level = static_cast<size_t>(depth);
    if (event == json::parse_event_t::object_start) {
      if (keys.size() <= level) keys.resize(level + 1);
      keys[level].clear();
    }
    if (event == json::parse_event_t::key &&
        !keys[level - 1].insert(value.get_ref<const std::string&>()).second)
      fail(ErrorCode::corrupt_data, "{}: names \"{}\" twice", name,
           printable(value.get_ref<const std::string&>()));
    return depth < 8 ||
           (fail(ErrorCode::corrupt_data, "{}: nests deeper than an index of weights does", name), false);
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    fail(ErrorCode::corrupt_data, "{}: is not valid JSON: {}", name, printable(error.what(), 300));
  }
}

/// A name that cannot lead out of the folder.
bool is_plain_name(const std::string& shard) {
  constexpr std::string_view kEnd = ".safetensors";
  return shard.size() > kEnd.size() && shard.ends_with(kEnd) && shard.front() != '.' &&
         shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The run of digits at `text[at]`, without leading zeros; moves `at` behind it.
std::string_view take_number(std::string_view text, size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

}  // namespace

WeightMap parse_weight_index(std::string_view text, const std::string& name) {
  const json index = parse_index(text, name);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    fail(ErrorCode::corrupt_data, "{}: has no weight_map object", name);
  WeightMap shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>()))
      fail(ErrorCode::corrupt_data,
           "{}: \"{}\" should be in {}, which is no name of a .safetensors file in the folder", name,
           printable(tensor), printable(shard.dump(-1, ' ', true, json::error_handler_t::replace)));
    shards[tensor] = shard.get<std::string>();
  }
  return shards;
}

CheckpointFolder::CheckpointFolder(const fs::path& folder) : path_(folder) {
  std::error_code ignored;
  const bool single = fs::exists(folder / kSingleName, ignored);
  if (!fs::exists(folder / kIndexName, ignored)) {
    if (!single)
      fail(ErrorCode::not_found, "{} holds neither {} nor {}; name a Hugging Face folder with weights",
           folder.string(), kSingleName, kIndexName);
    add_shard(folder / kSingleName);
    return;
  }
  const std::string index_name = (folder / kIndexName).string();
  const WeightMap index = parse_weight_index(read_text_file(index_name), index_name);
  std::set<std::string> names;
  for (const auto& [tensor, shard] : index) names.insert(shard);
  if (single && !names.contains(kSingleName))
    fail(ErrorCode::corrupt_data,
         "{} holds two models: {} and the shards of {}, which does not name it; remove one of them",
         folder.string(), kSingleName, kIndexName);
  for (const std::string& name : names) {
    if (!fs::exists(folder / name, ignored))
      fail(ErrorCode::corrupt_data, "{} names the file {}, which is missing; fetch it again", index_name,
           name);
    add_shard(folder / name);
  }
  compare(index);
}

void CheckpointFolder::add_shard(const fs::path& file) {
  shards_.emplace_back(file);
  for (const auto& [name, info] : shards_.back().tensors()) {
    const auto [it, added] = tensors_.emplace(name, Entry{shards_.size() - 1, info});
    if (!added)
      fail(ErrorCode::corrupt_data, "{}: \"{}\" is also in {}; one of the two is stale", file.string(),
           printable(name), shards_[it->second.shard].path().filename().string());
    bytes_ += static_cast<int64_t>(info.bytes.size());
  }
}

void CheckpointFolder::compare(const WeightMap& index) const {
  for (const auto& [name, shard] : index) {
    const auto it = tensors_.find(name);
    const std::string found =
        it == tensors_.end() ? "" : shards_[it->second.shard].path().filename().string();
    if (found != shard)
      fail(ErrorCode::corrupt_data, "{}: \"{}\" should be in {} and is in {}", (path_ / kIndexName).string(),
           printable(name), shard, found.empty() ? "no shard" : found);
  }
  for (const auto& [name, entry] : tensors_) {
    if (!index.contains(name))
      fail(ErrorCode::corrupt_data, "{}: \"{}\" is not in {}", shards_[entry.shard].path().string(),
           printable(name), kIndexName);
  }
}

const TensorInfo* CheckpointFolder::find(const std::string& name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second.info;
}

const TensorInfo& CheckpointFolder::at(const std::string& name) const {
  if (const TensorInfo* info = find(name)) return *info;
  std::vector<std::string_view> names;
  for (const auto& [known, entry] : tensors_) names.push_back(known);
  fail(ErrorCode::not_found, "{} has no tensor \"{}\"{}", path_.string(), printable(name),
       did_you_mean(name, names));
}

void drop_mapped(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  // Advice only: when the system refuses it, the pages stay until it needs them.
  if (begin < end) (void)::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view m = take_number(a, i), n = take_number(b, j);
      if (m.size() != n.size()) return m.size() < n.size();
      if (m != n) return m < n;
      continue;
    }
    if (a[i] != b[j]) return a[i] < b[j];
    ++i, ++j;
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal but for leading zeros
}

}  // namespace minite::io
