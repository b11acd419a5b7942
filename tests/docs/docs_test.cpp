// The documentation is true: generated tables equal what the command prints today, commands run, listings
// equal their files, links lead somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <sstream>

#include "docs/markdown.h"
#include "minite/model.h"
#include "support/run_command.h"

namespace minite::docs {
namespace {

namespace fs = std::filesystem;
using test_support::slurp;
using test_support::spill;
using test_support::TempFolder;

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

TEST(Docs, GeneratedBlocksEqualTheCommandsOutput) {
  int count = 0;
  for (const fs::path& file : documents()) {
    for (const Block& block : marked_blocks(file, "generated")) {
      ASSERT_TRUE(block.label.starts_with("minite ")) << file << ": " << block.label;
      const auto result = test_support::run_minite(words(block.label.substr(7)));
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(block.text, result.out) << file << ": run the command in the marker and paste its output";
      ++count;
    }
  }
  EXPECT_GE(count, 5) << "docs/recipes.md and docs/rl.md hold two each, README.md one";
}

TEST(Docs, ListingsEqualTheirFiles) {
  int count = 0;
  for (const fs::path& file : documents()) {
    for (const Block& block : marked_blocks(file, "file")) {
      const std::vector<std::string> fences = fenced_blocks(block.text, "cpp");
      ASSERT_EQ(fences.size(), 1u) << file << ": " << block.label;
      EXPECT_EQ(fences[0], slurp(fs::path(MINITE_SOURCE_DIR) / block.label)) << file << ": paste the file";
      ++count;
    }
  }
  EXPECT_GE(count, 1) << "README.md shows examples/quickstart.cpp";
}

TEST(Docs, CommandsRun) {
  int count = 0;
  for (const fs::path& file : documents()) {
    for (const std::string& script : fenced_blocks(slurp(file), "sh tested")) {
      const TempFolder folder;
      spill(folder / "script.sh", script);
      const std::string line = "cd " + test_support::quoted(folder.path().string()) + " && PATH=" +
                               test_support::quoted(fs::path(MINITE_BINARY).parent_path().string()) +
                               ":$PATH sh -eu script.sh >log 2>&1 </dev/null";
      EXPECT_EQ(std::system(line.c_str()), 0) << file << '\n' << slurp(folder / "log");
      ++count;
    }
  }
  EXPECT_GE(count, 2) << "README.md and docs/tasks.md";
}

TEST(Docs, LinksLeadSomewhere) {
  for (const fs::path& file : documents()) {
    for (const std::string& link : file_links(slurp(file)))
      EXPECT_TRUE(fs::exists(file.parent_path() / link)) << file << ": " << link;
  }
}

/// The sources of all tests, one after the other.
std::string test_sources() {
  std::string all;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(MINITE_SOURCE_DIR) / "tests")) {
    if (entry.path().extension() == ".cpp") all += slurp(entry.path());
  }
  return all;
}

/// Expects every `Suite.Test` of a page to be a test; returns their number.
int64_t expect_tests_of(const char* path) {
  const std::string page = slurp(fs::path(MINITE_SOURCE_DIR) / path), sources = test_sources();
  const std::regex name("`([A-Z][A-Za-z0-9]*)\\.([A-Z][A-Za-z0-9]*)`");
  int64_t count = 0;
  for (auto it = std::sregex_iterator(page.begin(), page.end(), name); it != std::sregex_iterator(); ++it) {
    const std::string suite = (*it)[1], test = (*it)[2];
    EXPECT_NE(sources.find("(" + suite + ", " + test + ")"), std::string::npos) << suite << "." << test;
    ++count;
  }
  return count;
}

TEST(Docs, SlipsNameTestsThatExist) { EXPECT_GT(expect_tests_of("docs/slips.md"), 40); }

TEST(Docs, ReportsOnCheckpointsNameTestsThatExist) { EXPECT_GT(expect_tests_of("docs/checkpoints.md"), 25); }

TEST(Docs, ExampleRuleFilesFitAModel) {
  ModelConfig config;
  config.vocab_size = 512;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 6;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 16;
  config.max_position_embeddings = 256;
  const TempFolder dense, experts;
  spill(dense / "config.json", to_json(config));
  config.family = "qwen3_moe";
  config.num_experts = 4;
  config.num_experts_per_tok = 2;
  config.moe_intermediate_size = 32;
  spill(experts / "config.json", to_json(config));
  const auto describe = [](const fs::path& rules, const TempFolder& model) {
    return test_support::run_minite(
        {"describe", "nvfp4_per_token", "--model", model.path().string(), "--rules", rules.string()});
  };
  for (const auto& entry : fs::directory_iterator(fs::path(MINITE_SOURCE_DIR) / "examples/rules")) {
    const bool for_experts = entry.path().filename().string().starts_with("experts");
    const auto result = describe(entry.path(), for_experts ? experts : dense);
    EXPECT_EQ(result.exit_code, 0) << entry.path() << ": " << result.err;
    if (!for_experts) continue;
    EXPECT_NE(result.out.find("experts.down"), std::string::npos);
    EXPECT_NE(describe(entry.path(), dense).exit_code, 0) << "a dense model has no experts to name";
  }
}

TEST(Markdown, FaultsAreFound) {
  EXPECT_EQ(fenced_blocks("a\n```sh tested\nx\ny\n```\n```sh\nz\n```\n", "sh tested"),
            std::vector<std::string>{"x\ny\n"});
  EXPECT_EQ(file_links("[a](b.md#c) [d](https://e.f) ![g](h.svg) [i](#j)"),
            (std::vector<std::string>{"b.md", "h.svg"}));
  const TempFolder folder;
  spill(folder / "a.md",
        "<!-- file: x.cpp -->\ntext\n<!-- end -->\nmore\n<!-- generated: minite y -->\n<!-- end -->\n");
  const std::vector<Block> blocks = marked_blocks(folder / "a.md", "file");
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].label, "x.cpp");
  EXPECT_EQ(blocks[0].text, "text\n");
}

}  // namespace
}  // namespace minite::docs
