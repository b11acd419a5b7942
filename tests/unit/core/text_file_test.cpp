#include "core/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace minite {
namespace {

using test_support::expect_error;
using test_support::TempFolder;

TEST(TextFile, BytesComeBack) {
  const TempFolder folder;
  const std::string path = (folder.path() / "a.txt").string();
  const std::string content("line\r\n\0end", 10);
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(read_text_file(path), content);
  expect_error(ErrorCode::invalid_argument, {path, "10 bytes"}, [&] { (void)read_text_file(path, 9); });
}

TEST(TextFile, MissingFilesAndFoldersAreRefused) {
  const TempFolder folder;
  const std::string missing = (folder.path() / "none").string();
  expect_error(ErrorCode::not_found, {missing}, [&] { (void)read_text_file(missing); });
  expect_error(ErrorCode::invalid_argument, {"not a regular file"},
               [&] { (void)read_text_file(folder.path().string()); });
  expect_error(ErrorCode::not_found, {}, [] { (void)read_text_file(""); });
}

}  // namespace
}  // namespace minite
