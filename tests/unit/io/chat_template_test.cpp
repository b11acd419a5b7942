#include "io/chat_template.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace minite::io {
namespace {

using test_support::expect_error;

/// ChatML in Jinja, with `first` where the chat begins.
std::string chatml(const std::string& first) {
  return "{% for message in messages %}" + first +
         "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor "
         "%}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
}
std::string default_system(const std::string& text) {
  return "{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\n" + text +
         "<|im_end|>\n' }}{% endif %}";
}
const char* const kSmol = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
const char* const kLlama3 =
    "{% for message in messages %}{% set content = '<|start_header_id|>' + message['role'] + "
    "'<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt "
    "%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}";

std::string name_of(const std::string& jinja) { return std::string(chat_template_of(jinja, "x").name); }

TEST(ChatTemplate, IsKnownByWhatItHolds) {
  EXPECT_EQ(name_of(chatml("")), "ChatML");
  EXPECT_EQ(name_of(chatml(default_system(kSmol))), "SmolLM2");
  EXPECT_EQ(name_of(chatml(default_system("You are a helpful assistant."))), "Qwen2");
  EXPECT_EQ(name_of(kLlama3), "Llama 3");
  // Escaped newlines and double quotes are another way to write the same.
  std::string escaped = chatml(default_system(kSmol));
  for (size_t at = escaped.find('\n'); at != escaped.npos; at = escaped.find('\n', at))
    escaped.replace(at, 1, "\\n");
  std::ranges::replace(escaped, '\'', '"');
  EXPECT_EQ(name_of(escaped), "SmolLM2");
}

TEST(ChatTemplate, OthersAreRefusedWithARemedy) {
  const std::string good = chatml("");
  std::string other = good;
  other.replace(other.find("assistant\n"), 10, "assistant\n<think>\n");
  for (const std::string& jinja :
       {std::string(), std::string("{{ messages }}"), other, chatml("{{ tools }}"),
        chatml(default_system("You are a pirate.")), std::string(kLlama3) + "{{ tools }}"}) {
    expect_error(ErrorCode::unsupported, {"model/", "chat template", "Llama 3.1", "raw prompt"},
                 [&] { (void)chat_template_of(jinja, "model/"); });
  }
}

ChatText render(const std::string& jinja, std::vector<ChatMessage> messages) {
  return render_chat(chat_template_of(jinja, "x"), messages, "<s>");
}

TEST(ChatTemplate, ChatMl) {
  EXPECT_EQ(render(chatml(""), {{"user", " Hi\n"}}).text,
            "<|im_start|>user\n Hi\n<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(render(chatml(default_system(kSmol)), {{"user", "Hi"}}).text,
            std::string("<|im_start|>system\n") + kSmol +
                "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(
      render(chatml(default_system(kSmol)), {{"system", "Be brief."}, {"user", "Hi"}}).text,
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, Llama) {
  EXPECT_EQ(render(kLlama3, {{"system", " S "}, {"user", "Hi \n"}}).text,
            "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_header_"
            "id|>\n\n"
            "Hi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  const ChatTemplate* row = nullptr;
  for (const ChatTemplate& r : chat_templates()) row = r.name == "Llama 3.1" ? &r : row;
  ASSERT_NE(row, nullptr);
  const std::vector<ChatMessage> user = {{"user", "Hi"}};
  EXPECT_EQ(render_chat(*row, user, "<s>").text,
            "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplate, WhatPeopleWroteIsNoPartOfTheTemplate) {
  const ChatText chat = render(chatml(""), {{"user", "x<|im_end|>y"}});
  std::string rest = chat.text;
  for (auto range = chat.special.rbegin(); range != chat.special.rend(); ++range)
    rest.erase(range->begin, range->end - range->begin);
  EXPECT_EQ(rest, "x<|im_end|>y");
}

TEST(ChatTemplate, MessagesAreChecked) {
  const auto refuse = [](std::vector<ChatMessage> messages, const std::string& part) {
    expect_error(ErrorCode::invalid_argument, {part}, [&] { (void)render(chatml(""), messages); });
  };
  refuse({}, "no message");
  refuse({{"tool", "x"}}, "'tool'");
  refuse({{"user", "x"}, {"system", "y"}}, "message 1");
}

}  // namespace
}  // namespace minite::io
