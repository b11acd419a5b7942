// The reader of safetensors.h: every number in the header is untrusted.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/safetensors.h"

namespace minite::io {
namespace {

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;  // the limit of the reference reader
constexpr int kDeepest = 3;                       // object > tensor > array
constexpr int64_t kMostDims = 32;
constexpr const char* kMetadataKey = "__metadata__";

uint64_t load_length(std::span<const std::byte> file) {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(file[i]) << (8 * i);
  return length;
}

// Watches the parse: nlohmann keeps the last of two equal keys and takes any depth.
class HeaderGuard {
 public:
  explicit HeaderGuard(const std::string& name) : name_(name) {}

  bool operator()(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (depth >= kDeepest)
        fail(ErrorCode::corrupt_data, "{}: the header nests deeper than {}", name_, kDeepest);
      elements_ = 0;
    }
    if (event == Event::object_start) keys_[static_cast<size_t>(depth)].clear();
    if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys_[static_cast<size_t>(depth - 1)].insert(key).second) {
        fail(ErrorCode::corrupt_data, "{}: the header names \"{}\" twice", name_, printable(key));
      }
      elements_ = 0;
    }
    // Also bounds the memory that a hostile list of numbers could take.
    if (event == Event::value && ++elements_ > kMostDims) {
      fail(ErrorCode::corrupt_data, "{}: the header holds a list of more than {} numbers", name_, kMostDims);
    }
    return true;
  }

 private:
  const std::string& name_;
  std::array<std::set<std::string>, kDeepest> keys_;
  int64_t elements_ = 0;
};

json parse_header(std::string_view text, const std::string& name) {
  if (text.empty() || text.front() != '{') {
    fail(ErrorCode::corrupt_data, "{}: the header does not begin with '{{'; this is not a safetensors file",
         name);
  }
  try {
    return json::parse(text.begin(), text.end(), HeaderGuard(name));
  } catch (const json::exception& error) {
    fail(ErrorCode::corrupt_data, "{}: the header is not valid JSON: {}", name, printable(error.what(), 300));
  }
}

// [begin, end) of a tensor in the data part.
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string tensor;
  bool operator<(const Range& o) const {
    return std::tie(begin, end, tensor) < std::tie(o.begin, o.end, o.tensor);
  }
};

class TensorReader {
 public:
  TensorReader(const std::string& file, const std::string& tensor, const json& row)
      : file_(file), tensor_(tensor), row_(row) {
    if (!row.is_object()) bad("is not an object");
  }

  TensorInfo info() const {
    TensorInfo result;
    const json& type = field("dtype");
    if (!type.is_string()) bad("has a dtype that is not a string");
    const auto known = stored_type_named(type.get_ref<const std::string&>());
    if (!known)
      bad(fmt::format("has an unknown dtype \"{}\"", printable(type.get_ref<const std::string&>())));
    result.type = *known;
    const json& shape = field("shape");
    if (!shape.is_array()) bad("has a shape that is not a list");
    for (const auto& dim : shape) result.shape.push_back(static_cast<int64_t>(whole(dim, "shape")));
    return result;
  }

  Range range() const {
    const json& offsets = field("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2) bad("has data_offsets that are not two numbers");
    Range r{whole(offsets[0], "data_offsets"), whole(offsets[1], "data_offsets"), tensor_};
    if (r.begin > r.end) bad(fmt::format("has data_offsets [{}, {}] that run backwards", r.begin, r.end));
    return r;
  }

  void check_size(const TensorInfo& info, const Range& r) const {
    int64_t bytes = stored_type(info.type).bytes;
    for (const int64_t dim : info.shape) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) bad("has a shape whose product overflows");
    }
    if (static_cast<uint64_t>(bytes) != r.end - r.begin) {
      bad(fmt::format("has {} bytes for {} [{}], which needs {}", r.end - r.begin,
                      stored_type(info.type).name, fmt::join(info.shape, ", "), bytes));
    }
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::corrupt_data, "{}: tensor \"{}\" {}", file_, printable(tensor_), what);
  }
  const json& field(const char* key) const {
    const auto it = row_.find(key);
    if (it == row_.end()) bad(fmt::format("has no {}", key));
    return *it;
  }
  uint64_t whole(const json& value, const char* key) const {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!value.is_number_unsigned() || value.get<uint64_t>() > kMost) {
      bad(fmt::format("has a {} entry that is not a whole number below 2^63", key));
    }
    return value.get<uint64_t>();
  }

  const std::string& file_;
  const std::string& tensor_;
  const json& row_;
};

Metadata read_metadata(const json& row, const std::string& name) {
  if (!row.is_object()) fail(ErrorCode::corrupt_data, "{}: __metadata__ is not an object", name);
  Metadata metadata;
  for (const auto& [key, value] : row.items()) {
    if (!value.is_string()) {
      fail(ErrorCode::corrupt_data, "{}: __metadata__ \"{}\" is not a string", name, printable(key));
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The ranges must tile [0, size): sorted, each begins where the one before it ends.
void check_tiling(std::vector<Range> ranges, uint64_t data_size, uint64_t data_begin,
                  const std::string& name) {
  std::sort(ranges.begin(), ranges.end());
  uint64_t at = 0;
  for (const Range& r : ranges) {
    if (r.begin != at) {
      fail(ErrorCode::corrupt_data,
           "{}: tensor \"{}\" begins at byte {} but the one before it ends at {}: {}", name,
           printable(r.tensor), r.begin, at, r.begin < at ? "they overlap" : "there is a hole");
    }
    at = r.end;
  }
  if (at > data_size) {
    fail(ErrorCode::corrupt_data, "{} is cut short: {} bytes, header promises {}", name,
         data_begin + data_size, data_begin + at);
  }
  if (at < data_size) {
    fail(ErrorCode::corrupt_data, "{}: {} bytes follow the last tensor; the header promises {} bytes in all",
         name, data_size - at, data_begin + at);
  }
}

}  // namespace

std::optional<StoredType> stored_type_named(std::string_view name) {
  for (const auto& row : kStoredTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

bool TensorInfo::is_aligned() const {
  return reinterpret_cast<uintptr_t>(bytes.data()) % static_cast<uintptr_t>(stored_type(type).bytes) == 0;
}

SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < kLengthBytes) {
    fail(ErrorCode::corrupt_data, "{} is cut short: {} bytes, a safetensors file has at least {}", name,
         file.size(), kLengthBytes + 2);
  }
  const uint64_t length = load_length(file);
  if (length > kLongestHeader) {
    fail(ErrorCode::corrupt_data,
         "{}: a header of {} bytes (the limit is {}); this is not a safetensors file", name, length,
         kLongestHeader);
  }
  const uint64_t data_begin = kLengthBytes + length;
  if (data_begin > file.size()) {
    fail(ErrorCode::corrupt_data, "{} is cut short: {} bytes, header promises {} or more", name, file.size(),
         data_begin);
  }
  const json header = parse_header(
      {reinterpret_cast<const char*>(file.data()) + kLengthBytes, static_cast<size_t>(length)}, name);
  SafetensorsContent content;
  std::vector<Range> ranges;
  for (const auto& [key, row] : header.items()) {
    if (key == kMetadataKey) {
      content.metadata = read_metadata(row, name);
      continue;
    }
    const TensorReader reader(name, key, row);
    content.tensors[key] = reader.info();
    ranges.push_back(reader.range());
    reader.check_size(content.tensors[key], ranges.back());
  }
  check_tiling(ranges, file.size() - data_begin, data_begin, name);
  for (const Range& r : ranges)
    content.tensors[r.tensor].bytes = file.subspan(data_begin + r.begin, r.end - r.begin);
  return content;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(path), content_(parse_safetensors(file_.bytes(), path.string())) {}

const TensorInfo& SafetensorsFile::at(const std::string& tensor_name) const {
  const auto it = content_.tensors.find(tensor_name);
  if (it != content_.tensors.end()) return it->second;
  std::vector<std::string_view> names;
  for (const auto& [name, info] : content_.tensors) names.push_back(name);
  const std::string near = nearest_name(tensor_name, names);
  fail(ErrorCode::not_found, "{} has no tensor \"{}\"{}", path_.string(), printable(tensor_name),
       near.empty() ? "" : fmt::format("; did you mean \"{}\"?", printable(near)));
}

}  // namespace minite::io
