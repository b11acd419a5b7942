// GGUF files: what is written is read again, and files that lie are refused with the place.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/temp_folder.h"

namespace minite::io {
namespace {
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::slurp;
using minite::test_support::TempFolder;

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
std::string raw_text(const std::string& text) { return raw(static_cast<uint64_t>(text.size())) + text; }

GgufValues all_kinds() {
  using enum GgufValueType;
  GgufValues v;
  v.put_text("general.architecture", "llama");
  v.put_integer("a.u8", u8, 255);
  v.put_integer("a.i8", i8, -128);
  v.put_integer("a.u16", u16, 65535);
  v.put_integer("a.i16", i16, -5);
  v.put_integer("a.u32", u32, 4294967295);
  v.put_integer("a.i32", i32, -7);
  v.put_integer("a.u64", u64, INT64_MAX);
  v.put_integer("a.i64", i64, INT64_MIN);
  v.put_number("a.f32", 1.5f);
  v.put_boolean("a.bool", true);
  const std::vector<std::string_view> words = {"the", "", "end\n"};
  v.put_texts("a.words", words);
  const std::vector<int64_t> numbers = {3, 1, 2};
  v.put_integers("a.numbers", i32, numbers);
  const std::vector<float> floats = {0.5f, -1.0f};
  v.put_numbers("a.floats", floats);
  return v;
}

const std::vector<float> kMatrix = {1, 2, 3, 4, 5, 6};
const std::vector<uint16_t> kRow = {0x3F80, 0x4000, 0x4040};

void write_small(const std::filesystem::path& path) {
  GgufWriter writer(path, all_kinds(),
                    {{"blk.0.attn_q.weight", GgufType::f32, {2, 3}}, {"norm", GgufType::bf16, {3}}});
  writer.put("norm", bytes_of(kRow));
  writer.put("blk.0.attn_q.weight", bytes_of(kMatrix));
  writer.commit();
}

TEST(Gguf, RoundTrip) {
  const TempFolder folder;
  write_small(folder / "a.gguf");
  const GgufFile file(folder / "a.gguf");
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("a.u8"), 255);
  EXPECT_EQ(file.integer("a.i8"), -128);
  EXPECT_EQ(file.integer("a.u32"), 4294967295);
  EXPECT_EQ(file.integer("a.u64"), INT64_MAX);
  EXPECT_EQ(file.integer("a.i64"), INT64_MIN);
  EXPECT_EQ(file.number("a.f32"), 1.5);
  EXPECT_EQ(file.number("a.i16"), -5.0);
  EXPECT_TRUE(file.boolean("a.bool"));
  EXPECT_EQ(file.texts("a.words"), (std::vector<std::string_view>{"the", "", "end\n"}));
  EXPECT_EQ(file.integers("a.numbers"), (std::vector<int64_t>{3, 1, 2}));
  EXPECT_EQ(file.numbers("a.floats"), (std::vector<double>{0.5, -1.0}));
  const GgufTensor& w = file.tensor("blk.0.attn_q.weight");
  EXPECT_EQ(w.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w.rows(), 2);
  EXPECT_EQ(w.cols(), 3);
  EXPECT_EQ(std::memcmp(w.bytes.data(), kMatrix.data(), 24), 0);
  EXPECT_EQ(std::memcmp(file.tensor("norm").bytes.data(), kRow.data(), 6), 0);
  EXPECT_EQ(file.content().tensor_order, (std::vector<std::string>{"blk.0.attn_q.weight", "norm"}));
}

TEST(Gguf, AFileCopiedByValueHasTheSameBytes) {
  const TempFolder folder;
  write_small(folder / "a.gguf");
  const GgufFile file(folder / "a.gguf");
  GgufValues values;
  for (const std::string& key : file.content().value_order) values.put(key, file.content().values.at(key));
  std::vector<GgufTensorShape> shapes;
  for (const std::string& name : file.content().tensor_order)
    shapes.push_back({name, file.tensor(name).type, file.tensor(name).shape});
  GgufWriter writer(folder / "b.gguf", values, shapes);
  for (const std::string& name : file.content().tensor_order) writer.put(name, file.tensor(name).bytes);
  writer.commit();
  EXPECT_EQ(slurp(folder / "a.gguf"), slurp(folder / "b.gguf"));
}

// The layout is the contract with other readers: golden bytes.
TEST(Gguf, BytesAreThoseOfTheFormat) {
  const TempFolder folder;
  GgufValues values;
  values.put_text("k", "v");
  GgufWriter writer(folder / "a.gguf", values, {{"t", GgufType::f32, {1, 2}}});
  const std::vector<float> data = {1, 2};
  writer.put("t", bytes_of(data));
  writer.commit();
  std::string expected = "GGUF" + raw(uint32_t{3}) + raw(uint64_t{1}) + raw(uint64_t{1});
  expected += raw_text("k") + raw(uint32_t{8}) + raw_text("v");
  expected += raw_text("t") + raw(uint32_t{2}) + raw(uint64_t{2}) + raw(uint64_t{1}) + raw(uint32_t{0}) +
              raw(uint64_t{0});
  expected.append((32 - expected.size() % 32) % 32, '\0');
  expected += raw(1.0f) + raw(2.0f) + std::string(24, '\0');
  EXPECT_EQ(slurp(folder / "a.gguf"), expected);
}

TEST(Gguf, AlignmentIsKept) {
  const TempFolder folder;
  GgufValues values;
  values.put_integer("general.alignment", GgufValueType::u32, 256);
  GgufWriter writer(folder / "a.gguf", values, {{"a", GgufType::f32, {1}}, {"b", GgufType::f32, {1}}});
  const std::vector<float> one = {1};
  writer.put("a", bytes_of(one));
  writer.put("b", bytes_of(one));
  writer.commit();
  EXPECT_EQ(slurp(folder / "a.gguf").size() % 256, 0u);
  EXPECT_EQ(GgufFile(folder / "a.gguf").tensor("b").bytes.size(), 4u);
}

/// A file cut anywhere is refused, never read beyond its end.
TEST(Gguf, EveryCutIsRefused) {
  const TempFolder folder;
  write_small(folder / "a.gguf");
  const std::string whole = slurp(folder / "a.gguf");
  // The last padding belongs to nobody.
  const size_t needed = whole.size() - (32 - 6);
  for (size_t size = 0; size < needed; ++size) {
    const std::string cut = whole.substr(0, size);
    const Error error = error_of([&] { (void)parse_gguf(bytes_of(cut), "f"); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << size;
  }
  EXPECT_NO_THROW((void)parse_gguf(bytes_of(whole.substr(0, needed)), "f"));
}

/// One byte changed anywhere gives another file or a refusal, and nothing outside of the file.
TEST(Gguf, EveryChangedByteIsReadOrRefused) {
  const TempFolder folder;
  write_small(folder / "a.gguf");
  const std::string whole = slurp(folder / "a.gguf");
  int read = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x10, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      const auto inside = [&](std::span<const std::byte> part) {
        const auto* begin = reinterpret_cast<const std::byte*>(changed.data());
        return part.empty() || (part.data() >= begin && part.data() + part.size() <= begin + changed.size());
      };
      try {
        const GgufContent content = parse_gguf(bytes_of(changed), "f");
        for (const auto& [key, value] : content.values) EXPECT_TRUE(inside(value.bytes)) << key;
        for (const auto& [name, tensor] : content.tensors) EXPECT_TRUE(inside(tensor.bytes)) << name;
        ++read;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::unsupported)
            << i << ": " << error.what();
      }
    }
  }
  EXPECT_GT(read, 100);
}

struct Lie {
  std::string file, says;
  ErrorCode code = ErrorCode::corrupt_data;
};

std::string head(uint64_t tensors, uint64_t values, uint32_t version = 3) {
  return "GGUF" + raw(version) + raw(tensors) + raw(values);
}
std::string tensor_row(const std::string& name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
  std::string row = raw_text(name) + raw(static_cast<uint32_t>(dims.size()));
  for (const uint64_t d : dims) row += raw(d);
  return row + raw(type) + raw(offset);
}
std::string with_data(std::string text, size_t data) {
  text.append((32 - text.size() % 32) % 32, '\0');
  return text + std::string(data, 'x');
}

TEST(Gguf, LiesAreNamed) {
  const std::string huge = raw(uint64_t{1} << 60);
  const Lie lies[] = {
      {"GGML", "does not begin with GGUF"},
      {head(0, 0, 1), "GGUF version 1", ErrorCode::unsupported},
      {head(0, 0, 0x03000000), "little endian", ErrorCode::unsupported},
      {head(uint64_t{1} << 61, 0), "do not fit"},
      {head(0, uint64_t{1} << 62), "do not fit"},
      {head(0, 1) + huge + std::string(20, 'k'), "cut short"},
      {head(0, 1) + raw_text("k") + raw(uint32_t{13}) + raw(uint64_t{0}), "has type 13"},
      {head(0, 1) + raw_text("k") + raw(uint32_t{9}) + raw(uint32_t{9}) + raw(uint64_t{1}), "array of arrays",
       ErrorCode::unsupported},
      {head(0, 1) + raw_text("k") + raw(uint32_t{9}) + raw(uint32_t{4}) + huge,
       "has 1152921504606846976 elements"},
      {head(0, 1) + raw_text("k") + raw(uint32_t{7}) + std::string(1, '\2'), "neither 0 nor 1"},
      {head(0, 1) + raw_text("") + raw(uint32_t{0}) + std::string(1, '\2'), "is empty"},
      {head(0, 1) + raw_text("\xFF") + raw(uint32_t{0}) + std::string(1, '\2'), "not UTF-8"},
      {head(0, 2) + raw_text("k") + raw(uint32_t{0}) + "a" + raw_text("k") + raw(uint32_t{0}) + "a" +
           "        ",
       "stands twice"},
      {with_data(head(1, 0) + tensor_row("t", {1, 1, 1, 1, 1}, 0, 0), 4), "5 dimensions"},
      {with_data(head(1, 0) + tensor_row("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0), 4), "overflows"},
      {with_data(head(1, 0) + tensor_row("t", {33}, 2, 0), 64), "whole blocks of 32"},
      {with_data(head(1, 0) + tensor_row("t", {32}, 4, 0), 64), "has type 4, which miniTE does not read",
       ErrorCode::unsupported},
      {with_data(head(1, 0) + tensor_row("t", {4}, 0, 8), 64), "no multiple of 32"},
      {with_data(head(1, 0) + tensor_row("t", {4}, 0, 64), 64), "cut short: tensor \"t\""},
      {with_data(head(2, 0) + tensor_row("t", {16}, 0, 0) + tensor_row("u", {4}, 0, 32), 128), "overlap"},
      {with_data(head(2, 0) + tensor_row("t", {4}, 0, 0) + tensor_row("t", {4}, 0, 32), 128), "stands twice"},
      {with_data(head(1, 0) + tensor_row(std::string(64, 'n'), {4}, 0, 0), 64), "allowed are 63"},
      {head(0, 1) + raw_text("general.alignment") + raw(uint32_t{4}) + raw(uint32_t{12}), "power of two"},
  };
  for (const Lie& lie : lies) {
    const Error error = error_of([&] { (void)parse_gguf(bytes_of(lie.file), "m.gguf"); });
    EXPECT_EQ(error.code(), lie.code) << error.what();
    EXPECT_TRUE(holds(error.what(), lie.says)) << error.what();
    EXPECT_TRUE(holds(error.what(), "m.gguf")) << error.what();
  }
}

TEST(Gguf, ValuesOfAnotherTypeAreNamed) {
  const TempFolder folder;
  write_small(folder / "a.gguf");
  const GgufFile file(folder / "a.gguf");
  const auto says = [&](auto body, const std::string& part) {
    const Error error = error_of(body);
    EXPECT_TRUE(holds(error.what(), part)) << error.what();
  };
  says([&] { (void)file.integer("a.f32"); }, "\"a.f32\" is f32, expected an integer");
  says([&] { (void)file.text("a.words"); }, "is an array of string, expected one value");
  says([&] { (void)file.texts("a.numbers"); }, "expected an array of strings");
  says([&] { (void)file.integer("a.u33"); }, "has no value \"a.u33\"; did you mean 'a.u32'?");
  says([&] { (void)file.tensor("norn"); }, "has no tensor \"norn\"; did you mean 'norm'?");
}

TEST(Gguf, TheWriterRefusesWhatTheReaderWould) {
  const TempFolder folder;
  GgufValues values;
  EXPECT_TRUE(
      holds(error_of([&] { values.put_integer("k", GgufValueType::u8, 256); }).what(), "256 is not a u8"));
  values.put_boolean("k", false);
  EXPECT_TRUE(holds(error_of([&] { values.put_boolean("k", true); }).what(), "put twice"));
  const auto refused = [&](const std::vector<GgufTensorShape>& shapes) {
    return std::string(error_of([&] { GgufWriter(folder / "w.gguf", values, shapes); }).what());
  };
  EXPECT_TRUE(holds(refused({{"t", GgufType::q4_0, {2, 33}}}), "whole blocks of 32"));
  EXPECT_TRUE(holds(refused({{"t", GgufType::f32, {}}}), "0 dimensions"));
  EXPECT_TRUE(holds(refused({{std::string(64, 'n'), GgufType::f32, {1}}}), "1 to 63 bytes"));
  EXPECT_TRUE(holds(refused({{"t", GgufType::f32, {1}}, {"t", GgufType::f32, {1}}}), "twice"));
  GgufWriter writer(folder / "w.gguf", values, {{"t", GgufType::f32, {1}}});
  EXPECT_EQ(error_of([&] { writer.commit(); }).code(), ErrorCode::internal);
  EXPECT_FALSE(std::filesystem::exists(folder / "w.gguf"));
}

}  // namespace
}  // namespace minite::io
