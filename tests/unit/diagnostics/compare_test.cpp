#include "diagnostics/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "diagnostics/compare_settings.h"
#include "diagnostics/compared.h"
#include "diagnostics/plan_groups.h"
#include "run_fixture.h"

namespace minite::diagnostics {
namespace {
namespace fs = std::filesystem;
using minite::test_support::error_of;
using minite::test_support::holds;
using minite::test_support::spill;
using minite::test_support::TempFolder;
using minite::test_support::XmlCheck;
using test::links;
using test::Shape;
using test::write_run;

/// Runs below one folder.
class Runs {
 public:
  fs::path add(const std::string& name, const Shape& shape = {}) {
    const fs::path path = folder_ / name;
    fs::create_directories(path);
    write_run(path, shape);
    paths_.push_back(path);
    return path;
  }
  [[nodiscard]] std::vector<RunData> read() const {
    std::vector<RunData> all;
    for (const auto& path : paths_) all.push_back(read_run(path));
    return all;
  }
  [[nodiscard]] std::string page() const { return render_comparison(read()); }

 private:
  TempFolder folder_;
  std::vector<fs::path> paths_;
};

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++n;
  return n;
}

void replace(const fs::path& file, const std::string& from, const std::string& to) {
  std::string text = test_support::slurp(file);
  ASSERT_NE(text.find(from), std::string::npos);
  spill(file, text.replace(text.find(from), from.size(), to));
}

TEST(Compare, DrawsEveryRunInEveryFigure) {
  Runs runs;
  (void)runs.add("matched");
  (void)runs.add("mixed", {0.01, 0, 0.97});
  const std::string page = runs.page();
  for (const char* text : {"2 runs", "id=\"all-reward-t\"", "id=\"all-gap-t\"", "id=\"all-speed-t\"",
                           "id=\"all-times-t\"", "id=\"all-sft-loss-t\"", ">A matched<", ">B mixed<"})
    EXPECT_TRUE(holds(page, text)) << text;
  const auto tables = links(page, "text/csv");
  EXPECT_TRUE(std::any_of(tables.begin(), tables.end(), [](const std::string& t) {
    return holds(t, "step,A matched,B mixed\n1,450,450\n");  // 900 tokens in 2 s
  }));
  EXPECT_TRUE(holds(tables[0], "step,A matched,B mixed\n1,0.01,0.01\n")) << tables[0].substr(0, 80);
}

TEST(Compare, TheGapOfEachSideCanBeSeen) {
  Runs runs;
  (void)runs.add("matched");
  (void)runs.add("mixed", {0.01});
  const std::string page = runs.page();
  EXPECT_TRUE(holds(page, "Exactly 0 at every step of A matched."));
  EXPECT_TRUE(holds(page, "<td class=\"zero\">exactly 0</td><td class=\"zero\">exactly 0</td>"))
      << "summary.json of the fixture says gap_max 0 for both";
  EXPECT_TRUE(holds(page, "<td class=\"zero\">exactly 0</td><td>0.01</td>")) << "the mean is from the log";
  // 0 has a row of its own, at the bottom; 0.01 lies above it.
  const auto svg = links(page, "image/svg+xml");
  EXPECT_TRUE(std::any_of(svg.begin(), svg.end(), [](const std::string& s) {
    return holds(s, "id=\"all-gap-t\"") && holds(s, "class=\"zero\"");
  }));
}

TEST(Compare, WhatRestsInEveryRunIsASentence) {
  Runs runs;
  (void)runs.add("a");
  (void)runs.add("b");
  const std::string page = runs.page();
  EXPECT_FALSE(holds(page, "id=\"all-gap-t\""));
  EXPECT_TRUE(holds(page, "Mean gap: exactly 0 at every step of every run."));
  EXPECT_TRUE(holds(page, "TRIAGE gate: exactly 1 at every step of every run."));
}

TEST(Compare, SettingsThatDiffer) {
  Runs runs;
  (void)runs.add("a");
  replace(runs.add("b") / "config.yaml", "recipe: bf16", "recipe: nvfp4_per_token");
  const std::string page = runs.page();
  EXPECT_TRUE(
      holds(page, "<th scope=\"row\">sampler.recipe</th><td>bf16</td><td>nvfp4_<wbr>per_<wbr>token</td>"));
  EXPECT_FALSE(holds(page, "<th scope=\"row\">seed</th>"));
  EXPECT_TRUE(holds(page, "3 settings that are equal"));
  EXPECT_TRUE(holds(page, "learner.recipe: nvfp4_per_token\n"));
}

TEST(Compare, SaysWhetherTheRunsCanBeCompared) {
  Runs runs;
  const auto config = [&](const char* name, const char* yaml) {
    spill(runs.add(name) / "config.yaml", yaml);
  };
  config("a", "seed: 1\nthreads: 1\nlearner_recipe: x\nrl: {temperature: 1, steps: 60}\n");
  config("b", "seed: 1\nthreads: 2\nlearner_recipe: y\nrl: {temperature: 1, steps: 60}\n");
  const auto said = [&] {
    const auto data = runs.read();
    const auto compared = side_by_side(data);
    std::string all;
    for (const auto& sentence : cautions(compared, all_settings(compared))) all += sentence + "\n";
    return all;
  };
  EXPECT_EQ(said(), "Only learner_recipe differs; every other setting that changes a number is equal.\n");
  config("c",
         "seed: 2\nthreads: 1\nlearner_recipe: x\nrl: {temperature: 0.5, steps: 60}\ndata: {digest: q}\n");
  for (const char* text : {"Seeds differ", "(seed)", "The sampled distribution differs", "(rl.temperature)",
                           "The problems differ", "(data.digest)"})
    EXPECT_TRUE(holds(said(), text)) << text << said();
  EXPECT_FALSE(holds(said(), "Only "));
  const fs::path d = runs.add("d");
  fs::remove(d / "config.yaml");
  replace(d / "summary.json", "simd", "ref");
  spill(d / "metrics.jsonl", "{\"step\":1,\"stage\":\"rl\",\"reward\":0.5}\n");
  for (const char* text :
       {"The settings of D d are not known", "The backend differs: ref in D; simd in A, B, C.",
        "different lengths (1 in D; 60 in A, B, C steps)"})
    EXPECT_TRUE(holds(said(), text)) << text << said();
  spill(d / "metrics.jsonl", "{\"step\":1,\"stage\":\"sft\",\"loss\":0.5}\n");
  EXPECT_TRUE(holds(said(), "There is no RL step in D d.")) << said();
  EXPECT_TRUE(holds(runs.page(), "id=\"all-sft-loss-t\""));
}

TEST(Compare, RepetitionsAreNamed) {
  Runs runs;
  (void)runs.add("a");
  (void)runs.add("b");
  EXPECT_TRUE(holds(runs.page(), "these are repetitions of one run"));
}

TEST(Compare, RunsOfDifferentLengthsMeetAtTheLastCommonStep) {
  Runs runs;
  (void)runs.add("long");
  const fs::path path = runs.add("short");
  spill(path / "metrics.jsonl",
        "{\"step\":1,\"stage\":\"rl\",\"reward\":0.25}\n"
        "{\"step\":2,\"stage\":\"rl\",\"reward\":0.75}\n");
  fs::remove(path / "summary.json");
  const std::string page = runs.page();
  EXPECT_TRUE(holds(page, "Reward up to RL step 2</th><td>0.015</td><td>0.5</td>"));
  EXPECT_TRUE(holds(page, "<td>60 (finished)</td><td>2 (not finished)</td>"));
  EXPECT_TRUE(holds(page, "Not recorded by B short."));
}

TEST(Compare, UnreadableRunsAreNamed) {
  Runs runs;
  (void)runs.add("a");
  const std::string page = render_comparison(runs.read(), {{"runs/<b>", "metrics.jsonl:7: damaged & gone"}});
  EXPECT_TRUE(holds(
      page, "runs/&lt;b&gt; could not be read and is left out.</b> metrics.jsonl:7: damaged &amp; gone"));
  EXPECT_TRUE(holds(page, "1 run<"));
}

TEST(Compare, NamesTellRunsApart) {
  EXPECT_EQ(distinct_names({"/x/one", "/x/two/"}), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(distinct_names({"/x/a/run", "/x/b/run", "/x/other"}),
            (std::vector<std::string>{"a/run", "b/run", "other"}));
  EXPECT_EQ(distinct_names({"/a/c/run", "/b/c/run", "/run"}),
            (std::vector<std::string>{"a/c/run", "b/c/run", "run"}));
  EXPECT_EQ(distinct_names({"/a/run", "/a/run"}), (std::vector<std::string>{"a/run", "a/run"}));
  Runs runs;
  (void)runs.add("p/run");
  (void)runs.add("q/run", {0.01});
  EXPECT_TRUE(holds(runs.page(), ">A p/run<"));
  EXPECT_TRUE(holds(runs.page(), ">B q/run<"));
}

TEST(Compare, LongAndHostileNames) {
  Runs runs;
  (void)runs.add("a<script>&\"'" + std::string(60, 'x'));
  (void)runs.add("\xC3\xA4\xC3\xB6" + std::string(11, 'y') + "\xC3\xBC\xC3\xBC" + std::string(30, 'z'),
                 {0.01});
  const std::string page = runs.page();
  EXPECT_FALSE(holds(page, "<script"));
  for (const auto& svg : links(page, "image/svg+xml")) {
    EXPECT_EQ(XmlCheck::fault(svg), "");
    EXPECT_FALSE(holds(svg, "?")) << "a character was cut in two";
  }
}

TEST(Compare, TwelveRunsLookDifferent) {
  Runs runs;
  for (int i = 0; i < 12; ++i) (void)runs.add(fmt::format("run{}", i), {0.001 * (i + 1)});
  const auto data = runs.read();
  const auto all = side_by_side(data);
  std::set<std::pair<int, Dash>> looks;
  for (const Compared& c : all) looks.emplace(c.color, c.dash);
  EXPECT_EQ(looks.size(), 12u);
  const std::string page = runs.page();
  EXPECT_TRUE(holds(page, ">L run11<"));
  const auto svgs = links(page, "image/svg+xml"), tables = links(page, "text/csv");
  EXPECT_EQ(svgs.size(), tables.size());
  for (const auto& svg : svgs) EXPECT_EQ(XmlCheck::fault(svg), "");
  (void)runs.add("one_more");
  const Error error = error_of([&] { (void)runs.page(); });
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(holds(error.what(), "at most 12 runs, got 13"));
  EXPECT_EQ(error_of([] { (void)render_comparison({}); }).code(), ErrorCode::invalid_argument);
}

TEST(Compare, HoldsNoScriptAndNoAddress) {
  Runs runs;
  (void)runs.add("a", {0.01, 0.02, 0.9});
  (void)runs.add("b", {0.02, 0.01, 0.8});
  std::string page = runs.page();
  EXPECT_EQ(page, runs.page()) << "not deterministic";
  EXPECT_FALSE(holds(page, "<script"));
  EXPECT_TRUE(holds(page, "&lt;script&gt;alert(1)"));
  const std::string space = "http://www.w3.org/2000/svg";  // a name, never fetched
  for (size_t i = page.find(space); i != std::string::npos; i = page.find(space)) page.erase(i, space.size());
  for (const char* address : {"http://", "https://", "url(", "@import", "src="})
    EXPECT_FALSE(holds(page, address));
  EXPECT_TRUE(holds(page, "default-src 'none'"));
  // What scrolls can be reached with the keyboard; every id is there once.
  EXPECT_EQ(count(page, "class=\"tablewrap\""),
            count(page, "class=\"tablewrap\" tabindex=\"0\" role=\"region\""));
  for (size_t i = page.find(" id=\""); i != std::string::npos; i = page.find(" id=\"", i + 1)) {
    const std::string id = page.substr(i, page.find('"', i + 5) - i + 1);
    EXPECT_EQ(count(page, id), 1u) << id;
  }
}

TEST(Plans, AreFoldedToOneLineForEachWay) {
  RunData run;
  EXPECT_EQ(plans_text(run), "");
  run.plans =
      nlohmann::json::parse(R"({"rl":["learner layers.0.o fprop: ref chain: a x b -> c, N=1 K=2, ascending",
    "learner layers.1.o fprop: ref chain: a x b -> c, N=3 K=4, ascending",
    "sampler lm_head fprop: ref chain: a x b -> c, N=3 K=4, ascending", "a sentence", 7],"sft":{}})");
  EXPECT_EQ(plans_text(run),
            "rl\n  learner fprop x2: ref chain: a x b -> c, ascending\n"
            "  sampler fprop x1: ref chain: a x b -> c, ascending\n  a sentence\n");
}

}  // namespace
}  // namespace minite::diagnostics
