// minite tasks, run as a user runs it.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "support.h"
#include "tasks/generators.h"
#include "tasks/jsonl.h"

namespace minite::tasks {
namespace {

struct Result {
  int code = -1;
  std::string out;
};

Result run(const std::string& arguments, const char* stderr_to = "/dev/null") {
  Result result;
  const std::string command = std::string(MINITE_BINARY) + " " + arguments + " 2>" + stderr_to;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    result.out.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

TEST(TasksCommand, list_knows_every_generator) {
  const auto text = run("tasks list");
  EXPECT_EQ(text.code, 0);
  const auto json = run("tasks list --json");
  ASSERT_EQ(json.code, 0);
  const auto document = nlohmann::json::parse(json.out);
  ASSERT_EQ(document["generators"].size(), generators().size());
  for (const auto& row : generators()) EXPECT_NE(text.out.find(row.example), std::string::npos) << row.name;
  EXPECT_EQ(document["checkers"].size(), 3u);
}

TEST(TasksCommand, make_writes_what_the_library_generates) {
  const TempFolder folder;
  const std::string file = (folder / "a.jsonl").string();
  const auto made =
      run("tasks make addition -n 25 --seed 9 --offset 5 --set digits=2 steps=2 --json -o " + file);
  ASSERT_EQ(made.code, 0);
  const auto summary = nlohmann::json::parse(made.out);
  EXPECT_EQ(summary["problems"], 25);
  EXPECT_EQ(summary["space"], 8100);
  EXPECT_EQ(summary["options"]["digits"], 2);
  EXPECT_EQ(read_problems(file), ProblemSource("addition", "digits=2,steps=2", 9).take(25, 5));
  const std::string first = folder.read("a.jsonl");
  EXPECT_EQ(run("tasks make addition -n 25 --seed 9 --offset 5 --set digits=2 --set steps=2 -o " + file).code,
            0);
  EXPECT_EQ(folder.read("a.jsonl"), first);
}

TEST(TasksCommand, bad_usage_exits_with_2_and_says_why) {
  const TempFolder folder;
  const std::string file = (folder / "a.jsonl").string();
  const std::string bad[] = {
      "tasks",
      "tasks make",
      "tasks make adition -n 5 -o " + file,
      "tasks make addition -n 0 -o " + file,
      "tasks make addition -n -5 -o " + file,
      "tasks make addition -n 5 --offset -1 -o " + file,
      "tasks make addition -n 5 --seed -1 -o " + file,
      "tasks make addition -n many -o " + file,
      "tasks make addition -n 5 --seed x -o " + file,
      "tasks make addition -n 5",
      "tasks make addition -n 5 --set digits=9 -o " + file,
      "tasks make addition -n 5 --set digit=2 -o " + file,
      "tasks make addition -n 101 --set digits=1 -o " + file,
      "tasks make addition -n 18446744073709551615 -o " + file,
      "tasks make addition -n 5 -o /dev/null",
      "tasks list extra",
  };
  for (const auto& arguments : bad) {
    const auto result = run(arguments, "/dev/stdout");
    EXPECT_EQ(result.code, 2) << arguments;
    EXPECT_GT(result.out.size(), 20u) << arguments;
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(run("tasks make addition -n 5 -o " + (folder / "no/a.jsonl").string()).code, 3);
}

}  // namespace
}  // namespace minite::tasks
