#include <string_view>

#include "golden/golden.h"

namespace minite::golden {
Files files;
}

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--te=")) minite::golden::files.te = std::string(arg.substr(5));
    if (arg.starts_with("--peers=")) minite::golden::files.peers = std::string(arg.substr(8));
    if (arg.starts_with("--ggml=")) minite::golden::files.ggml = std::string(arg.substr(7));
  }
  return RUN_ALL_TESTS();
}
