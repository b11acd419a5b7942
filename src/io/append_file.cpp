#include "io/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/files.h"

namespace minite::io {

AppendFile::AppendFile(const std::filesystem::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(errno, "open", path);
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void AppendFile::append(std::string_view record) {
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  ssize_t n = -1;
  do {
    n = ::write(fd_, record.data(), record.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(record.size())) return;
  const int saved = n < 0 ? errno : ENOSPC;  // write(2) stops short when the disk is full
  if (n > 0 && before >= 0) (void)!::ftruncate(fd_, before);
  fail_errno(saved, "append to", path_);
}

void AppendFile::truncate(uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail_errno(errno, "cut", path_);
}

char AppendFile::last_byte() const {
  struct stat info {};
  char last = '\n';
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return last;
  return ::pread(fd_, &last, 1, info.st_size - 1) == 1 ? last : '\0';
}

void AppendFile::sync() {
  // EINVAL: a pipe or device has nothing to make durable.
  if (::fdatasync(fd_) != 0 && errno != EINVAL) fail_errno(errno, "fsync", path_);
}

}  // namespace minite::io
