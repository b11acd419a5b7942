// minite explore: one file, its numbers are the library's, its figures answer in a browser.
#include "diagnostics/explore.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/ref/quantize.h"
#include "core/memory.h"
#include "formats/codecs.h"
#include "support/program.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::browsed;
using test_support::find_browser;
using test_support::find_program;
using test_support::output_of;
using test_support::quoted;
using test_support::run_minite;
using test_support::TempFolder;

/// What `script` prints with the page's numerics in front of it, under node or a browser; "" without either.
std::string computed(const std::string& script) {
  const std::string all = std::string(diagnostics::explore_numerics()) + script;
  if (const std::string node = find_program({"node", "nodejs"}); !node.empty()) {
    const TempFolder folder;
    test_support::spill(folder / "numbers.js", all + "\nconsole.log(result);\n");
    return output_of(node + " " + quoted((folder / "numbers.js").string()));
  }
  const std::string browser = find_browser();
  if (browser.empty()) return {};
  const std::string page =
      browsed(browser, "<body><pre id=\"out\"></pre><script>" + all +
                           "\ndocument.getElementById('out').textContent = result;</script></body>");
  const size_t begin = page.find("<pre id=\"out\">");
  return begin == std::string::npos ? "" : page.substr(begin + 14, page.find("</pre>") - begin - 14);
}
#define MINITE_COMPUTED(name, script)        \
  const std::string name = computed(script); \
  if (name.empty()) GTEST_SKIP() << "neither node nor chromium runs here"

constexpr const char* kBits = "const bitsOf = (x) => new Uint32Array(new Float32Array([x]).buffer)[0];\n";

TEST(Explore, EveryCodeAndScaleDecodesAsInTheLibrary) {
  MINITE_COMPUTED(
      text,
      std::string(kBits) +
          "const list = []; for (let s = 0; s < 256; ++s) for (let q = 0; q < 16; ++q) {\n"
          "const v = f32(decodeE2M1(q) * decodeE4M3(s)); list.push(Number.isNaN(v) ? -1 : bitsOf(v)); }\n"
          "const result = JSON.stringify(list);");
  const json list = json::parse(text);
  ASSERT_EQ(list.size(), 4096u);
  for (int s = 0; s < 256; ++s) {
    for (int q = 0; q < 16; ++q) {
      const float v = E2M1::decode(static_cast<uint8_t>(q)) * E4M3::decode(static_cast<uint8_t>(s));
      const int64_t expected = std::isnan(v) ? -1 : int64_t{std::bit_cast<uint32_t>(v)};
      ASSERT_EQ(list[static_cast<size_t>(s * 16 + q)].get<int64_t>(), expected)
          << "code " << q << ", scale " << s;
    }
  }
}

/// Rows of 48 values over many magnitudes, with zeros, ties and a zero block.
std::vector<float> hard_values(int64_t rows) {
  std::vector<float> x;
  uint32_t state = 7;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < 48; ++c) {
      state = state * 1664525u + 1013904223u;
      const auto step = static_cast<float>(static_cast<int>(state >> 20) - 2048);
      const bool zero = (r % 5 == 1 && c < 16) || r == 2;
      x.push_back(zero ? 0.0f : std::ldexp(step / 512.0f, static_cast<int>(r % 40) * (c < 32 ? 1 : -1)));
    }
  }
  return x;
}

TEST(Explore, QuantizesAsTheLibrary) {
  constexpr int64_t kRows = 40;
  std::vector<float> x = hard_values(kRows);
  std::string values;
  for (const float v : x) values += fmt::format("{}{}", values.empty() ? "" : ",", double{v});
  MINITE_COMPUTED(text,
                  std::string(kBits) + "const x = [" + values +
                      "];\nconst rows = [];\n"
                      "for (let r = 0; r < x.length; r += 48) { const row = x.slice(r, r + 48), q = "
                      "quantizeNvfp4(row, amaxOf(row));\n"
                      "rows.push({codes: q.codes, scales: q.scales, decoded: q.decoded.map(bitsOf)}); }\n"
                      "const result = JSON.stringify(rows);");
  const json rows = json::parse(text);
  const QuantSpec spec{.format = FormatId::nvfp4, .outer = OuterScale::row};
  const Buffer memory(QTensor::bytes(spec, kRows, 48));
  const QTensor q = QTensor::place(spec, kRows, 48, memory.data());
  std::vector<float> decoded(x.size());
  ref::quantize({{x.data(), kRows, 48}, Orientation::rows, q, {}});
  ref::dequantize({q, {decoded.data(), kRows, 48}});
  for (int64_t r = 0; r < kRows; ++r) {
    const json& row = rows.at(static_cast<size_t>(r));
    for (int64_t c = 0; c < 48; ++c) {
      const int byte = q.codes[r * q.code_stride() + c / 2], code = c % 2 == 0 ? byte & 15 : byte >> 4;
      ASSERT_EQ(row["codes"][static_cast<size_t>(c)].get<int>(), code) << "row " << r << ", column " << c;
      ASSERT_EQ(row["decoded"][static_cast<size_t>(c)].get<uint32_t>(),
                std::bit_cast<uint32_t>(decoded[static_cast<size_t>(r * 48 + c)]))
          << "row " << r << ", column " << c;
    }
    for (int64_t b = 0; b < 3; ++b)
      ASSERT_EQ(row["scales"][static_cast<size_t>(b)].get<int>(), q.block_scales[r * q.scale_stride() + b])
          << "row " << r;
  }
}

/// A page about a tiny run and tokens by hand.
class ExplorePage : public testing::Test {
 protected:
  std::string page(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"explore", "-o", (folder_ / "page.html").string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = run_minite(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return test_support::slurp(folder_ / "page.html");
  }
  std::string tokens() {
    const json document = {
        {"learners", json::array({{{"recipe", "bf16"}, {"kv", "bf16"}}})},
        {"samplers",
         json::array({{{"recipe", "bf16"}, {"kv", "bf16"}}, {{"recipe", "nvfp4_per_token"}, {"kv", "fp8"}}})},
        {"sequences",
         {{{"sequence", 0},
           {"advantage", 1.5},
           {"tokens",
            {{{"position", 3}, {"text", "</script>"}, {"learner", {-1.0}}, {"sampler", {-1.0, -0.5}}}}}},
          {{"sequence", 1},
           {"advantage", -0.5},
           {"tokens", {{{"position", 4}, {"text", "7"}, {"learner", {-2.0}}, {"sampler", {-2.0, -1.0}}}}}}}}};
    test_support::spill(folder_ / "tokens.json", document.dump());
    return (folder_ / "tokens.json").string();
  }
  /// The page after `script` ran at its end; the script leaves its findings in document.title.
  std::string after(std::string html, const std::string& script) {
    html.insert(html.rfind("</body>"),
                "<script>try {" + script + "} catch (e) { document.title = 'failed: ' + e; }</script>");
    return browsed(find_browser(), html);
  }
  TempFolder folder_;
};

TEST_F(ExplorePage, StandsAlone) {
  const std::string html = page({"--tokens", tokens()});
  for (const char* id : {"bits", "block", "outer", "quadrant", "paths"})
    EXPECT_NE(html.find(fmt::format("<section id=\"{}\">", id)), std::string::npos) << id;
  EXPECT_EQ(html.find("<section id=\"dynamics\">"), std::string::npos) << "no runs were given";
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* outside : {"http://", "https://", " src=", "@import", "url("}) {
    const size_t at = html.find(outside);
    const bool name = at != std::string::npos && html.compare(at, 26, "http://www.w3.org/2000/svg") == 0;
    EXPECT_TRUE(at == std::string::npos || name) << outside;
  }
  const size_t begin = html.find("id=\"data\">") + 10;
  const json data = json::parse(html.substr(begin, html.find("</script>", begin) - begin));
  EXPECT_EQ(data["tokens"]["sequences"][0]["tokens"][0]["text"], "</script>");
  EXPECT_GT(data["recipes"].size(), 20u);
}

TEST_F(ExplorePage, FiguresAnswer) {
  if (find_browser().empty()) GTEST_SKIP() << "no chromium here";
  const std::string html = page({"--tokens", tokens()});
  const std::string dom = after(html, R"js(
    const problems = [];
    const expect = (what, got, wanted) => { if (got !== wanted) problems.push(`${what}: ${got}, not ${wanted}`); };
    for (const id of ["bits", "block", "outer", "quadrant", "paths"]) {
      const section = document.getElementById(id);
      expect(id + " drawings", section.querySelectorAll("svg").length, 1);
      for (const link of section.querySelectorAll(".get a")) expect(id + " link", link.href.startsWith("data:"), true);
    }
    // Code 5 is 3, scale 0x3A is 1.25; the mantissa of the code makes it 2.
    const value = () => document.querySelector("#bits-values tr:last-child td:last-child").textContent;
    expect("value", value(), "3.75");
    document.querySelectorAll("#bits-code button")[3].click();
    expect("after a click", value(), "2.5");
    document.querySelectorAll("#bits-scale button")[0].dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowUp"}));
    expect("after a key", value(), "2.75");
    const type = (id, text) => { const e = document.getElementById(id); e.value = text; e.dispatchEvent(new Event("input")); };
    type("block-values", "6 3 1.5 x");
    expect("error", document.getElementById("block-error").textContent, '"x" is not a number');
    type("block-values", "6 3 1.5");
    expect("error again", document.getElementById("block-error").textContent, "");
    expect("rows", document.querySelectorAll("#block-table tr").length, 3);
    const before = document.getElementById("outer-now").textContent;
    type("outer-amax", "24");
    expect("the slider moves the text", document.getElementById("outer-now").textContent === before, false);
    // Gaps are -0.5 at A = 1.5 and -1 at A = -0.5: 25 % of |A| are in the gate's direction.
    expect("side", document.getElementById("quadrant-sampler").selectedOptions[0].textContent, "nvfp4_per_token, KV fp8");
    expect("share", document.getElementById("quadrant-text").textContent.endsWith("25.0 %"), true);
    type("paths-recipe", "bf16");
    expect("recipe", document.getElementById("paths").querySelector("svg").textContent.includes("quantize:"), false);
    document.querySelector('#paths .box[data-key="dgrad"]').dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
    expect("details", document.getElementById("paths-text").textContent.startsWith("dgrad: dx"), true);
    document.title = problems.length ? "failed: " + problems.join("; ") : "all well";
  )js");
  EXPECT_NE(dom.find("<title>all well</title>"), std::string::npos) << dom.substr(dom.find("<title>"), 400);
}

TEST_F(ExplorePage, RunsAreDrawn) {
  if (find_browser().empty()) GTEST_SKIP() << "no chromium here";
  std::filesystem::create_directories(folder_ / "run");
  test_support::spill(
      folder_ / "run" / "metrics.jsonl",
      "{\"stage\":\"rl\",\"step\":1,\"reward\":0.25}\n{\"stage\":\"rl\",\"step\":2,\"reward\":null}\n"
      "{\"stage\":\"rl\",\"step\":3,\"reward\":0.75}\n");
  const std::string dom = after(page({(folder_ / "run").string()}), R"js(
    const csv = () => decodeURIComponent(document.querySelector('#dynamics a[download$=".csv"]').href);
    let found = csv().includes("run,rl,reward,3,0.75,0.75") ? "" : "raw ";
    document.getElementById("dynamics-first").value = "2";
    document.getElementById("dynamics-first").dispatchEvent(new Event("input"));
    found += csv().includes(",1,0.25") ? "range " : "";
    document.title = found === "" ? "all well" : "failed: " + found;
  )js");
  EXPECT_NE(dom.find("<title>all well</title>"), std::string::npos) << dom.substr(dom.find("<title>"), 400);
}

TEST_F(ExplorePage, BadInputIsNamed) {
  test_support::spill(folder_ / "wrong.json", "{\"learners\": [], \"samplers\": []}");
  const auto wrong = run_minite(
      {"explore", "--tokens", (folder_ / "wrong.json").string(), "-o", (folder_ / "p.html").string()});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("\"sequences\""), std::string::npos) << wrong.err;
  const auto missing =
      run_minite({"explore", (folder_ / "no_run").string(), "-o", (folder_ / "p.html").string()});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("no_run"), std::string::npos) << missing.err;
}

}  // namespace
}  // namespace minite
