// The corpora of the fuzzer: every input is read or refused, within a heap of a factor of its size.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fuzz/targets.h"
#include "support/temp_folder.h"

namespace minite::fuzz {
namespace {

namespace fs = std::filesystem;

class Corpus : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Readers, Corpus, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& each) { return std::string(each.param.name); });

void expect_survives(const Target& target, const std::string& bytes, const fs::path& folder) {
  const Result result = run(target, bytes, folder);
  EXPECT_LE(result.peak, most_heap(std::ssize(bytes))) << bytes.size() << " bytes";
  EXPECT_EQ(result.outcome == Outcome::refused, !result.error.empty());
}

TEST_P(Corpus, EveryInputIsReadOrRefused) {
  const test_support::TempFolder folder;
  const fs::path corpus = fs::path(MINITE_SOURCE_DIR "/tests/fuzz/corpus") / GetParam().name;
  int64_t taken = 0, inputs = 0;
  for (const auto& entry : fs::directory_iterator(corpus)) {
    SCOPED_TRACE(entry.path().filename().string());
    const std::string bytes = test_support::slurp(entry.path());
    expect_survives(GetParam(), bytes, folder.path());
    taken += run(GetParam(), bytes, folder.path()).outcome == Outcome::taken ? 1 : 0;
    ++inputs;
    // Cut anywhere, and with any one byte turned over.
    const size_t step = 1 + bytes.size() / 64;
    for (size_t i = 0; i < bytes.size(); i += step) {
      expect_survives(GetParam(), bytes.substr(0, i), folder.path());
      std::string turned = bytes;
      turned[i] = static_cast<char>(~turned[i]);
      expect_survives(GetParam(), turned, folder.path());
    }
  }
  EXPECT_GT(inputs, 0);
  EXPECT_GT(taken, 0) << "no input is a good one, so most of the reader is never reached";
}

}  // namespace
}  // namespace minite::fuzz
