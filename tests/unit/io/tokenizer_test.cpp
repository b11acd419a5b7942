#include "io/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/philox.h"
#include "minite/error.h"
#include "support/expect_error.h"

namespace minite::io {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test_support::expect_error;

class TokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "minite_tokenizer_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  json document(const char* name = "tokenizer.json") const {
    return json::parse(std::ifstream(folder_ / name));
  }
  fs::path write(const std::string& text) const {
    std::ofstream(folder_ / "tokenizer.json", std::ios::binary) << text;
    return folder_;
  }
  fs::path folder_;
};

TEST_F(TokenizerTest, ids_follow_code_points) {
  const CharTokenizer tokenizer("=+10220");
  EXPECT_EQ(tokenizer.characters(), "+012=");
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.encode("1+1=2"), (std::vector<int32_t>{5, 3, 5, 7, 6}));
  EXPECT_EQ(tokenizer.encode(""), std::vector<int32_t>{});
  EXPECT_EQ(tokenizer.pad_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
}

TEST_F(TokenizerTest, decode_leaves_out_special_tokens_and_marks_foreign_ids) {
  const CharTokenizer tokenizer("ab");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 3, 0, 4, 2}), "ab");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{3, 5, -1, INT32_MAX, INT32_MIN}),
            "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST_F(TokenizerTest, every_text_of_the_vocabulary_round_trips) {
  std::string printable;
  for (char c = 0x20; c < 0x7F; ++c) printable.push_back(c);
  const CharTokenizer ascii(printable);
  EXPECT_EQ(ascii.vocab_size(), 98);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string text;
    for (uint64_t i = 0; i < seed % 40; ++i) {
      text += printable[Philox::generate(seed, i, 0)[0] % printable.size()];
    }
    const auto ids = ascii.encode(text);
    EXPECT_EQ(ids.size(), text.size());
    EXPECT_EQ(ascii.decode(ids), text);
  }
  EXPECT_EQ(ascii.decode(ascii.encode("<eos><pad>")), "<eos><pad>");  // plain text, not special tokens
  const std::string wide = "\t\n\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  const CharTokenizer unicode(wide);
  EXPECT_EQ(unicode.encode(wide).size(), 5u);
  EXPECT_EQ(unicode.decode(unicode.encode(wide)), wide);
}

TEST_F(TokenizerTest, unknown_characters_are_named_with_their_position) {
  const CharTokenizer tokenizer("0123456789+=");
  expect_error(ErrorCode::invalid_argument, {"'x'", "U+0078", "byte 2", "+0123456789="},
               [&] { (void)tokenizer.encode("1+x="); });
  expect_error(ErrorCode::invalid_argument, {"U+20AC", "byte 1"},
               [&] { (void)tokenizer.encode("1\xE2\x82\xAC"); });
  expect_error(ErrorCode::invalid_argument, {"UTF-8", "byte 1"}, [&] { (void)tokenizer.encode("1\xFF"); });
  expect_error(ErrorCode::invalid_argument, {"U+0000"},
               [&] { (void)tokenizer.encode(std::string("1\0", 2)); });
}

TEST_F(TokenizerTest, vocabularies_are_checked) {
  expect_error(ErrorCode::invalid_argument, {"no characters"}, [] { CharTokenizer tokenizer(""); });
  expect_error(ErrorCode::invalid_argument, {"UTF-8", "byte 1"}, [] { CharTokenizer tokenizer("a\xC3"); });
  expect_error(ErrorCode::invalid_argument, {"U+0007", "byte 1"}, [] { CharTokenizer tokenizer("a\a"); });
  expect_error(ErrorCode::invalid_argument, {"U+0085"}, [] { CharTokenizer tokenizer("\xC2\x85"); });
  expect_error(ErrorCode::invalid_argument, {"U+FFFD"}, [] { CharTokenizer tokenizer("\xEF\xBF\xBD"); });
}

TEST_F(TokenizerTest, saved_files_load_again) {
  const CharTokenizer tokenizer("0123456789+-*/()=,#> \"\\\n\xC3\xA9<");
  tokenizer.save(folder_ / "new" / "checkpoint");
  for (const auto& path : {folder_ / "new/checkpoint", folder_ / "new/checkpoint/tokenizer.json"}) {
    const auto loaded = load_tokenizer(path);
    EXPECT_EQ(loaded->vocab_size(), tokenizer.vocab_size());
    EXPECT_EQ(loaded->encode("(1+2)*3=9\n"), tokenizer.encode("(1+2)*3=9\n"));
  }
  EXPECT_EQ(CharTokenizer::load(folder_ / "new/checkpoint").characters(), tokenizer.characters());
}

// The parts that the `tokenizers` library and transformers read.
TEST_F(TokenizerTest, files_have_the_hugging_face_form) {
  CharTokenizer("ba").save(folder_);
  const json tokenizer = document();
  EXPECT_EQ(tokenizer["version"], "1.0");
  EXPECT_EQ(tokenizer["model"]["type"], "WordLevel");
  EXPECT_EQ(tokenizer["model"]["vocab"],
            json({{"<pad>", 0}, {"<bos>", 1}, {"<eos>", 2}, {"a", 3}, {"b", 4}}));
  EXPECT_FALSE(tokenizer["model"]["vocab"].contains(tokenizer["model"]["unk_token"].get<std::string>()));
  EXPECT_EQ(tokenizer["decoder"]["type"], "Fuse");
  EXPECT_EQ(tokenizer["pre_tokenizer"]["behavior"], "Isolated");
  ASSERT_EQ(tokenizer["added_tokens"].size(), 3u);
  for (int id = 0; id < 3; ++id) {
    EXPECT_EQ(tokenizer["added_tokens"][id]["id"], id);
    EXPECT_EQ(tokenizer["added_tokens"][id]["special"], true);
  }
  const json config = document("tokenizer_config.json");
  EXPECT_EQ(config["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(config["eos_token"], "<eos>");
  EXPECT_EQ(config["clean_up_tokenization_spaces"], false);
}

TEST_F(TokenizerTest, other_tokenizers_are_refused_by_name) {
  CharTokenizer("ab").save(folder_);
  const json good = document();
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& parts,
                          const std::function<void(json&)>& change) {
    json changed = good;
    change(changed);
    expect_error(code, parts, [&] { (void)load_tokenizer(write(changed.dump())); });
  };
  refuse(ErrorCode::unsupported, {"model.type", "Unigram"}, [](json& d) { d["model"]["type"] = "Unigram"; });
  refuse(ErrorCode::unsupported, {"model.type", "null"}, [](json& d) { d.erase("model"); });
  refuse(ErrorCode::unsupported, {"model.type"}, [](json& d) { d["model"] = 3; });
  refuse(ErrorCode::unsupported, {"pre_tokenizer"}, [](json& d) { d["pre_tokenizer"] = nullptr; });
  refuse(ErrorCode::unsupported, {"normalizer", "NFC"}, [](json& d) { d["normalizer"] = {{"type", "NFC"}}; });
  refuse(ErrorCode::unsupported, {"post_processor"}, [](json& d) { d["post_processor"] = {{"type", "x"}}; });
  refuse(ErrorCode::corrupt_data, {"model.vocab"}, [](json& d) { d["model"].erase("vocab"); });
  refuse(ErrorCode::corrupt_data, {"model.vocab"}, [](json& d) { d["model"]["vocab"] = json::array(); });
  refuse(ErrorCode::corrupt_data, {"'a'", "9"}, [](json& d) { d["model"]["vocab"]["a"] = 9; });
  refuse(ErrorCode::corrupt_data, {"id 4"}, [](json& d) { d["model"]["vocab"]["a"] = 4; });
  refuse(ErrorCode::corrupt_data, {"-1"}, [](json& d) { d["model"]["vocab"]["a"] = -1; });
  refuse(ErrorCode::corrupt_data, {"1.5"}, [](json& d) { d["model"]["vocab"]["a"] = 1.5; });
  refuse(ErrorCode::corrupt_data, {"''"}, [](json& d) { d["model"]["vocab"][""] = 5; });
  refuse(ErrorCode::unsupported, {"'ab'"}, [](json& d) { d["model"]["vocab"]["ab"] = 5; });
  refuse(ErrorCode::unsupported, {"ascending"}, [](json& d) { d["model"]["vocab"] = {{"b", 0}, {"a", 1}}; });
  refuse(ErrorCode::corrupt_data, {"tokenizer.json", "U+0007"}, [](json& d) {
    d["model"]["vocab"] = {{"<pad>", 0}, {"<bos>", 1}, {"<eos>", 2}, {"\a", 3}};
  });
  refuse(ErrorCode::corrupt_data, {"no character"}, [](json& d) {
    d["model"]["vocab"] = {{"<pad>", 0}, {"<bos>", 1}, {"<eos>", 2}};
  });
}

TEST_F(TokenizerTest, damaged_files_never_crash) {
  CharTokenizer("0123+=").save(folder_);
  std::ifstream file(folder_ / "tokenizer.json", std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(file), {}};
  for (size_t length = 0; length + 2 < good.size(); length += 3) {
    expect_error(ErrorCode::corrupt_data, {"tokenizer.json"},
                 [&] { (void)load_tokenizer(write(good.substr(0, length))); });
  }
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::string changed = good;
    const auto words = Philox::generate(seed, 0, 0);
    changed[words[0] % changed.size()] = static_cast<char>(words[1]);
    try {
      (void)load_tokenizer(write(changed))->encode("1");
    } catch (const Error&) {
    }
  }
  expect_error(ErrorCode::corrupt_data, {"malformed"},
               [&] { (void)load_tokenizer(write(std::string(100000, '['))); });
  expect_error(ErrorCode::not_found, {"none"}, [&] { (void)load_tokenizer(folder_ / "none"); });
  fs::remove(folder_ / "tokenizer.json");
  expect_error(ErrorCode::not_found, {"tokenizer.json"}, [&] { (void)load_tokenizer(folder_); });
}

}  // namespace
}  // namespace minite::io
