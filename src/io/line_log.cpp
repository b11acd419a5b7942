#include "io/line_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <utility>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "io/files.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
}  // namespace

LineLog::LineLog(const fs::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_errno(errno, "open", path);
  struct stat info {};
  char last = '\n';
  const bool regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
  if (!regular || (::pread(fd_, &last, 1, info.st_size - 1) == 1 && last == '\n')) return;
  ::close(std::exchange(fd_, -1));
  fail(ErrorCode::corrupt_data, "{}: the last line is unfinished; resume the run, which drops that line",
       path.string());
}

LineLog::~LineLog() {
  if (fd_ >= 0) ::close(fd_);
}

LineLog::LineLog(LineLog&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

void LineLog::write_line(std::string_view line) {
  require(line.find('\n') == std::string_view::npos, "{}: a log line must not hold a newline",
          path_.string());
  std::string text(line);
  text += '\n';
  const off_t before = ::lseek(fd_, 0, SEEK_END);
  ssize_t n = -1;
  do {
    n = ::write(fd_, text.data(), text.size());
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(text.size())) return;
  const int saved = n < 0 ? errno : ENOSPC;  // write(2) stops short when the disk is full
  if (n > 0 && before >= 0) (void)!::ftruncate(fd_, before);
  fail_errno(saved, "append to", path_);
}

void LineLog::sync() {
  // EINVAL: a pipe or device has nothing to make durable.
  if (::fdatasync(fd_) != 0 && errno != EINVAL) fail_errno(errno, "fsync", path_);
}

int64_t keep_lines(const fs::path& path, const LinePredicate& keep) {
  std::error_code error;
  if (!fs::exists(path, error)) return 0;
  const std::string text = read_text_file(path.string(), kNoLimit);
  std::string kept;
  int64_t dropped = 0;
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    const bool whole = end != std::string::npos;
    const std::string_view line(text.data() + begin, (whole ? end : text.size()) - begin);
    if (whole && keep(line, number)) {
      kept.append(line).push_back('\n');
    } else {
      ++dropped;
    }
    begin = whole ? end + 1 : text.size();
  }
  if (dropped > 0) write_file_atomically(path, kept);
  return dropped;
}

}  // namespace minite::io
