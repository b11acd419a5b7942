#pragma once
// Lists of modules in the configurations of quantized checkpoints: what is quantized, and what is left out.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/layout.h"

namespace minite::checkpoints {

/// Entries of `exclude_modules` (ModelOpt), of `ignore` and `targets` (compressed-tensors), or of --ignore.
/// An entry matches a module X when it is X; when it is a module that X is inside ("vision_tower" and
/// "vision_tower.x", not "vision_tower2"); when it is X with ".linear" behind it; or as
///   ModelOpt: a shell pattern with * and ?;
///   compressed-tensors: "re:" and a regular expression that matches from the start of X, not to its end
///   (Python's re.match), or "Linear", the class of every module here;
///   plain (--ignore): all of these.
/// An entry for a module that servers fuse ("x.qkv_proj") matches its parts, too.
class NameList {
 public:
  /// Errors: invalid_argument with the entry for a regular expression that does not compile.
  NameList(Container container, std::vector<std::string> entries);
  ~NameList();
  NameList(NameList&&) noexcept;
  NameList& operator=(NameList&&) noexcept;

  [[nodiscard]] bool matches(const std::string& module) const { return !entry_for(module).empty(); }
  /// The first entry that matches, "" for none. Error: resource when a regular expression does not end.
  [[nodiscard]] std::string_view entry_for(const std::string& module) const;
  [[nodiscard]] const std::vector<std::string>& entries() const { return entries_; }

 private:
  struct Entry;
  [[nodiscard]] bool entry_matches(const Entry& entry, const std::string& text,
                                   const std::string& module) const;
  Container container_;
  std::vector<std::string> entries_;
  std::vector<Entry> compiled_;
};

}  // namespace minite::checkpoints
