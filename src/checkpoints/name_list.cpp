#include "checkpoints/name_list.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

#include "checkpoints/fused.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "recipes/glob.h"

namespace minite::checkpoints {
namespace {

constexpr std::string_view kRegex = "re:", kLinear = ".linear";
// A module's name has a hundred characters or so: a pattern that needs more steps does not end.
constexpr uint32_t kMatchLimit = 1'000'000, kDepthLimit = 10'000, kHeapLimitKib = 64 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
using Code = std::unique_ptr<pcre2_code, Free>;

Code compile(const std::string& entry) {
  const std::string_view pattern = std::string_view(entry).substr(kRegex.size());
  int error = 0;
  PCRE2_SIZE at = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_ANCHORED, &error, &at, nullptr));
  require(code != nullptr, "'{}' is no regular expression: error {} at character {}", printable(entry), error,
          at);
  return code;
}

bool regex_matches(const pcre2_code* code, const std::string& entry, const std::string& module) {
  const std::unique_ptr<pcre2_match_data, Free> data(pcre2_match_data_create_from_pattern(code, nullptr));
  const std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_depth_limit(context.get(), kDepthLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(module.data()), module.size(), 0, 0,
                                data.get(), context.get());
  if (count < 0 && count != PCRE2_ERROR_NOMATCH)
    fail(ErrorCode::resource, "'{}' on {}: the regular expression does not end (PCRE2 error {})",
         printable(entry), printable(module), count);
  return count >= 0;
}

/// Whether `module` is `outer` or inside it.
bool is_inside(std::string_view module, std::string_view outer) {
  return module == outer ||
         (module.size() > outer.size() && module.starts_with(outer) && module[outer.size()] == '.');
}

bool has_globs(Container container) { return container != Container::compressed_tensors; }
bool has_regexes(Container container) { return container != Container::modelopt; }

}  // namespace

struct NameList::Entry {
  Code regex;  ///< null: not a regular expression
};

NameList::NameList(Container container, std::vector<std::string> entries)
    : container_(container), entries_(std::move(entries)) {
  for (const std::string& entry : entries_)
    compiled_.push_back({has_regexes(container_) && entry.starts_with(kRegex) ? compile(entry) : nullptr});
}
NameList::~NameList() = default;
NameList::NameList(NameList&&) noexcept = default;
NameList& NameList::operator=(NameList&&) noexcept = default;

bool NameList::entry_matches(const Entry& entry, const std::string& text, const std::string& module) const {
  if (entry.regex) return regex_matches(entry.regex.get(), text, module);
  if (container_ == Container::compressed_tensors && text == "Linear") return true;
  if (is_inside(module, text)) return true;
  if (text.ends_with(kLinear) && module == text.substr(0, text.size() - kLinear.size())) return true;
  if (!has_globs(container_)) return false;
  // "x.*" means the module x as well.
  return glob_match(text, module) || (text.ends_with(".*") && module == text.substr(0, text.size() - 2));
}

std::string_view NameList::entry_for(const std::string& module) const {
  const std::string fused = fused_name(module);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entry_matches(compiled_[i], entries_[i], module)) return entries_[i];
    if (!fused.empty() && entries_[i] == fused) return entries_[i];
  }
  return {};
}

}  // namespace minite::checkpoints
