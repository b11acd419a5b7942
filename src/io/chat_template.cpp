#include "io/chat_template.h"

#include <algorithm>
#include <array>

#include "core/fail.h"

namespace minite::io {
namespace {

/// Appends what the template writes.
void write(ChatText& to, std::string_view text) {
  if (text.empty()) return;
  const size_t begin = to.text.size();
  to.text += text;
  if (!to.special.empty() && to.special.back().end == begin) {
    to.special.back().end = to.text.size();
  } else {
    to.special.push_back({begin, to.text.size()});
  }
}

/// Without white space at both ends, as Jinja's trim: Python's str.strip().
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v\x1c\x1d\x1e\x1f";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? std::string_view{}
                            : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// --- ChatML: <|im_start|>role, the message, <|im_end|> -----------------------------------------------

void chatml_message(ChatText& to, std::string_view role, std::string_view content) {
  write(to, "<|im_start|>");
  write(to, role);
  write(to, "\n");
  to.text += content;
  write(to, "<|im_end|>\n");
}

void render_chatml(const ChatTemplate& row, std::span<const ChatMessage> messages, std::string_view /*bos*/,
                   ChatText& to) {
  if (!row.system.empty() && messages.front().role != "system") {
    write(to, "<|im_start|>system\n");
    write(to, row.system);
    write(to, "<|im_end|>\n");
  }
  for (const ChatMessage& m : messages) chatml_message(to, m.role, m.content);
  write(to, "<|im_start|>assistant\n");
}

// --- Llama 3: headers, and <|eot_id|> ----------------------------------------------------------------

void llama3_header(ChatText& to, std::string_view role) {
  write(to, "<|start_header_id|>");
  write(to, role);
  write(to, "<|end_header_id|>\n\n");
}

void llama3_message(ChatText& to, const ChatMessage& m) {
  llama3_header(to, m.role);
  to.text += trimmed(m.content);
  write(to, "<|eot_id|>");
}

void render_llama3(const ChatTemplate& /*row*/, std::span<const ChatMessage> messages, std::string_view bos,
                   ChatText& to) {
  write(to, bos);
  for (const ChatMessage& m : messages) llama3_message(to, m);
  llama3_header(to, "assistant");
}

/// 3.1 and later have a system message always, which begins with row.system: the dates.
void render_llama31(const ChatTemplate& row, std::span<const ChatMessage> messages, std::string_view bos,
                    ChatText& to) {
  write(to, bos);
  llama3_header(to, "system");
  write(to, row.system);
  if (messages.front().role == "system") {
    to.text += trimmed(messages.front().content);
    messages = messages.subspan(1);
  }
  write(to, "<|eot_id|>");
  for (const ChatMessage& m : messages) llama3_message(to, m);
  llama3_header(to, "assistant");
}

/// A template's text without blanks and tabs, with newlines in place of "\\n" and single quotes: templates
/// are stored with and without escapes.
std::string canonical(std::string_view jinja) {
  std::string text;
  for (size_t i = 0; i < jinja.size(); ++i) {
    const char c = jinja[i];
    if (c == ' ' || c == '\t') continue;
    if (c == '\\' && jinja.substr(i, 2) == "\\n") {
      text += '\n';
      ++i;
    } else {
      text += c == '"' ? '\'' : c;
    }
  }
  return text;
}

constexpr std::array<std::string_view, 2> kRoles = {"system", "user"};

}  // namespace

const std::vector<ChatTemplate>& chat_templates() {
  // Without blanks, as canonical() writes templates. All begin the answer as their renderer does.
  constexpr std::string_view kChatMl = "<|im_start|>assistant\n'}}",
                             kLlama = "<|start_header_id|>assistant<|end_header_id|>\n\n'}}";
  static const std::vector<ChatTemplate> rows = {
      {"Llama 3.1",
       {kLlama, "<|eot_id|>", "{{-bos_token}}", "<|start_header_id|>system<|end_header_id|>\n\n'}}",
        "'CuttingKnowledgeDate:December2023\n'", "'26Jul2024'", "message['content']|trim"},
       {"<|im_start|>", "<think>"},
       render_llama31,
       "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"},
      {"Llama 3",
       {kLlama, "+message['content']|trim+'<|eot_id|>'", "bos_token+content", "loop.index0==0"},
       {"<|im_start|>", "Date", "tools", "system"},
       render_llama3},
      {"SmolLM2",
       {kChatMl, "system\nYouareahelpfulAIassistantnamedSmolLM,trainedbyHuggingFace<|im_end|>\n",
        "loop.first"},
       {"tools", "think", "bos_token", "trim"},
       render_chatml,
       "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
      {"Qwen2.5",
       {kChatMl, "system\nYouareQwen,createdbyAlibabaCloud.Youareahelpfulassistant.<|im_end|>\n",
        "tool_call"},
       {"think", "bos_token", "trim", "image"},
       render_chatml,
       "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
      {"Qwen2",
       {kChatMl, "system\nYouareahelpfulassistant.<|im_end|>\n", "loop.first"},
       {"tools", "think", "bos_token", "trim", "image"},
       render_chatml,
       "You are a helpful assistant."},
      // The answer begins bare, so that the model thinks. Others that know enable_thinking begin it
      // otherwise.
      {"Qwen3",
       {kChatMl, "enable_thinking", "</think>", "tool_call"},
       {"Youarea", "YouareQ", "bos_token", "'<think>\n'", "enable_thinkingistrue", "image"},
       render_chatml},
      {"ChatML",
       {kChatMl, "message['role']", "message['content']", "'<|im_end|>'"},
       {"Youare", "tools", "think", "bos_token", "system", "trim", "raise_exception"},
       render_chatml},
  };
  return rows;
}

const ChatTemplate& chat_template_of(std::string_view jinja, const std::string& origin) {
  const std::string text = canonical(jinja);
  const auto holds = [&](std::string_view part) { return text.find(part) != text.npos; };
  std::vector<std::string_view> names;
  for (const ChatTemplate& row : chat_templates()) {
    if (std::ranges::all_of(row.has, holds) && std::ranges::none_of(row.lacks, holds)) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::unsupported,
       "{}: its chat template is {}; known are those of {}. Give a raw prompt instead", origin,
       jinja.empty() ? "missing" : "not known", fmt::join(names, ", "));
}

ChatText render_chat(const ChatTemplate& row, std::span<const ChatMessage> messages, std::string_view bos) {
  require(!messages.empty(), "chat: there is no message");
  for (size_t i = 0; i < messages.size(); ++i) {
    require(std::ranges::find(kRoles, messages[i].role) != kRoles.end(),
            "chat: message {} has the role '{}'; roles are {}", i, messages[i].role, fmt::join(kRoles, ", "));
    require(i == 0 || messages[i].role != "system",
            "chat: message {} is a system message; only the first may be", i);
  }
  ChatText to;
  row.render(row, messages, bos, to);
  return to;
}

}  // namespace minite::io
