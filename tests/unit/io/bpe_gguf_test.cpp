// Tokenizers inside GGUF files.
#include <gtest/gtest.h>

#include "io/tokenizer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/tiny_bpe_gguf.h"

namespace minite::io {
namespace {

using nlohmann::json;
using test_support::expect_error;
using test_support::put_tiny_bpe;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;
using Ids = std::vector<int32_t>;

std::filesystem::path write(const TempFolder& folder, const GgufValues& values) {
  GgufWriter(folder / "t.gguf", values, {}).commit();
  return folder / "t.gguf";
}

std::unique_ptr<Tokenizer> with_pre(const TempFolder& folder, const std::string& pre) {
  GgufValues values;
  put_tiny_bpe(values, pre);
  return load_tokenizer(write(folder, values));
}

TEST(BpeGguf, IsTheTokenizerOfTheFolder) {
  const TempFolder folder, hf;
  spill(hf / "tokenizer.json", test_support::tiny_bpe().dump());
  spill(hf / "tokenizer_config.json", test_support::tiny_bpe_config().dump());
  const auto gguf = with_pre(folder, "gpt-2"), json_file = load_tokenizer(hf.path());
  EXPECT_EQ(gguf->vocab_size(), 262);
  EXPECT_EQ(gguf->bos_id(), 260);
  EXPECT_EQ(gguf->eos_id(), 261);
  EXPECT_EQ(gguf->pad_id(), -1);
  for (const std::string text : {"the 1212 th<|im_end|>", "I'm\n\n  here", "\xC3\xA9t\xC3\xA9"}) {
    const TextRange all{0, text.size()};
    EXPECT_EQ(gguf->encode(text), json_file->encode(text));
    EXPECT_EQ(gguf->encode(text, {&all, 1}), json_file->encode(text, {&all, 1}));
  }
}

TEST(BpeGguf, EveryKindCutsAndBeginsInItsWay) {
  const TempFolder folder;
  EXPECT_EQ(with_pre(folder, "gpt-2")->encode("1212"), (Ids{259, 259}));
  EXPECT_EQ(with_pre(folder, "smollm")->encode("1212"), (Ids{'1', '2', '1', '2'}));
  EXPECT_EQ(with_pre(folder, "qwen2")->encode("1212"), (Ids{'1', '2', '1', '2'}));
  EXPECT_EQ(with_pre(folder, "llama-bpe")->encode("1212"), (Ids{259, '1', '2'})) << "three digits a piece";
  EXPECT_EQ(with_pre(folder, "qwen2")->encode("e\xCC\x81"), (Ids{0xC3, 0xA9})) << "normalized";
  EXPECT_EQ(with_pre(folder, "gpt-2")->encode("e\xCC\x81"), (Ids{'e', 0xCC, 0x81}));
  EXPECT_EQ(with_pre(folder, "llama-bpe")->prefix(), Ids{260});
  EXPECT_EQ(with_pre(folder, "smollm")->prefix(), Ids{});
}

TEST(BpeGguf, TheFileSaysWhetherTextsBeginWithAToken) {
  const TempFolder folder;
  GgufValues values;
  put_tiny_bpe(values, "smollm");
  values.put_boolean("tokenizer.ggml.add_bos_token", true);
  values.put_text("tokenizer.chat_template", "{{ chat }}");
  const auto tokenizer = load_tokenizer(write(folder, values));
  EXPECT_EQ(tokenizer->encode_prompt("th"), (Ids{260, 256}));
  EXPECT_EQ(tokenizer->chat_template(), "{{ chat }}");
  tokenizer->save(folder / "saved");
  const auto again = load_tokenizer(folder / "saved");
  EXPECT_EQ(again->encode_prompt("th 1<|im_end|>"), tokenizer->encode_prompt("th 1<|im_end|>"));
  EXPECT_EQ(again->eos_id(), 261);
  EXPECT_EQ(again->chat_template(), "{{ chat }}");
  const json saved = json::parse(slurp(folder / "saved/tokenizer.json"));
  EXPECT_EQ(saved["model"]["vocab"]["<|im_end|>"], 261) << "so that the tokenizers package keeps its id";
}

TEST(BpeGguf, WhatIsNotKnownIsNamed) {
  const TempFolder folder;
  expect_error(ErrorCode::unsupported, {"tokenizer.ggml.pre", "'tekken'", "gpt-2, smollm, llama-bpe, qwen2"},
               [&] { (void)with_pre(folder, "tekken"); });
  const auto refuse = [&](ErrorCode code, const std::vector<std::string>& parts, const auto& put) {
    GgufValues values;
    put(values);
    expect_error(code, parts, [&] { (void)load_tokenizer(write(folder, values)); });
  };
  refuse(ErrorCode::unsupported, {"tokenizer.ggml.model", "'llama'"},
         [](GgufValues& v) { v.put_text("tokenizer.ggml.model", "llama"); });
  refuse(ErrorCode::unsupported, {"add_eos_token"}, [](GgufValues& v) {
    put_tiny_bpe(v, "gpt-2");
    v.put_boolean("tokenizer.ggml.add_eos_token", true);
  });
  refuse(ErrorCode::corrupt_data, {"padding_token_id", "262"}, [](GgufValues& v) {
    put_tiny_bpe(v, "gpt-2");
    v.put_integer("tokenizer.ggml.padding_token_id", GgufValueType::u32, 262);
  });
  refuse(ErrorCode::corrupt_data, {"1 tokens but 2 token types"}, [](GgufValues& v) {
    v.put_text("tokenizer.ggml.model", "gpt2");
    v.put_text("tokenizer.ggml.pre", "gpt-2");
    v.put_texts("tokenizer.ggml.tokens", std::vector<std::string_view>{"a"});
    v.put_integers("tokenizer.ggml.token_type", GgufValueType::i32, std::vector<int64_t>{1, 1});
  });
  refuse(ErrorCode::corrupt_data, {"token 1, 'b\\xff', is not UTF-8"}, [](GgufValues& v) {
    v.put_text("tokenizer.ggml.model", "gpt2");
    v.put_text("tokenizer.ggml.pre", "gpt-2");
    v.put_texts("tokenizer.ggml.tokens", std::vector<std::string_view>{"a", "b\xFF"});
    v.put_integers("tokenizer.ggml.token_type", GgufValueType::i32, std::vector<int64_t>{1, 1});
  });
  refuse(ErrorCode::corrupt_data, {"tokenizer.chat_template is not UTF-8"}, [](GgufValues& v) {
    put_tiny_bpe(v, "gpt-2");
    v.put_text("tokenizer.chat_template", "\xFF");
  });
  refuse(ErrorCode::not_found, {"tokenizer.ggml.pre"},
         [](GgufValues& v) { v.put_text("tokenizer.ggml.model", "gpt2"); });
}

}  // namespace
}  // namespace minite::io
