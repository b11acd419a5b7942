#include "io/line_log.h"

#include <limits>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
}  // namespace

LineLog::LineLog(const fs::path& path) : file_(path) {
  if (file_.last_byte() == '\n') return;
  fail(ErrorCode::corrupt_data, "{}: the last line is unfinished; resume the run, which drops that line",
       path.string());
}

void LineLog::write_line(std::string_view line) {
  require(line.find('\n') == std::string_view::npos, "{}: a log line must not hold a newline",
          file_.path().string());
  std::string text(line);
  text += '\n';
  file_.append(text);
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
