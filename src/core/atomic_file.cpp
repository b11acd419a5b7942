#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/fail.h"

namespace minite {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

fs::path resolve_target(const fs::path& target) {
  require(!target.empty() && target.has_filename(), "'{}' is not a file name", target.string());
  std::error_code ignored;
  fs::path resolved = target;
  if (fs::is_symlink(target, ignored)) resolved = fs::weakly_canonical(target, ignored);
  const auto status = fs::status(resolved, ignored);
  require(!fs::exists(status) || fs::is_regular_file(status),
          "{}: exists and is not a regular file; name another output file", target.string());
  return resolved;
}

}  // namespace

AtomicFile::AtomicFile(const fs::path& target) : target_(resolve_target(target)) {
  constexpr int kAttempts = 100;  // leftovers of a killed process with the same id
  for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
    temporary_ = fmt::format("{}.tmp{}.{}", target_.string(), ::getpid(), attempt);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) {
    const int error = errno;
    temporary_.clear();
    const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
    const char* remedy = error == ENOENT ? "create the folder first" : "choose a folder that can be written";
    fail(ErrorCode::io, "{}: cannot create a file in folder {}: {}; {}", target_.string(), folder.string(),
         reason(error), remedy);
  }
  struct stat existing {};
  if (::stat(target_.c_str(), &existing) == 0) {
    (void)::fchmod(descriptor_, existing.st_mode & 07777);  // keep the mode; failing to is harmless
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail_write(const char* step, int error) {
  const char* remedy = error == ENOSPC || error == EDQUOT || error == EFBIG
                           ? "free space or choose another disk"
                           : "try again";
  fail(ErrorCode::io, "{}: {} failed after {} bytes: {}; {} (what was there before is unchanged)",
       target_.string(), step, written_, reason(error), remedy);
}

void AtomicFile::write(std::string_view bytes) {
  if (descriptor_ < 0) fail(ErrorCode::internal, "{}: write after commit", target_.string());
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write("write", errno);
    written_ += static_cast<uint64_t>(count);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::write_at(uint64_t offset, std::string_view bytes) {
  if (descriptor_ < 0) fail(ErrorCode::internal, "{}: write after commit", target_.string());
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write("write", errno);
    written_ += static_cast<uint64_t>(count);
    offset += static_cast<uint64_t>(count);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::commit() {
  if (descriptor_ < 0) fail(ErrorCode::internal, "{}: commit called twice", target_.string());
  if (::fsync(descriptor_) != 0) fail_write("fsync", errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_write("close", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_write("rename", errno);
  temporary_.clear();
  // The rename itself becomes durable with the folder; some file systems refuse this, and that is no loss.
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  const int folder_descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor >= 0) {
    (void)::fsync(folder_descriptor);
    ::close(folder_descriptor);
  }
}

void write_file_atomically(const fs::path& target, std::string_view bytes) {
  AtomicFile file(target);
  file.write(bytes);
  file.commit();
}

}  // namespace minite
