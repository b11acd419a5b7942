#pragma once
// A folder that appears whole or not at all; its sister for files is core/atomic_file.h.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

/// The caller fills path() ("NAME.tmp"), then commit() makes every file durable and renames the folder to
/// NAME. A folder NAME that exists is replaced. Without commit() the temporary folder is removed. One writer
/// a NAME.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& final_path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool open_ = false;
};

/// True for the names that AtomicFolder ("NAME.tmp") and AtomicFile ("NAME.tmp<pid>.<n>") use before
/// commit().
[[nodiscard]] bool is_temporary_name(std::string_view name);

/// Removes the temporary folders and files that an interrupted run left directly inside `folder`; returns the
/// names removed, sorted. A missing folder holds none.
std::vector<std::string> remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace minite::io
