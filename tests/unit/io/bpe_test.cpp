// Byte-level BPE: what is refused, where special tokens count, hostile files, and tokenizers inside GGUF
// files.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "core/philox.h"
#include "io/tokenizer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_bpe.h"

namespace minite::io {
namespace {

using nlohmann::json;
using test_support::expect_error;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using test_support::tiny_bpe;
using Ids = std::vector<int32_t>;

class Bpe : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> load(const json& document) const { return load_text(document.dump()); }
  std::unique_ptr<Tokenizer> load_text(const std::string& text) const {
    spill(folder_ / "tokenizer.json", text);
    return load_tokenizer(folder_.path());
  }
  TempFolder folder_;
};

TEST_F(Bpe, MergesTheLowestRankFirst) {
  const auto tokenizer = load(tiny_bpe());
  EXPECT_EQ(tokenizer->vocab_size(), 262);
  EXPECT_EQ(tokenizer->encode("the the th 112"), (Ids{257, 258, ' ', 256, ' ', '1', 259}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\xC3\xA9 \xF0\x9F\x98\x80\n")),
            "\xC3\xA9 \xF0\x9F\x98\x80\n");
  EXPECT_EQ(tokenizer->prefix(), Ids{});
  EXPECT_EQ(tokenizer->eos_id(), -1) << "no tokenizer_config.json";
  EXPECT_EQ(tokenizer->token_text(257), "the");
  EXPECT_EQ(tokenizer->token_text(261), "<|im_end|>");
  EXPECT_EQ(tokenizer->token_text(262), "");
}

TEST_F(Bpe, SpecialTokensCountInTheirRangesOnly) {
  const auto tokenizer = load(tiny_bpe());
  const std::string text = "<|im_end|>x<|im_end|>";
  EXPECT_EQ(tokenizer->encode(text).size(), text.size()) << "plain text";
  const auto with = [&](std::vector<TextRange> ranges) { return tokenizer->encode(text, ranges); };
  EXPECT_EQ(with({{0, text.size()}}), (Ids{261, 'x', 261}));
  EXPECT_EQ(with({{0, 10}}).front(), 261);
  EXPECT_EQ(with({{0, 10}}).size(), 12u);
  EXPECT_EQ(with({{0, 9}, {9, 21}}).back(), 261) << "no token goes across ranges";
  EXPECT_EQ(with({{0, 9}, {9, 21}}).size(), 12u);
  EXPECT_EQ(with({{11, 21}}).back(), 261);
}

TEST_F(Bpe, HalfCharactersAndForeignIdsDecodeToReplacements) {
  const auto tokenizer = load(tiny_bpe());
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer->decode(Ids{'a', 0xE2, 0x82}), "a" + bad) << "the beginning of a character";
  EXPECT_EQ(tokenizer->decode(Ids{0xE2, 0x82, 0xAC}), "\xE2\x82\xAC");
  EXPECT_EQ(tokenizer->decode(Ids{0xFF, 0x80, 'b'}), bad + bad + "b");
  EXPECT_EQ(tokenizer->decode(Ids{0xED, 0xA0, 0x80}), bad + bad + bad) << "a surrogate";
  EXPECT_EQ(tokenizer->decode(Ids{-1, 262, INT32_MAX, 260, 'c'}), bad + bad + bad + "c");
}

TEST_F(Bpe, TextThatIsNotUtf8OrHasNoTokenIsRefused) {
  expect_error(ErrorCode::invalid_argument, {"byte 1", "UTF-8"},
               [&] { (void)load(tiny_bpe())->encode("a\xFF"); });
  json holes = tiny_bpe();
  holes["model"]["vocab"].erase("q");
  expect_error(ErrorCode::invalid_argument, {"0x71", "' quit'", "no token"},
               [&] { (void)load(holes)->encode("a quit"); });
  holes["model"]["unk_token"] = "the";
  EXPECT_EQ(load(holes)->encode("qa"), (Ids{257, 'a'}));
}

TEST_F(Bpe, FilesBesideTheTokenizerAreReadAndKept) {
  const std::string config = test_support::tiny_bpe_config().dump();
  spill(folder_ / "tokenizer_config.json", config);
  spill(folder_ / "special_tokens_map.json", R"({"pad_token": "<|im_end|>", "eos_token": "<|im_start|>"})");
  spill(folder_ / "chat_template.jinja", "{{ x }}");
  const auto tokenizer = load(tiny_bpe());
  EXPECT_EQ(tokenizer->bos_id(), 260);
  EXPECT_EQ(tokenizer->eos_id(), 261) << "tokenizer_config.json comes first";
  EXPECT_EQ(tokenizer->pad_id(), 261);
  EXPECT_EQ(tokenizer->chat_template(), "{{ x }}");
  tokenizer->save(folder_ / "saved");
  for (const char* file :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"})
    EXPECT_EQ(slurp(folder_ / "saved" / file), slurp(folder_ / file)) << file;
  spill(folder_ / "tokenizer_config.json", R"({"eos_token": "</s>"})");
  expect_error(ErrorCode::corrupt_data, {"tokenizer_config.json", "eos_token", "</s>"},
               [&] { (void)load(tiny_bpe()); });
}

TEST_F(Bpe, PartsThatAreNotUnderstoodAreNamed) {
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& parts,
                          const std::function<void(json&)>& change) {
    json changed = tiny_bpe();
    change(changed);
    expect_error(code, parts, [&] { (void)load(changed); });
  };
  const ErrorCode no = ErrorCode::unsupported, bad = ErrorCode::corrupt_data;
  refuse(no, {"model.type", "Unigram"}, [](json& d) { d["model"]["type"] = "Unigram"; });
  refuse(no, {"model.byte_fallback", "true"}, [](json& d) { d["model"]["byte_fallback"] = true; });
  refuse(no, {"model.dropout", "0.1"}, [](json& d) { d["model"]["dropout"] = 0.1; });
  refuse(no, {"end_of_word_suffix", "</w>"}, [](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; });
  refuse(no, {"normalizer", "Lowercase"}, [](json& d) { d["normalizer"] = {{"type", "Lowercase"}}; });
  refuse(no, {"pre_tokenizer"}, [](json& d) { d["pre_tokenizer"] = nullptr; });
  refuse(no, {"pre_tokenizer", "Metaspace"}, [](json& d) { d["pre_tokenizer"] = {{"type", "Metaspace"}}; });
  refuse(no, {"pre_tokenizer.add_prefix_space"},
         [](json& d) { d["pre_tokenizer"]["add_prefix_space"] = true; });
  refuse(no, {"pre_tokenizer.pretokenizers[0].pattern.Regex", "GPT-2, Llama 3, Qwen"}, [](json& d) {
    const json split = {{"type", "Split"}, {"pattern", {{"Regex", "a+"}}}, {"behavior", "Isolated"}};
    d["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, d["pre_tokenizer"]}}};
  });
  refuse(no, {"post_processor", "BertProcessing"}, [](json& d) {
    d["post_processor"] = {{"type", "BertProcessing"}};
  });
  refuse(no, {"post_processor.single[1]", "before the text"}, [](json& d) {
    d["post_processor"] = {
        {"type", "TemplateProcessing"},
        {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<|im_end|>"}}}}}}};
  });
  refuse(no, {"decoder"}, [](json& d) { d["decoder"] = nullptr; });
  refuse(no, {"truncation"}, [](json& d) { d["truncation"] = {{"max_length", 5}}; });
  refuse(no, {"<|im_end|>", "lstrip"}, [](json& d) { d["added_tokens"][1]["lstrip"] = true; });
  refuse(bad, {"merge 1", "'tq'"}, [](json& d) { d["model"]["merges"][1] = "t q"; });
  refuse(bad, {"merge 0"}, [](json& d) { d["model"]["merges"][0] = "th"; });
  refuse(bad, {"merge 2"}, [](json& d) { d["model"]["merges"][2] = 7; });
  refuse(bad, {"'the'", "id 65"}, [](json& d) { d["model"]["vocab"]["the"] = 65; });
  refuse(bad, {"'the'", "4000000000"}, [](json& d) { d["model"]["vocab"]["the"] = 4000000000u; });
  refuse(bad, {"model.vocab"}, [](json& d) { d["model"].erase("vocab"); });
  refuse(bad, {"there twice"}, [](json& d) { d["added_tokens"][1]["content"] = "<|im_start|>"; });
}

TEST_F(Bpe, LongTextsTakeTimeInProportion) {
  const auto tokenizer = load(tiny_bpe());
  const auto start = std::chrono::steady_clock::now();
  for (const std::string unit : {"the", "1212", " ", "\n", "!"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20))
      << "0.3 s when nothing else runs";
}

TEST_F(Bpe, DamagedFilesNeverCrash) {
  const std::string good = tiny_bpe().dump();
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::string changed = good;
    const auto words = Philox::generate(seed, 0, 0);
    changed[words[0] % changed.size()] = static_cast<char>(words[1]);
    if (seed % 3 == 0) changed.resize(words[2] % changed.size());
    try {
      (void)load_text(changed)->encode("the 12");
    } catch (const Error&) {
    }
  }
  expect_error(ErrorCode::unsupported, {"pre_tokenizer", "of type"}, [&] {
    std::string deep = good;
    const std::string part = R"("pre_tokenizer":)";
    deep.replace(deep.find(part), part.size(),
                 part + std::string(100'000, '[') + std::string(100'000, ']') + R"(,"was":)");
    (void)load_text(deep);
  });
}

}  // namespace
}  // namespace minite::io
