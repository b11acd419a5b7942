#pragma once
// Programs that a test uses when the machine has them.
#include <cstdlib>
#include <string>
#include <vector>

#include "support/run_command.h"

namespace minite::test_support {

/// What the shell command `line` writes to its standard output.
inline std::string output_of(const std::string& line) {
  const TempFolder folder;
  const std::string file = (folder / "out").string();
  if (std::system(("(" + line + ") >" + quoted(file) + " 2>/dev/null </dev/null").c_str()) != 0) return {};
  return slurp(file);
}

/// The first of `names` that the machine has; "" when it has none.
inline std::string find_program(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!output_of("command -v " + quoted(name)).empty()) return name;
  }
  return {};
}

inline std::string find_browser() { return find_program({"chromium", "chromium-browser", "google-chrome"}); }

/// The page `html` as it stands after its scripts have run in a headless browser; "" when that fails.
inline std::string browsed(const std::string& browser, const std::string& html) {
  const TempFolder folder;
  const std::string file = (folder / "page.html").string();
  spill(file, html);
  return output_of(
      "timeout 90 " + quoted(browser) +
      " --headless --no-sandbox --disable-gpu --user-data-dir=" + quoted((folder / "profile").string()) +
      " --virtual-time-budget=5000 --dump-dom " + quoted("file://" + file));
}

}  // namespace minite::test_support
