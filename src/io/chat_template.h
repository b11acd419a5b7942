#pragma once
// Chats as models were trained to read them. Checkpoints carry a Jinja program for this; the ones of the
// supported families are known here by what characterises them, and rendered without Jinja.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/added_tokens.h"

namespace minite::io {

struct ChatMessage {
  std::string role;  ///< "system" or "user"
  std::string content;
};

/// A rendered chat: `special` are the parts that the template wrote, in which special tokens are meant; what
/// people wrote stays plain text.
struct ChatText {
  std::string text;
  std::vector<TextRange> special;
};

/// A known template.
struct ChatTemplate {
  std::string_view name;
  std::vector<std::string_view> has, lacks;  ///< what its Jinja text holds without blanks, and what not
  void (*render)(const ChatTemplate& row, std::span<const ChatMessage> messages, std::string_view bos,
                 ChatText& to);
  std::string_view system = {};  ///< the system message where the chat begins with none
};
/// All of them; the first that fits counts.
[[nodiscard]] const std::vector<ChatTemplate>& chat_templates();

/// The row for a template's Jinja text. Error: unsupported for an unknown or empty one; `origin` names the
/// checkpoint.
[[nodiscard]] const ChatTemplate& chat_template_of(std::string_view jinja, const std::string& origin);

/// `messages`, then the beginning of the assistant's answer. `bos` is the text of the begin token. Errors:
/// invalid_argument (no message, another role, a system message that is not the first).
[[nodiscard]] ChatText render_chat(const ChatTemplate& row, std::span<const ChatMessage> messages,
                                   std::string_view bos);

}  // namespace minite::io
