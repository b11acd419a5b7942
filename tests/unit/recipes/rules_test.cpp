// Rule files: what is read, and how mistakes are reported.
#include <gtest/gtest.h>

#include "minite/recipe.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace minite {
namespace {

using test_support::expect_error;

TEST(Rules, KeysAndRangesAreRead) {
  const std::vector<Rule> rules = parse_rules(
      "# comment\n"
      "rules:\n"
      "  - match: layers.*.o\n"
      "    recipe: bf16\n"
      "  - {layers: [0, 3, \"-2..-1\"], recipe: nvfp4_per_token_bf16_bwd}\n"
      "  - match: \"*\"\n"
      "    layers: 2..5\n"
      "    recipe: bf16\n"
      "  - layers: -1\n"
      "    recipe: fp32\n",
      "r.yaml");
  ASSERT_EQ(rules.size(), 4u);
  EXPECT_EQ(rules[0].match, "layers.*.o");
  EXPECT_EQ(rules[0].recipe, "bf16");
  EXPECT_TRUE(rules[0].layers.empty());
  EXPECT_EQ(rules[0].line, 3);
  EXPECT_EQ(rules[1].match, "*");
  EXPECT_EQ(rules[1].layers, (std::vector<int>{0, 0, 3, 3, -2, -1}));
  EXPECT_EQ(rules[1].line, 5);
  EXPECT_EQ(rules[2].layers, (std::vector<int>{2, 5}));
  EXPECT_EQ(rules[3].layers, (std::vector<int>{-1, -1}));
}

TEST(Rules, AnEmptyListIsNoRule) { EXPECT_TRUE(parse_rules("rules: []\n", "r.yaml").empty()); }

struct Mistake {
  const char* yaml;
  ErrorCode code;
  std::vector<std::string> parts;
};

TEST(Rules, MistakesNameFileAndLine) {
  const ErrorCode wrong = ErrorCode::invalid_argument;
  const std::vector<Mistake> mistakes = {
      {"", wrong, {"r.yaml", "key rules"}},
      {"- a\n", wrong, {"r.yaml", "key rules"}},
      {"rule: []\n", wrong, {"r.yaml", "key rules"}},
      {"rules: []\nbase: bf16\n", wrong, {"r.yaml:2", "'base'"}},
      {"rules:\n", wrong, {"r.yaml", "must be a list"}},
      {"rules: bf16\n", wrong, {"r.yaml:1", "must be a list"}},
      {"rules:\n  - bf16\n", wrong, {"r.yaml:2", "a rule is a map"}},
      {"rules:\n  - match: a\n", wrong, {"r.yaml:2", "no recipe"}},
      {"rules:\n  - recipe: bf16\n    layer: 3\n", wrong, {"r.yaml:3", "'layer'", "did you mean 'layers'?"}},
      {"rules:\n  - recipe: bf16\n    recipe: fp32\n", wrong, {"r.yaml:3", "written twice"}},
      {"rules:\n  - recipe: [bf16]\n", wrong, {"r.yaml:2", "plain value"}},
      {"rules:\n  - recipe: bf16\n    match: \"\"\n", wrong, {"r.yaml:3", "match is empty"}},
      {"rules:\n  - recipe: bf16\n    match: {a: b}\n", wrong, {"r.yaml:3", "plain value"}},
      {"rules:\n  - recipe: bf16\n    layers: []\n", wrong, {"r.yaml:3", "empty list"}},
      {"rules:\n  - recipe: bf16\n    layers: 1.5\n", wrong, {"r.yaml:3", "'1.5'"}},
      {"rules:\n  - recipe: bf16\n    layers: 2..\n", wrong, {"r.yaml:3", "'2..'"}},
      {"rules:\n  - recipe: bf16\n    layers: ..\n", wrong, {"r.yaml:3", "'..'"}},
      {"rules:\n  - recipe: bf16\n    layers: 5..2\n", wrong, {"r.yaml:3", "'5..2'", "smaller one first"}},
      {"rules:\n  - recipe: bf16\n    layers: [1, 99999999999]\n", wrong, {"r.yaml:3", "99999999999"}},
      {"rules:\n  - recipe: bf16\n    layers: [[1]]\n", wrong, {"r.yaml:3", "plain value"}},
      {"rules:\n  - match: a\n    recipe: bf61\n",
       ErrorCode::not_found,
       {"r.yaml:3", "did you mean 'bf16'?"}},
      {"rules:\n  - {match: a\n", ErrorCode::corrupt_data, {"r.yaml:"}},
      {"rules: [\n", ErrorCode::corrupt_data, {"r.yaml:"}},
      {"rules: *nothing\n", ErrorCode::corrupt_data, {"r.yaml:1"}},
      {"\t: x", ErrorCode::corrupt_data, {"r.yaml:"}},
  };
  for (const Mistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.yaml);
    expect_error(mistake.code, mistake.parts, [&] { (void)parse_rules(mistake.yaml, "r.yaml"); });
  }
}

TEST(Rules, HostileTextIsAnError) {
  const std::vector<std::string> texts = {std::string(100000, '['), std::string(100000, '{'),
                                          std::string("\0\0", 2),   std::string("\xff\xfe\xfd"),
                                          "rules: &a [*a]\n",       "? ? ? ?\n",
                                          "--- --- ---\n",          std::string(5000, '-') + "\n"};
  for (const std::string& text : texts) EXPECT_THROW((void)parse_rules(text, "r.yaml"), Error);
}

TEST(Rules, FilesAreLoaded) {
  const test_support::TempFolder folder;
  const std::string path = (folder / "rules.yaml").string();
  test_support::spill(path, "rules:\n  - {match: lm_head, recipe: nope}\n");
  expect_error(ErrorCode::not_found, {path + ":2"}, [&] { (void)load_rules(path); });
  expect_error(ErrorCode::not_found, {"missing.yaml"},
               [&] { (void)load_rules((folder / "missing.yaml").string()); });
}

}  // namespace
}  // namespace minite
