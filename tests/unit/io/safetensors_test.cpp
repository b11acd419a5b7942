#include "io/safetensors.h"

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

std::string file_with(const std::string& header, size_t data_bytes) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i));
  return text + header + std::string(data_bytes, 'x');
}

SafetensorsContent parse(const std::string& file) { return parse_safetensors(bytes_of(file), "f"); }

std::string small_file(const TempFolder& folder) {
  const std::vector<float> a = {1.5f, -2.0f, 3.0f, 0.0f, 5.0f, 6.0f};
  const std::vector<uint8_t> b = {7, 8, 9};
  const std::vector<uint16_t> c = {0x3F80};
  write_safetensors(folder / "a.safetensors",
                    {{"b.codes", {StoredType::u8, {3}, bytes_of(b)}},
                     {"a", {StoredType::f32, {2, 3}, bytes_of(a)}},
                     {"scalar", {StoredType::bf16, {}, bytes_of(c)}},
                     {"empty", {StoredType::f16, {0, 4}, {}}}},
                    {{"format", "pt"}, {"note", "a\nb"}});
  return slurp(folder / "a.safetensors");
}

TEST(Safetensors, RoundTrip) {
  const TempFolder folder;
  const std::string text = small_file(folder);
  const SafetensorsFile file(folder / "a.safetensors");
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.metadata().at("note"), "a\nb");
  const TensorInfo& a = file.at("a");
  EXPECT_EQ(a.type, StoredType::f32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a.count(), 6);
  EXPECT_TRUE(a.is_aligned());
  float last = 0;
  std::memcpy(&last, a.bytes.data() + 20, 4);
  EXPECT_EQ(last, 6.0f);
  EXPECT_EQ(file.at("scalar").count(), 1);
  EXPECT_TRUE(file.at("scalar").is_aligned());
  EXPECT_EQ(file.at("empty").count(), 0);
  EXPECT_EQ(std::to_integer<int>(file.at("b.codes").bytes[2]), 9);
  EXPECT_EQ(static_cast<uint8_t>(text[0]) % 8, 0);
}

// The layout is the contract with other readers: golden text.
TEST(Safetensors, BytesAreDeterministic) {
  const TempFolder folder;
  const std::string text = small_file(folder);
  const std::string header = R"({"__metadata__":{"format":"pt","note":"a\nb"},)"
                             R"("a":{"data_offsets":[0,24],"dtype":"F32","shape":[2,3]},)"
                             R"("b.codes":{"data_offsets":[26,29],"dtype":"U8","shape":[3]},)"
                             R"("empty":{"data_offsets":[24,24],"dtype":"F16","shape":[0,4]},)"
                             R"("scalar":{"data_offsets":[24,26],"dtype":"BF16","shape":[]}})";
  EXPECT_EQ(text.substr(8, header.size()), header);
  EXPECT_EQ(text, small_file(folder));
  size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) entries += entry.exists();
  EXPECT_EQ(entries, 1u);
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const TempFolder folder;
  const std::string text = small_file(folder);
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string cut = text.substr(0, n);  // a heap copy, so that a sanitizer sees a read past the end
    const Error error = error_of([&] { (void)parse(cut); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << n;
    EXPECT_TRUE(holds(error.what(), "is cut short: " + std::to_string(n) + " bytes")) << error.what();
  }
  const Error error = error_of([&] { (void)parse(text.substr(0, text.size() - 1)); });
  EXPECT_TRUE(holds(error.what(), "header promises " + std::to_string(text.size()))) << error.what();
}

TEST(Safetensors, EveryFlippedHeaderBitIsReadOrRefused) {
  const TempFolder folder;
  const std::string text = small_file(folder);
  for (size_t bit = 0; bit < (text.size() - 29) * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      for (const auto& [name, info] : parse(damaged).tensors) {
        EXPECT_LE(info.bytes.size(), text.size()) << name;
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::corrupt_data) << error.what();
    }
  }
}

struct Hostile {
  const char* name;
  std::string file;
  const char* says;
};

std::string tensor(const std::string& fields) { return "{\"t\":{" + fields + "}}"; }

class SafetensorsHostile : public ::testing::TestWithParam<Hostile> {};

TEST_P(SafetensorsHostile, IsRefusedWithAReason) {
  const Error error = error_of([&] { (void)parse(GetParam().file); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
  EXPECT_TRUE(holds(error.what(), GetParam().says)) << error.what();
}

const std::string kOverlap = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
const std::string kHole = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})";
const std::string kTwice = R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                           R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";

INSTANTIATE_TEST_SUITE_P(
    Headers, SafetensorsHostile,
    ::testing::Values(
        Hostile{"length", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "the limit is 100000000"},
        Hostile{"not_json", file_with("{\"a\":", 0), "not valid JSON"},
        Hostile{"not_object", file_with("[]", 0), "does not begin"},
        Hostile{"empty_header", file_with("", 0), "does not begin"},
        Hostile{"not_utf8", file_with("{\"\xff\":{}}", 0), "not valid JSON"},
        Hostile{"deep", file_with("{\"a\":" + std::string(1 << 20, '['), 0), "nests deeper"},
        Hostile{"deep_objects", file_with(R"({"a":{"b":{"c":{"d":1}}}})", 0), "nests deeper"},
        Hostile{"twice", file_with(kTwice, 0), "names \"a\" twice"},
        Hostile{"not_a_tensor", file_with("{\"t\":3}", 0), "is not an object"},
        Hostile{"dtype", file_with(tensor(R"("dtype":"F7","shape":[1],"data_offsets":[0,1])"), 1),
                "tensor \"t\" has an unknown dtype \"F7\""},
        Hostile{"no_dtype", file_with(tensor(R"("shape":[1],"data_offsets":[0,1])"), 1), "has no dtype"},
        Hostile{"dtype_number", file_with(tensor(R"("dtype":1,"shape":[1],"data_offsets":[0,1])"), 1),
                "not a string"},
        Hostile{"negative", file_with(tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1),
                "whole number"},
        Hostile{"fraction", file_with(tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), 1),
                "whole number"},
        Hostile{"huge_dim",
                file_with(tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])"), 1),
                "whole number"},
        Hostile{"overflow",
                file_with(tensor(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0])"), 0),
                "overflows"},
        Hostile{"many_dims", file_with(tensor("\"shape\":[1" + std::string(100, ',') + "]"), 0),
                "not valid JSON"},
        Hostile{"many_numbers",
                file_with(tensor("\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                                 "1,1,1,1,1,1]"),
                          0),
                "more than 32"},
        Hostile{"size", file_with(tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4),
                "which needs 8"},
        Hostile{"backwards", file_with(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1),
                "run backwards"},
        Hostile{"three_offsets", file_with(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1,2])"), 1),
                "not two numbers"},
        Hostile{"past_end", file_with(tensor(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])"), 2),
                "cut short"},
        Hostile{"trailing", file_with(tensor(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 3),
                "2 bytes follow the last tensor"},
        Hostile{"overlap", file_with(kOverlap, 6), "they overlap"},
        Hostile{"hole", file_with(kHole, 6), "a hole"},
        Hostile{"metadata", file_with(R"({"__metadata__":{"a":1}})", 0), "is not a string"},
        Hostile{"metadata_list", file_with(R"({"__metadata__":[]})", 0), "is not an object"},
        Hostile{"control_name", file_with("{\"\\u001b[2J\":3}", 0), "\\x1b[2J"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Safetensors, EmptyFileOfNoTensors) {
  EXPECT_TRUE(parse(file_with("{}      ", 0)).tensors.empty());
  const TempFolder folder;
  write_safetensors(folder / "none.safetensors", TensorMap{});
  EXPECT_TRUE(SafetensorsFile(folder / "none.safetensors").tensors().empty());
}

TEST(Safetensors, WriterRefusesWrongSizesAndLeavesNoFile) {
  const TempFolder folder;
  const std::vector<float> a = {1, 2};
  const auto write = [&](const std::string& name, const TensorInfo& info) {
    return error_of([&] { write_safetensors(folder / "x", {{name, info}}); });
  };
  EXPECT_EQ(write("t", {StoredType::f32, {3}, bytes_of(a)}).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(write("t", {StoredType::f32, {-2}, bytes_of(a)}).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(write("__metadata__", {StoredType::f32, {2}, bytes_of(a)}).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(write("\xff", {StoredType::f32, {2}, bytes_of(a)}).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, StreamsTensorsInFileOrder) {
  const TempFolder folder;
  std::vector<std::string> order;
  std::vector<std::byte> buffer(16);
  write_safetensors(folder / "s", {{"a", {StoredType::u8, {4}}}, {"b", {StoredType::f64, {2}}}},
                    [&](const std::string& name) {
                      order.push_back(name);
                      return std::span<const std::byte>(buffer).first(name == "a" ? 4 : 16);
                    });
  EXPECT_EQ(order, (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(SafetensorsFile(folder / "s").at("b").is_aligned());
}

TEST(Safetensors, MissingFileAndMissingTensor) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { SafetensorsFile f(folder / "no"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(error_of([&] { SafetensorsFile f(folder.path()); }).code(), ErrorCode::invalid_argument);
  small_file(folder);
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_TRUE(holds(error_of([&] { (void)file.at("b.code"); }).what(), "did you mean \"b.codes\""));
}

}  // namespace
}  // namespace minite::io
