#pragma once
// A shared library opened at run time.
#include <dlfcn.h>

#include <string>
#include <vector>

namespace minite::cli {

/// The first of some files that the loader finds. It stays open until the process ends: it may own threads.
class Library {
 public:
  explicit Library(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      if (handle_ == nullptr) handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle_ == nullptr) error_ = dlerror();
  }
  [[nodiscard]] bool found() const { return handle_ != nullptr; }
  /// Of the last file when none was found.
  [[nodiscard]] const std::string& error() const { return error_; }
  /// The function `name` of the library or of one that it needs, or nullptr.
  template <class F>
  [[nodiscard]] F* optional(const char* name) const {
    return reinterpret_cast<F*>(dlsym(handle_, name));
  }
  /// Sets `function`, or remembers that `name` is missing.
  template <class F>
  void bind(F*& function, const char* name) {
    function = optional<F>(name);
    if (function == nullptr) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
  }
  /// Names that bind() did not find.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  void* handle_ = nullptr;
  std::string error_, missing_;
};

}  // namespace minite::cli
