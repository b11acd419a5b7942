#include "tasks/jsonl.h"

#include <sys/resource.h>

#include <csignal>

#include "support.h"
#include "tasks/generators.h"

namespace minite::tasks {
namespace {

TEST(Jsonl, reads_what_the_format_allows) {
  const TempFolder folder;
  const auto path = folder.write("a.jsonl",
                                 "\xEF\xBB\xBF{\"prompt\": \"1+1=\", \"answer\": \"2\"}\r\n"
                                 "\n"
                                 "  \t\r\n"
                                 "{\"id\": 7, \"meta\": {\"a\": [1]}, \"prompt\": \"p\", \"answer\": \"3\", "
                                 "\"response\": \"2+1=3\", \"check\": \"numeric\"}");
  const auto problems = read_problems(path);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0], (Problem{"1+1=", "2", std::nullopt, "exact"}));
  EXPECT_EQ(problems[1], (Problem{"p", "3", "2+1=3", "numeric"}));
  EXPECT_EQ(sft_target(problems[0]), "2");
  EXPECT_EQ(sft_target(problems[1]), "2+1=3");
}

TEST(Jsonl, errors_name_file_and_line) {
  const TempFolder folder;
  const std::string good = "{\"prompt\": \"p\", \"answer\": \"a\"}\n";
  struct Case {
    std::string line;
    std::vector<std::string> parts;
  };
  const Case cases[] = {
      {"{\"prompt\": \"p\", \"answer\": ", {"malformed JSON at byte"}},
      {"{\"prompt\": \"p\" \"answer\": \"a\"}", {"malformed JSON at byte 23"}},
      {"{\"prompt\": \"p\", \"answer\": \"a\"} x", {"malformed JSON"}},
      {"[1, 2]", {"array", "object"}},
      {"3", {"number", "object"}},
      {"{}", {"missing key \"prompt\"", "no keys"}},
      {"{\"promt\": \"p\", \"answer\": \"a\"}", {"missing key \"prompt\"", "promt"}},
      {"{\"prompt\": \"p\"}", {"missing key \"answer\""}},
      {"{\"prompt\": 3, \"answer\": \"a\"}", {"\"prompt\" is number", "string"}},
      {"{\"prompt\": \"p\", \"answer\": 4}", {"\"answer\" is number"}},
      {"{\"prompt\": \"p\", \"answer\": null}", {"\"answer\" is null"}},
      {"{\"prompt\": \"\", \"answer\": \"a\"}", {"\"prompt\" is an empty string"}},
      {"{\"prompt\": \"p\", \"answer\": \"\"}", {"\"answer\" is an empty string"}},
      {"{\"prompt\": \"p\", \"answer\": \"a\", \"response\": \"\"}", {"\"response\" is an empty string"}},
      {"{\"prompt\": \"p\", \"answer\": \"a\", \"response\": []}", {"\"response\" is array"}},
      {"{\"prompt\": \"p\", \"answer\": \"a\", \"check\": \"exakt\"}", {"'exakt'", "did you mean 'exact'"}},
      {"{\"prompt\": \"p\", \"answer\": \"a\", \"chek\": \"numeric\"}", {"\"chek\"", "\"check\""}},
      {"{\"prompt\": \"p\", \"answer\": \"a\", \"check\": \"numeric\"}", {"numeric", "'a'", "42"}},
      {"{\"prompt\": \"p\", \"answer\": \"9-2=7\", \"check\": \"expression\"}", {"expression"}},
      {"{\"prompt\": \"\xFF\", \"answer\": \"a\"}", {"byte 13", "UTF-8"}},
      {"{\"prompt\": \"\xED\xA0\x80\", \"answer\": \"a\"}", {"UTF-8"}},
      {std::string("{\"prompt\": \"a\0b\", \"answer\": \"a\"}", 33), {"malformed JSON"}},
      {"{\"prompt\": 1e999, \"answer\": \"a\"}", {"malformed JSON"}},
      {"{\"prompt\": \"\\ud800\", \"answer\": \"a\"}", {"malformed JSON"}},
  };
  for (const auto& c : cases) {
    const auto path = folder.write("bad.jsonl", good + "\n" + c.line + "\n");
    auto parts = c.parts;
    parts.push_back("bad.jsonl:3: ");
    expect_error(ErrorCode::corrupt_data, parts, [&] { (void)read_problems(path); });
  }
}

TEST(Jsonl, files_that_are_no_files) {
  const TempFolder folder;
  expect_error(ErrorCode::not_found, {"none.jsonl", "no such file"},
               [&] { (void)read_problems(folder / "none.jsonl"); });
  expect_error(ErrorCode::invalid_argument, {"folder"}, [&] { (void)read_problems(folder / ""); });
  expect_error(ErrorCode::corrupt_data, {"empty.jsonl", "no problem"},
               [&] { (void)read_problems(folder.write("empty.jsonl", "")); });
  expect_error(ErrorCode::corrupt_data, {"blank.jsonl", "2 lines"},
               [&] { (void)read_problems(folder.write("blank.jsonl", "\n  \n")); });
}

TEST(Jsonl, deep_nesting_and_huge_lines_are_survived) {
  const TempFolder folder;
  const std::string deep(200000, '[');
  expect_error(ErrorCode::corrupt_data, {"malformed"},
               [&] { (void)parse_problem("{\"x\": " + deep, "deep:1"); });
  const std::string closed = deep + std::string(200000, ']');
  EXPECT_EQ(parse_problem("{\"x\": " + closed + ", \"prompt\": \"p\", \"answer\": \"a\"}", "deep:1").prompt,
            "p");
  const std::string large(2 << 20, 'x');
  EXPECT_EQ(parse_problem("{\"prompt\": \"" + large + "\", \"answer\": \"a\"}", "large:1").prompt, large);
}

// Every truncation and thousands of byte changes of a good line either parse or throw Error.
TEST(Jsonl, damaged_lines_never_crash) {
  const std::string good = format_problem({"47+85=", "132", "7+5+0=12,4+8+1=13#132", "numeric"});
  size_t accepted = 0;
  const auto attempt = [&](const std::string& line) {
    try {
      const Problem problem = parse_problem(line, "fuzz:1");
      EXPECT_FALSE(problem.prompt.empty());
      ++accepted;
    } catch (const Error&) {
    }
  };
  for (size_t length = 0; length < good.size(); ++length) attempt(good.substr(0, length));
  EXPECT_EQ(accepted, 0u);
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    std::string line = good;
    for (uint64_t change = 0; change <= seed % 4; ++change) {
      const uint32_t word = random_word(seed, change);
      line[word % line.size()] = static_cast<char>(word >> 24);
    }
    attempt(line);
  }
  for (uint64_t seed = 0; seed < 2000; ++seed) attempt(random_bytes(seed, seed % 50));
  EXPECT_GT(accepted, 100u);
}

TEST(Jsonl, writing_and_reading_are_inverse) {
  const TempFolder folder;
  std::vector<Problem> problems;
  for (const auto& row : generators()) {
    for (auto& problem : ProblemSource(row.name, "", 3).take(50)) problems.push_back(problem);
  }
  problems.push_back(
      {"quote \" slash \\ tab \t nul " + std::string(1, '\0'), "\xC3\xA9\xE2\x82\xAC", {}, "exact"});
  write_problems(folder / "a.jsonl", problems);
  EXPECT_EQ(read_problems(folder / "a.jsonl"), problems);
}

TEST(Jsonl, what_cannot_be_read_back_is_not_written) {
  const TempFolder folder;
  const auto path = folder.write("a.jsonl", "before");
  const auto refuse = [&](const Problem& problem, const std::vector<std::string>& parts, ErrorCode code) {
    const std::vector<Problem> problems = {{"p", "a", {}, "exact"}, problem};
    expect_error(code, parts, [&] { write_problems(path, problems); });
    EXPECT_EQ(folder.read("a.jsonl"), "before");
  };
  refuse({"", "a", {}, "exact"}, {"problem 1", "prompt is empty"}, ErrorCode::invalid_argument);
  refuse({"p", "", {}, "exact"}, {"answer is empty"}, ErrorCode::invalid_argument);
  refuse({"p", "a", "", "exact"}, {"response is empty"}, ErrorCode::invalid_argument);
  refuse({"p", "a", {}, "numeric"}, {"numeric"}, ErrorCode::invalid_argument);
  refuse({"p\xFF", "a", {}, "exact"}, {"p\\xff", "UTF-8"}, ErrorCode::invalid_argument);
  refuse({"p", "a", {}, "other"}, {"'other'"}, ErrorCode::not_found);
  expect_error(ErrorCode::invalid_argument, {"no problem"}, [&] { write_problems(path, {}); });
  expect_error(ErrorCode::io, {"create the folder"}, [&] {
    write_problems(folder / "no/a.jsonl", std::vector<Problem>{{"p", "a", {}, "exact"}});
  });
}

// A file size limit stands in for a full disk.
TEST(Jsonl, a_full_disk_keeps_what_was_there) {
  const TempFolder folder;
  const auto path = folder.write("a.jsonl", "before");
  const auto problems = ProblemSource("addition", "", 0).take(200);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = limit;
  small.rlim_cur = 1000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write_problems(path, problems);
  } catch (const Error& error) {
    message = error.what();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("free space"), std::string::npos) << message;
  EXPECT_EQ(folder.read("a.jsonl"), "before");
}

}  // namespace
}  // namespace minite::tasks
