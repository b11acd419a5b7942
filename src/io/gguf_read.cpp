// The reader of gguf.h: every number in the file is untrusted.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/gguf.h"

namespace minite::io {
namespace {

constexpr std::array<GgufTypeRow, 9> kTypes = {{
    {GgufType::f32, "f32", 1, 4},
    {GgufType::f16, "f16", 1, 2},
    {GgufType::q4_0, "q4_0", 32, 18},
    {GgufType::q4_1, "q4_1", 32, 20},
    {GgufType::q8_0, "q8_0", 32, 34},
    {GgufType::q6_k, "q6_k", 256, 210},
    {GgufType::bf16, "bf16", 1, 2},
    {GgufType::mxfp4, "mxfp4", 32, 17},
    {GgufType::nvfp4, "nvfp4", 64, 36},
}};
constexpr std::array<std::string_view, 13> kValueTypes = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
constexpr std::array<uint64_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

constexpr uint32_t kArray = static_cast<uint32_t>(GgufValueType::array),
                   kString = static_cast<uint32_t>(GgufValueType::string);
constexpr uint64_t kMostDims = 4, kLongestName = 64;
/// The least a key-value pair and the description of a tensor take: counts beyond that are refused before
/// anything is allocated.
constexpr uint64_t kLeastValue = 8 + 4 + 1, kLeastTensor = 8 + 4 + 8 + 4 + 8;

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Walks the file from front to back.
class Cursor {
 public:
  Cursor(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::corrupt_data, "{}: byte {}: {}", name_, at_,
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] uint64_t left() const { return file_.size() - at_; }
  [[nodiscard]] uint64_t at() const { return at_; }

  std::span<const std::byte> take(uint64_t bytes, std::string_view what) {
    if (bytes > left()) bad("the file is cut short: {} needs {} bytes, {} are left", what, bytes, left());
    const auto taken = file_.subspan(at_, bytes);
    at_ += bytes;
    return taken;
  }
  template <class T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }
  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// A name: UTF-8 and not empty.
  std::string name(std::string_view what) {
    const std::string_view found = text(what);
    if (found.empty()) bad("{} is empty", what);
    if (const auto wrong = first_invalid_utf8(found))
      bad("{} \"{}\" is not UTF-8 at its byte {}", what, printable(found), *wrong);
    return std::string(found);
  }

 private:
  std::span<const std::byte> file_;
  const std::string& name_;
  uint64_t at_ = 0;
};

GgufValueType element_type(const Cursor& in, uint32_t type, const std::string& key, const std::string& file) {
  if (type >= kValueTypes.size()) in.bad("value \"{}\" has type {}, known are 0 to 12", printable(key), type);
  if (type == kArray)
    fail(ErrorCode::unsupported, "{}: value \"{}\" is an array of arrays, which no model file needs", file,
         printable(key));
  return static_cast<GgufValueType>(type);
}

/// Passes over `count` elements and checks what can be wrong in them.
std::span<const std::byte> elements(Cursor& in, GgufValueType type, uint64_t count, const std::string& key,
                                    std::span<const std::byte> file) {
  const auto index = static_cast<uint32_t>(type);
  const uint64_t begin = in.at(), least = index == kString ? 8 : kValueBytes[index];
  if (count > in.left() / least)
    in.bad("the file is cut short: value \"{}\" has {} elements, {} bytes are left", printable(key), count,
           in.left());
  if (index == kString) {
    for (uint64_t i = 0; i < count; ++i) (void)in.text("a string");
    return file.subspan(begin, in.at() - begin);
  }
  const auto bytes = in.take(count * kValueBytes[index], "a value");
  const auto truth = [](std::byte b) { return b == std::byte{0} || b == std::byte{1}; };
  if (type == GgufValueType::boolean && !std::all_of(bytes.begin(), bytes.end(), truth))
    in.bad("value \"{}\" is a boolean that is neither 0 nor 1", printable(key));
  return bytes;
}

void read_value(Cursor& in, GgufContent& content, const std::string& name, std::span<const std::byte> file) {
  const std::string key = in.name("a key");
  GgufValue value;
  auto type = in.number<uint32_t>("the type of a value");
  if (type == kArray) {
    value.array = true;
    type = in.number<uint32_t>("the type of an array");
    value.type = element_type(in, type, key, name);
    value.count = in.number<uint64_t>("the length of an array");
  } else {
    value.type = element_type(in, type, key, name);
  }
  value.bytes = elements(in, value.type, value.count, key, file);
  if (!content.values.emplace(key, value).second) in.bad("key \"{}\" stands twice", printable(key));
  content.value_order.push_back(key);
}

/// What of a tensor stands before the data.
struct Announced {
  GgufTensor tensor;
  uint64_t offset = 0, bytes = 0;
};

GgufType tensor_type(const std::string& file, const std::string& tensor, uint32_t type) {
  for (const GgufTypeRow& row : kTypes)
    if (static_cast<uint32_t>(row.type) == type) return row.type;
  std::vector<std::string_view> names;
  for (const GgufTypeRow& row : kTypes) names.push_back(row.name);
  fail(ErrorCode::unsupported, "{}: tensor \"{}\" has type {}, which miniTE does not read; it reads {}", file,
       printable(tensor), type, fmt::join(names, ", "));
}

Announced read_tensor(Cursor& in, const std::string& name, const std::string& file) {
  Announced t;
  const auto dims = in.number<uint32_t>("the dimensions of a tensor");
  if (dims == 0 || dims > kMostDims)
    in.bad("tensor \"{}\" has {} dimensions, allowed are 1 to {}", printable(name), dims, kMostDims);
  int64_t count = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    const auto size = in.number<uint64_t>("a dimension");
    if (size > INT64_MAX || __builtin_mul_overflow(count, static_cast<int64_t>(size), &count))
      in.bad("tensor \"{}\" has a dimension of {}: the product overflows", printable(name), size);
    t.tensor.shape.insert(t.tensor.shape.begin(), static_cast<int64_t>(size));
  }
  t.tensor.type = tensor_type(file, name, in.number<uint32_t>("the type of a tensor"));
  const GgufTypeRow& row = gguf_type(t.tensor.type);
  if (t.tensor.cols() % row.block != 0)
    in.bad("tensor \"{}\" has rows of {} elements, which are not whole blocks of {} ({})", printable(name),
           t.tensor.cols(), row.block, row.name);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count / row.block, row.bytes, &bytes))
    in.bad("tensor \"{}\" is larger than 2^63 bytes", printable(name));
  t.bytes = static_cast<uint64_t>(bytes);
  t.offset = in.number<uint64_t>("the offset of a tensor");
  return t;
}

uint64_t alignment_of(const Cursor& in, const GgufContent& content) {
  const auto it = content.values.find("general.alignment");
  if (it == content.values.end()) return 32;
  const GgufValue& value = it->second;
  const uint32_t found =
      value.type == GgufValueType::u32 && !value.array ? load<uint32_t>(value.bytes.data()) : 0;
  if (found == 0 || (found & (found - 1)) != 0 || found > (1u << 20))
    in.bad("general.alignment is {}, must be a u32 and a power of two up to 2^20", found);
  return found;
}

/// Tensors must not share bytes; a hole between them is padding of another writer.
void check_overlap(const Cursor& in, const std::map<std::string, Announced>& announced) {
  std::vector<std::pair<uint64_t, const std::string*>> order;
  for (const auto& [name, t] : announced) order.emplace_back(t.offset, &name);
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, *a.second) < std::tie(b.first, *b.second);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Announced& before = announced.at(*order[i - 1].second);
    if (before.offset + before.bytes > order[i].first)
      in.bad("tensors \"{}\" and \"{}\" overlap", printable(*order[i - 1].second),
             printable(*order[i].second));
  }
}

}  // namespace

const GgufTypeRow& gguf_type(GgufType type) {
  return *std::find_if(kTypes.begin(), kTypes.end(),
                       [&](const GgufTypeRow& row) { return row.type == type; });
}

std::string_view to_string(GgufValueType type) { return kValueTypes[static_cast<size_t>(type)]; }

int64_t GgufTensor::rows() const {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

GgufContent parse_gguf(std::span<const std::byte> file, const std::string& name) {
  Cursor in(file, name);
  const auto magic = in.take(4, "the magic");
  if (std::memcmp(magic.data(), "GGUF", 4) != 0)
    fail(ErrorCode::corrupt_data, "{}: does not begin with GGUF; this is not a GGUF file", name);
  const auto version = in.number<uint32_t>("the version");
  if (version != 2 && version != 3)
    fail(ErrorCode::unsupported, "{}: GGUF version {}; miniTE reads 2 and 3, little endian", name, version);
  const auto tensors = in.number<uint64_t>("the number of tensors"),
             values = in.number<uint64_t>("the number of values");
  if (values > in.left() / kLeastValue || tensors > in.left() / kLeastTensor)
    in.bad("{} values and {} tensors do not fit into the {} bytes that are left", values, tensors, in.left());
  GgufContent content;
  for (uint64_t i = 0; i < values; ++i) read_value(in, content, name, file);
  std::map<std::string, Announced> announced;
  for (uint64_t i = 0; i < tensors; ++i) {
    const std::string tensor = in.name("the name of a tensor");
    if (tensor.size() >= kLongestName)
      in.bad("the name of tensor \"{}\" has {} bytes, allowed are {}", printable(tensor), tensor.size(),
             kLongestName - 1);
    if (!announced.emplace(tensor, read_tensor(in, tensor, name)).second)
      in.bad("tensor \"{}\" stands twice", printable(tensor));
    content.tensor_order.push_back(tensor);
  }
  const uint64_t alignment = alignment_of(in, content);
  const uint64_t data = (in.at() + alignment - 1) / alignment * alignment;
  const uint64_t room = file.size() > data ? file.size() - data : 0;
  for (auto& [tensor, t] : announced) {
    if (t.offset % alignment != 0)
      in.bad("tensor \"{}\" starts at {}, which is no multiple of {}", printable(tensor), t.offset,
             alignment);
    if (t.offset > room || t.bytes > room - t.offset)
      in.bad("the file is cut short: tensor \"{}\" ends at byte {} of the data, the file has {}",
             printable(tensor), fmt::format("{} + {}", t.offset, t.bytes), room);
    if (t.bytes > 0) t.tensor.bytes = file.subspan(data + t.offset, t.bytes);
    content.tensors.emplace(tensor, t.tensor);
  }
  check_overlap(in, announced);
  return content;
}

}  // namespace minite::io
