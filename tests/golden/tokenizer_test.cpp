// Small tokenizers of every kind of pre-tokenizer, and what the Python package tokenizers made of texts.
#include "io/tokenizer.h"

#include <nlohmann/json.hpp>

#include "golden/golden.h"
#include "support/temp_folder.h"

namespace minite::golden {
namespace {

using nlohmann::json;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using Ids = std::vector<int32_t>;

void compare(const io::Tokenizer& tokenizer, const json& row) {
  const auto text = row.at("text").get<std::string>();
  const Ids plain = tokenizer.encode(text);
  EXPECT_EQ(plain, row.at("plain").get<Ids>()) << row.at("text");
  const io::TextRange all{0, text.size()};
  const Ids special = tokenizer.encode(text, {&all, 1});
  EXPECT_EQ(special, row.at("special").get<Ids>()) << row.at("text");
  EXPECT_EQ(tokenizer.encode_prompt(text), row.at("prompt").get<Ids>()) << row.at("text");
  EXPECT_EQ(tokenizer.decode(plain), row.at("plain_decoded")) << row.at("text");
  EXPECT_EQ(tokenizer.decode(special), row.at("special_decoded")) << row.at("text");
  const size_t half = plain.empty() ? 0 : std::max<size_t>(1, plain.size() / 2);
  EXPECT_EQ(tokenizer.decode(std::span(plain).first(half)), row.at("half")) << row.at("text");
}

TEST(Tokenizers, EncodeAndDecodeAsThePackage) {
  const json cases = json::parse(slurp(files.tokenizers));
  int rows = 0;
  for (const json& one : cases) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    const TempFolder folder;
    const std::string bytes = one.at("tokenizer").dump();
    spill(folder / "tokenizer.json", bytes);
    const auto tokenizer = io::load_tokenizer(folder.path());
    for (const json& row : one.at("rows")) {
      compare(*tokenizer, row);
      ++rows;
    }
    tokenizer->save(folder / "saved");
    EXPECT_EQ(slurp(folder / "saved/tokenizer.json"), bytes) << "kept byte for byte";
  }
  EXPECT_EQ(cases.size(), 5u);
  EXPECT_GE(rows, 80);
}

}  // namespace
}  // namespace minite::golden
