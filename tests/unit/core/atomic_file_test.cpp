#include "core/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <sstream>

#include "minite/error.h"

namespace minite {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "minite_atomic_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string read(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

std::string message_of(const std::function<void()>& action, ErrorCode expected) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

TEST_F(AtomicFileTest, writes_and_replaces) {
  write_file_atomically(folder_ / "a", "first");
  write_file_atomically(folder_ / "a", std::string("se\0cond", 7));
  EXPECT_EQ(read(folder_ / "a"), std::string("se\0cond", 7));
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, without_commit_nothing_changes) {
  write_file_atomically(folder_ / "a", "first");
  {
    AtomicFile file(folder_ / "a");
    file.write("half");
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(read(folder_ / "a"), "first");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFileTest, follows_links_and_keeps_the_mode) {
  write_file_atomically(folder_ / "real", "first");
  ASSERT_EQ(::chmod((folder_ / "real").c_str(), 0600), 0);
  fs::create_symlink("real", folder_ / "link");
  write_file_atomically(folder_ / "link", "second");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(folder_ / "real"), "second");
  EXPECT_EQ(fs::status(folder_ / "real").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFileTest, names_what_is_wrong_with_the_target) {
  const auto missing = message_of([&] { AtomicFile(folder_ / "no" / "a"); }, ErrorCode::io);
  EXPECT_NE(missing.find("create the folder"), std::string::npos) << missing;
  const auto device = message_of([] { AtomicFile("/dev/null"); }, ErrorCode::invalid_argument);
  EXPECT_NE(device.find("not a regular file"), std::string::npos) << device;
  message_of([&] { AtomicFile file{folder_}; }, ErrorCode::invalid_argument);
  message_of([] { AtomicFile(""); }, ErrorCode::invalid_argument);
}

// A file size limit stands in for a full disk: write(2) fails the same way, after a partial write.
TEST_F(AtomicFileTest, a_full_disk_keeps_the_old_file) {
  write_file_atomically(folder_ / "a", "first");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message =
      message_of([&] { write_file_atomically(folder_ / "a", std::string(5000, 'x')); }, ErrorCode::io);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("after 1000 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("unchanged"), std::string::npos) << message;
  EXPECT_EQ(read(folder_ / "a"), "first");
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace minite
