#include "io/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "core/fail.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {

struct Remedy {
  int error_number;
  ErrorCode code;
  const char* remedy;
};
constexpr std::array<Remedy, 13> kRemedies = {{
    {ENOSPC, ErrorCode::io, "free some space or choose a folder on another disk"},
    {EDQUOT, ErrorCode::io, "the disk quota is used up; free some space or choose another folder"},
    {EFBIG, ErrorCode::io,
     "the file size limit is reached; raise it (ulimit -f) or choose another file system"},
    {EACCES, ErrorCode::io, "change the permissions of the folder or choose another one"},
    {EPERM, ErrorCode::io, "change the permissions of the folder or choose another one"},
    {EROFS, ErrorCode::io, "the file system is read-only; choose a folder on another one"},
    {EIO, ErrorCode::io, "the device reports a fault; check the disk and choose another one"},
    {EMFILE, ErrorCode::io, "close files or raise the limit (ulimit -n)"},
    {ENFILE, ErrorCode::io, "close files or raise the limit (ulimit -n)"},
    {ENAMETOOLONG, ErrorCode::io, "choose a shorter name"},
    {EISDIR, ErrorCode::io, "it is a folder; name a file"},
    {ENOENT, ErrorCode::not_found, "check the path; a folder on the way to it must exist"},
    {ENOTDIR, ErrorCode::not_found, "a part of the path is a file, not a folder; check the path"},
}};

int open_retry(const fs::path& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

}  // namespace

void fail_errno(int error_number, std::string_view what, const fs::path& path) {
  const auto* row = std::find_if(kRemedies.begin(), kRemedies.end(),
                                 [&](const Remedy& r) { return r.error_number == error_number; });
  const bool known = row != kRemedies.end();
  fail(known ? row->code : ErrorCode::io, "cannot {} {}: {}; {}", what, path.string(),
       std::generic_category().message(error_number), known ? row->remedy : "check the path and the disk");
}

void create_folders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_errno(error.value(), "create folder", path);
  if (!fs::is_directory(path, error)) fail_errno(ENOTDIR, "create folder", path);
}

void sync_file(const fs::path& path) {
  const int fd = open_retry(path, O_RDONLY);
  if (fd < 0) fail_errno(errno, "open", path);
  const int result = ::fsync(fd);
  const int saved = errno;
  ::close(fd);
  if (result != 0) fail_errno(saved, "fsync", path);
}

std::vector<std::string> list_files(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->is_regular_file(error)) names.push_back(it->path().lexically_relative(folder).generic_string());
  }
  if (error) fail_errno(error.value(), "list", folder);
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_entries(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error != std::errc::no_such_file_or_directory) fail_errno(error.value(), "list", folder);
  std::sort(names.begin(), names.end());
  return names;
}

void sync_folder(const fs::path& path) {
  const int fd = open_retry(path, O_RDONLY | O_DIRECTORY);
  if (fd < 0) fail_errno(errno, "open folder", path);
  const int result = ::fsync(fd);
  const int saved = errno;
  ::close(fd);
  // Some network file systems have no fsync for folders; their rename is durable by itself.
  if (result != 0 && saved != EINVAL && saved != ENOTSUP) fail_errno(saved, "fsync", path);
}

}  // namespace minite::io
