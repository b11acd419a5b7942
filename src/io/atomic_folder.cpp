#include "io/atomic_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "io/files.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {

fs::path parent_of(const fs::path& path) {
  return path.parent_path().empty() ? fs::path(".") : path.parent_path();
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& final_path)
    : final_(final_path.filename().empty() ? final_path.parent_path() : final_path) {
  temporary_ = final_;
  temporary_ += ".tmp";
  std::error_code error;
  fs::remove_all(temporary_, error);
  if (error) fail_errno(error.value(), "remove", temporary_);
  create_folders(parent_of(final_));
  if (::mkdir(temporary_.c_str(), 0777) != 0) fail_errno(errno, "create", temporary_);
  open_ = true;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (open_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  for (const auto& name : list_files(temporary_)) {
    sync_file(temporary_ / name);
    sync_folder((temporary_ / name).parent_path());
  }
  sync_folder(temporary_);
  // rename(2) replaces an empty folder only, so an old one is moved aside first. A crash in between leaves
  // NAME.old.tmp, which the readers ignore.
  fs::path aside = final_;
  aside += ".old.tmp";
  std::error_code error;
  fs::remove_all(aside, error);
  const bool replaced = ::rename(final_.c_str(), aside.c_str()) == 0;
  if (!replaced && errno != ENOENT) fail_errno(errno, "replace", final_);
  if (::rename(temporary_.c_str(), final_.c_str()) != 0) {
    const int saved = errno;
    if (replaced) (void)::rename(aside.c_str(), final_.c_str());
    fail_errno(saved, "rename to", final_);
  }
  open_ = false;
  sync_folder(parent_of(final_));
  fs::remove_all(aside, error);
}

bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kMark = ".tmp";
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos || at == 0) return false;
  return name.find_first_not_of("0123456789.", at + kMark.size()) == std::string_view::npos;
}

std::vector<std::string> remove_stale_temporaries(const fs::path& folder) {
  std::vector<std::string> names = list_entries(folder);
  std::erase_if(names, [](const std::string& name) { return !is_temporary_name(name); });
  std::error_code error;
  for (const auto& name : names) {
    fs::remove_all(folder / name, error);
    if (error) fail_errno(error.value(), "remove", folder / name);
  }
  return names;
}

}  // namespace minite::io
