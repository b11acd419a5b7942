// AtomicFolder, LineLog, JSON files, digests and manifests.
#include "io/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "io/atomic_folder.h"
#include "io/digest.h"
#include "io/json_file.h"
#include "io/line_log.h"
#include "io/manifest.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"

namespace minite::io {
namespace {
namespace fs = std::filesystem;
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::slurp;
using minite::test_support::spill;
using minite::test_support::TempFolder;

// Runs `body` in a child whose files cannot grow past `bytes`: the same path through the code as a full disk.
// Returns 0 when body() says true.
template <class Body>
int with_file_limit(rlim_t bytes, Body&& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(AtomicFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  {
    AtomicFolder build(folder / "step_1");
    spill(build.path() / "x", "1");
    EXPECT_EQ(build.path().filename(), "step_1.tmp");
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  AtomicFolder build(folder / "step_1");
  fs::create_directory(build.path() / "sub");
  spill(build.path() / "sub" / "x", "2");
  EXPECT_FALSE(fs::exists(folder / "step_1"));
  build.commit();
  EXPECT_EQ(slurp(folder / "step_1/sub/x"), "2");
  EXPECT_EQ(list_entries(folder.path()), std::vector<std::string>{"step_1"});
}

TEST(AtomicFolder, ReplacesAnOldFolderAndAStaleOne) {
  const TempFolder folder;
  fs::create_directories(folder / "a");
  spill(folder / "a/old", "old");
  fs::create_directories(folder / "a.tmp");
  spill(folder / "a.tmp/half", "half");
  AtomicFolder build(folder / "a");
  spill(build.path() / "new", "new");
  build.commit();
  EXPECT_EQ(list_files(folder.path()), std::vector<std::string>{"a/new"});
}

TEST(AtomicFolder, PathBelowAFileIsAnErrorWithARemedy) {
  const TempFolder folder;
  spill(folder / "file", "");
  const Error error = error_of([&] { AtomicFolder build(folder / "file/a"); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_TRUE(holds(error.what(), "Not a directory; a part of the path is a file")) << error.what();
}

TEST(AtomicFolder, StaleTemporariesAreRecognised) {
  const TempFolder folder;
  for (const char* name : {"a.tmp", "b.old.tmp", "c.json.tmp12.0", "d.tmpl", "e", ".tmp"})
    spill(folder / name, "");
  EXPECT_EQ(remove_stale_temporaries(folder.path()),
            (std::vector<std::string>{"a.tmp", "b.old.tmp", "c.json.tmp12.0"}));
  EXPECT_EQ(list_entries(folder.path()), (std::vector<std::string>{".tmp", "d.tmpl", "e"}));
  EXPECT_TRUE(remove_stale_temporaries(folder / "none").empty());
}

TEST(LineLog, AppendsAndContinues) {
  const TempFolder folder;
  { LineLog(folder / "log").write_line("{\"a\":1}"); }
  LineLog log(folder / "log");
  log.write_line("{\"a\":2}");
  log.sync();
  EXPECT_EQ(slurp(folder / "log"), "{\"a\":1}\n{\"a\":2}\n");
  EXPECT_EQ(error_of([&] { log.write_line("a\nb"); }).code(), ErrorCode::invalid_argument);
}

TEST(LineLog, FullDiskTakesThePartialLineBack) {
  const TempFolder folder;
  const auto path = folder / "log";
  EXPECT_EQ(with_file_limit(30,
                            [&] {
                              LineLog log(path);
                              log.write_line("0123456789");
                              try {
                                log.write_line("01234567890123456789");  // 11 + 21 bytes > 30
                              } catch (const Error& error) {
                                return error.code() == ErrorCode::io && holds(error.what(), path.string());
                              }
                              return false;
                            }),
            0);
  EXPECT_EQ(slurp(path), "0123456789\n");
}

TEST(LineLog, DevFullNamesTheRemedy) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  LineLog log("/dev/full");
  const Error error = error_of([&] { log.write_line("x"); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_TRUE(holds(error.what(), "No space left on device; free some space")) << error.what();
}

TEST(LineLog, UnfinishedLastLineMustBeDroppedFirst) {
  const TempFolder folder;
  spill(folder / "log", "one\ntwo\nthr");
  EXPECT_EQ(error_of([&] { LineLog log(folder / "log"); }).code(), ErrorCode::corrupt_data);
  EXPECT_EQ(
      keep_lines(folder / "log", [](std::string_view line, int64_t n) { return !(n == 1 && line == "one"); }),
      2);
  EXPECT_EQ(slurp(folder / "log"), "two\n");
  EXPECT_EQ(keep_lines(folder / "none", [](auto, auto) { return true; }), 0);
}

TEST(Safetensors, FullDiskKeepsTheOldFile) {
  const TempFolder folder;
  const std::vector<std::byte> big(4096);
  const auto path = folder / "w.safetensors";
  spill(path, "old");
  EXPECT_EQ(with_file_limit(1000,
                            [&] {
                              try {
                                write_safetensors(path, {{"t", {StoredType::u8, {4096}, big}}});
                              } catch (const Error& error) {
                                return error.code() == ErrorCode::io && holds(error.what(), path.string());
                              }
                              return false;
                            }),
            0);
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(list_entries(folder.path()), std::vector<std::string>{"w.safetensors"});
}

TEST(JsonFile, ErrorsNameLineAndColumn) {
  const TempFolder folder;
  spill(folder / "a.json", "{\n  \"a\": 1,\n  \"b\" 2\n}\n");
  const Error error = error_of([&] { (void)read_json_file(folder / "a.json"); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt_data);
  EXPECT_TRUE(holds(error.what(), "a.json:3:7: not valid JSON")) << error.what();
  EXPECT_EQ(error_of([&] { (void)read_json_file(folder / "none"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(error_of([] { (void)parse_json("", "e"); }).code(), ErrorCode::corrupt_data);
  EXPECT_EQ(error_of([] { (void)parse_json("[1e999]", "e"); }).code(), ErrorCode::corrupt_data);
  EXPECT_EQ(error_of([] { (void)parse_json("{\"\xff\":1}", "e"); }).code(), ErrorCode::corrupt_data);
  EXPECT_EQ(error_of([] { (void)parse_json(std::string(1 << 20, '['), "e"); }).code(),
            ErrorCode::corrupt_data);
}

TEST(JsonFile, WritesSortedAndAtomically) {
  const TempFolder folder;
  write_json_file(folder / "a.json", {{"b", 0.1}, {"a", {1, 2}}});
  EXPECT_EQ(slurp(folder / "a.json"), "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": 0.1\n}\n");
  EXPECT_EQ(error_of([&] {
              write_json_file(folder / "b", {{"x", "\xff"}});
            }).code(),
            ErrorCode::invalid_argument);
}

TEST(JsonLines, CutLastLineIsLeftOut) {
  const TempFolder folder;
  spill(folder / "a.jsonl", "{\"a\":1}\n\n{\"a\":2}\n{\"a\":");
  const JsonLines lines = read_json_lines(folder / "a.jsonl");
  EXPECT_EQ(lines.rows.size(), 2u);
  EXPECT_EQ(lines.cut_line, 4);
  spill(folder / "b.jsonl", "{\"a\":1}\n{\"a\":2}");
  EXPECT_EQ(read_json_lines(folder / "b.jsonl").rows.size(), 2u);
}

TEST(JsonLines, DamagedLineNamesFileAndLine) {
  const TempFolder folder;
  spill(folder / "a.jsonl", "{\"a\":1}\n{\"a\":\n{\"a\":2}\n");
  EXPECT_TRUE(holds(error_of([&] { (void)read_json_lines(folder / "a.jsonl"); }).what(), "a.jsonl:2:"));
  spill(folder / "b.jsonl", "{\"a\":1}\n7\n");
  EXPECT_TRUE(
      holds(error_of([&] { (void)read_json_lines(folder / "b.jsonl"); }).what(), "b.jsonl:2: each line"));
}

// Values of the reference implementation (xxhsum -H1).
TEST(Digest, MatchesXxh64) {
  EXPECT_EQ(digest64(std::string_view("")), 0xEF46DB3751D8E999u);
  EXPECT_EQ(digest64(std::string_view("a")), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(digest64(std::string_view("abc")), 0x44BC2CF5AD770999u);
  EXPECT_EQ(digest64(std::string_view("Nobody inspects the spammish repetition")), 0xFBCEA83C8A378BF1u);
}

TEST(Manifest, FindsEveryKindOfDamage) {
  const TempFolder folder;
  fs::create_directory(folder / "sub");
  spill(folder / "a", "0123456789");
  spill(folder / "sub/b", "hello");
  write_manifest(folder.path());
  EXPECT_TRUE(verify_checkpoint(folder.path()).empty());
  const auto only_fault = [&] {
    const auto faults = verify_checkpoint(folder.path());
    EXPECT_EQ(faults.size(), 1u);
    return faults.empty() ? std::string() : faults[0];
  };
  spill(folder / "a", "0123");
  EXPECT_EQ(only_fault(), "a is cut short: 4 bytes, manifest.json promises 10");
  spill(folder / "a", "0123456789!");
  EXPECT_TRUE(holds(only_fault(), "a is too long"));
  spill(folder / "a", "0123456788");
  EXPECT_TRUE(holds(only_fault(), "a is damaged: its digest is "));
  fs::remove(folder / "a");
  EXPECT_EQ(only_fault(), "a is missing");
  spill(folder / "manifest.json", "{");
  EXPECT_TRUE(holds(only_fault(), "not valid JSON"));
  spill(folder / "manifest.json", R"({"files":{"../x":{"bytes":1,"xxh64":"0"}}})");
  EXPECT_TRUE(holds(only_fault(), "damaged row"));
  spill(folder / "manifest.json", R"({"files":3})");
  EXPECT_TRUE(holds(only_fault(), "no \"files\""));
  fs::remove(folder / "manifest.json");
  EXPECT_EQ(only_fault(), "manifest.json is missing");
}

}  // namespace
}  // namespace minite::io
