#include "io/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "core/fail.h"
#include "core/utf8.h"

namespace minite::io {
namespace {

// A match of these patterns needs steps in proportion to its length; the limits stop a pattern that
// backtracks without end.
constexpr uint32_t kMatchLimit = 100'000'000, kDepthLimit = 1'000'000, kHeapLimitKib = 256 * 1024;
constexpr size_t kFirstJitStack = size_t{32} << 10, kJitStack = size_t{1} << 20;

// Unicode's White_Space, for the inside of a bracket.
constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// The pattern with \s and \S spelled out.
std::string with_white_space(std::string_view pattern) {
  std::string out;
  bool bracket = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\' || i + 1 == pattern.size()) {
      bracket = bracket ? c != ']' : c == '[';
      out += c;
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped != 's' && escaped != 'S') {
      out += c;
      out += escaped;
    } else if (bracket) {
      require(escaped == 's', "regular expression '{}': \\S inside brackets is not supported",
              printable(pattern));
      out += kSpace;
    } else {
      out += escaped == 's' ? "[" : "[^";
      out += kSpace;
      out += ']';
    }
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

template <class T>
T* needed(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return object;
}

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};

}  // namespace

struct RegexMemory::State {
  std::unique_ptr<pcre2_match_data, Free> data{needed(pcre2_match_data_create(1, nullptr))};
  std::unique_ptr<pcre2_match_context, Free> context{needed(pcre2_match_context_create(nullptr))};
  std::unique_ptr<pcre2_jit_stack, Free> stack{pcre2_jit_stack_create(kFirstJitStack, kJitStack, nullptr)};
};

RegexMemory::RegexMemory() : state_(std::make_unique<State>()) {
  pcre2_match_context* context = state_->context.get();
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_set_depth_limit(context, kDepthLimit);
  pcre2_set_heap_limit(context, kHeapLimitKib);
  if (state_->stack) pcre2_jit_stack_assign(context, nullptr, state_->stack.get());
}
RegexMemory::~RegexMemory() = default;

struct Regex::Compiled {
  std::unique_ptr<pcre2_code, Free> code;
};

Regex::Regex(std::string_view pattern) : compiled_(std::make_unique<Compiled>()) {
  const std::string full = with_white_space(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(full.data()), full.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  require(compiled_->code != nullptr, "regular expression '{}': {} at byte {}", printable(full),
          message_of(error), at);
  // Without the JIT compiler, as on machines that forbid writable code, matching is slower and the same.
  (void)pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::cut(std::string_view text, RegexMemory& memory, std::vector<std::string_view>& pieces) const {
  const pcre2_code* code = compiled_->code.get();
  pcre2_match_data* data = memory.state_->data.get();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;  // text before it is cut
  while (done < text.size()) {
    const int count = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data,
                                  memory.state_->context.get());
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      fail(ErrorCode::resource, "cutting a text of {} bytes: {} at byte {}", text.size(), message_of(count),
           done);
    const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data);
    if (span[0] > done) pieces.push_back(text.substr(done, span[0] - done));
    pieces.push_back(text.substr(span[0], span[1] - span[0]));
    done = span[1];
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace minite::io
