// A GGUF file that the gguf package wrote: the container, blocks that it encoded, random blocks that it
// decoded.
#include "io/gguf.h"

#include "golden/golden.h"
#include "io/ggml_blocks.h"

namespace minite::golden {
namespace {

using io::GgufFile;
using io::GgufTensor;

std::vector<float> floats_of(const GgufTensor& t) {
  std::vector<float> values(static_cast<size_t>(t.rows() * t.cols()));
  io::decode_blocks(t.type, t.bytes, values);
  return values;
}

TEST(Gguf, ValuesOfThePackageAreRead) {
  const GgufFile file(files.gguf);
  EXPECT_EQ(file.text("general.architecture"), "golden");
  EXPECT_EQ(file.texts("golden.words"), (std::vector<std::string_view>{"a", "", "end"}));
  EXPECT_EQ(file.integers("golden.numbers"), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(file.number("golden.float"), static_cast<double>(0.1f));
  EXPECT_EQ(file.tensor("x").shape, (std::vector<int64_t>{2, 256}));
}

TEST(Gguf, EncodersHaveThePackagesBytes) {
  const GgufFile file(files.gguf);
  const std::vector<float> x = floats_of(file.tensor("x"));
  int checked = 0;
  for (const auto& [name, tensor] : file.content().tensors) {
    if (!name.starts_with("encoded.")) continue;
    std::vector<std::byte> bytes(tensor.bytes.size());
    io::encode_blocks(tensor.type, x, bytes);
    EXPECT_EQ(first_difference(tensor.bytes.data(), bytes.data(), static_cast<int64_t>(bytes.size())), "")
        << name;
    ++checked;
  }
  EXPECT_EQ(checked, 5);
}

TEST(Gguf, DecodersHaveThePackagesValues) {
  const GgufFile file(files.gguf);
  int checked = 0;
  for (const auto& [name, tensor] : file.content().tensors) {
    if (!name.starts_with("raw.")) continue;
    const std::vector<float> want = floats_of(file.tensor("decoded." + name.substr(4))),
                             got = floats_of(tensor);
    EXPECT_EQ(first_float_difference(want.data(), got.data(), static_cast<int64_t>(got.size())), "") << name;
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

}  // namespace
}  // namespace minite::golden
