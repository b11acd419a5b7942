// minite matmul: rounded to BF16, the output has the bits of a Linear layer, for every recipe and pass.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/registry.h"
#include "modules/linear.h"
#include "support/run_command.h"
#include "support/tensor_file.h"

namespace minite {
namespace {

using nlohmann::json;
using test_support::CommandResult;
using test_support::holds;
using test_support::raw;
using test_support::run_minite;
using test_support::small_values;
using test_support::TempFolder;
using test_support::TensorFile;
using test_support::values_of;
using Words = std::vector<std::string>;

constexpr int64_t kM = 40, kN = 64, kK = 96;
constexpr uint64_t kSeed = 5;

std::vector<bf16> brain(const std::vector<float>& values) { return {values.begin(), values.end()}; }

struct Tensors {
  std::vector<bf16> x = brain(small_values(kM * kK, 1)), w = brain(small_values(kN * kK, 2)),
                    dy = brain(small_values(kM * kN, 3));
  void write(const std::filesystem::path& path) const {
    TensorFile()
        .add("x", "BF16", {kM, kK}, raw(x))
        .add("w", "BF16", {kN, kK}, raw(w))
        .add("dy", "BF16", {kM, kN}, raw(dy))
        .write(path);
  }
};

/// y, dx and dw of a Linear that computes in BF16, as the engine has it.
struct LayerOutput {
  std::vector<bf16> y = std::vector<bf16>(kM * kN), dx = std::vector<bf16>(kM * kK);
  std::vector<float> dw = std::vector<float>(kN * kK);
};
LayerOutput run_layer(const RecipeSpec& recipe, Tensors& in) {
  ThreadPool pool(2);
  const OpTable& table = backend("auto");
  const QLinearParams& p = recipe.params;
  const LinearNeeds needs(p);
  ResolvedLinear resolved;
  resolved.module = {.name = "matmul", .n = kN, .k = kK};
  resolved.recipe = recipe.name;
  resolved.params = p;
  const Linear layer(resolved, DType::bf16, table, Policy{Policy::Kind::fastest, {}});
  const Buffer scratch(layer.scratch(kM, pool.threads()));
  const Context ctx{&table, &pool, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}, kSeed};
  const Buffer memory(int64_t{1} << 22), temp_memory(int64_t{1} << 22);
  Arena arena(memory), temp(temp_memory);
  const TensorView x(in.x.data(), kM, kK), w(in.w.data(), kN, kK), dy(in.dy.data(), kM, kN);
  LinearWeights weights;
  weights.dense = w;
  if (format(p.fprop.b.format).bits == 32) {
    weights.dense = arena.take_tensor(DType::f32, kN, kK);
    for (int64_t i = 0; i < kN * kK; ++i) weights.dense.as<float>()[i] = in.w[static_cast<size_t>(i)];
  }
  if (needs.quantized_w) {
    weights.fprop = arena.take_qtensor(p.fprop.b, kN, kK);
    ops::quantize(ctx, {w, Orientation::rows, weights.fprop, {}});
  }
  if (needs.dgrad_codes) {
    weights.dgrad = arena.take_qtensor(p.dgrad.b, kK, kN);
    ops::quantize(ctx, {w, Orientation::columns, weights.dgrad, {}});
  }
  if (needs.dequantized_w) {
    weights.dequantized = arena.take_tensor(DType::bf16, kN, kK);
    ops::dequantize(ctx, {weights.fprop, weights.dequantized});
  }
  LinearSaved saved;
  if (needs.quantized_x) saved.xq = arena.take_qtensor(p.fprop.a, kM, kK);
  LayerOutput out;
  layer.forward(ctx, x, weights, TensorView(out.y.data(), kM, kN), saved);
  layer.backward(ctx, temp, dy, saved, weights, TensorView(out.dx.data(), kM, kK),
                 TensorView(out.dw.data(), kN, kK));
  return out;
}

std::vector<float> product(const TempFolder& folder, const std::string& recipe, const std::string& pass,
                           const std::string& name, const Words& more = {}) {
  Words all = {
      "matmul", (folder / "in").string(), "-o", (folder / "out").string(), "--recipe", recipe, "--pass", pass,
      "--seed", std::to_string(kSeed)};
  all.insert(all.end(), more.begin(), more.end());
  const CommandResult result = run_minite(all);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const io::SafetensorsFile file(folder / "out");
  EXPECT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.at(name).type, io::StoredType::f32);
  return values_of<float>(file.at(name));
}

TEST(MatmulVerb, HasTheBitsOfALinearLayer) {
  const TempFolder folder;
  Tensors in;
  in.write(folder / "in");
  for (const RecipeSpec& recipe : recipes()) {
    const std::string name(recipe.name);
    SCOPED_TRACE(name);
    const LayerOutput layer = run_layer(recipe, in);
    const auto same = [](const std::vector<float>& got, const std::vector<bf16>& want) {
      for (size_t i = 0; i < want.size(); ++i) {
        // A simulated format may decode to NaN, whose sign no product promises.
        if (bf16(got[i]).bits != want[i].bits &&
            !(std::isnan(got[i]) && std::isnan(static_cast<float>(want[i]))))
          return false;
      }
      return got.size() == want.size();
    };
    EXPECT_TRUE(same(product(folder, name, "fprop", "y"), layer.y));
    EXPECT_TRUE(same(product(folder, name, "dgrad", "dx"), layer.dx));
    EXPECT_EQ(product(folder, name, "wgrad", "dw"), layer.dw) << "main gradients are FP32: every bit";
  }
}

TEST(MatmulVerb, BackendsAndThreadsGiveTheSameBits) {
  const TempFolder folder;
  Tensors().write(folder / "in");
  for (const char* recipe : {"nvfp4_te", "mxfp8", "bf16"}) {
    for (const auto& [pass, name] : {std::pair{"fprop", "y"}, {"dgrad", "dx"}, {"wgrad", "dw"}}) {
      const auto simd = product(folder, recipe, pass, name);
      EXPECT_EQ(product(folder, recipe, pass, name, {"--backend", "ref"}), simd) << recipe << " " << pass;
      EXPECT_EQ(product(folder, recipe, pass, name, {"--threads", "3"}), simd) << recipe << " " << pass;
    }
  }
}

/// bf16: fma chains over k of the stored values; checks the orientation of every pass.
TEST(MatmulVerb, Bf16IsTheChainOfFma) {
  const TempFolder folder;
  const Tensors in;
  in.write(folder / "in");
  const auto chain = [](int64_t rows, int64_t cols, int64_t depth, auto a, auto b) {
    std::vector<float> out;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        float acc = 0;
        for (int64_t k = 0; k < depth; ++k) acc = std::fma(a(r, k), b(c, k), acc);
        out.push_back(acc);
      }
    }
    return out;
  };
  const auto x = [&](int64_t m, int64_t k) {
    return static_cast<float>(in.x[static_cast<size_t>(m * kK + k)]);
  };
  const auto w = [&](int64_t n, int64_t k) {
    return static_cast<float>(in.w[static_cast<size_t>(n * kK + k)]);
  };
  const auto dy = [&](int64_t m, int64_t n) {
    return static_cast<float>(in.dy[static_cast<size_t>(m * kN + n)]);
  };
  const auto flip = [](auto f) { return [f](int64_t a, int64_t b) { return f(b, a); }; };
  EXPECT_EQ(product(folder, "bf16", "fprop", "y"), chain(kM, kN, kK, x, w));
  EXPECT_EQ(product(folder, "bf16", "dgrad", "dx"), chain(kM, kK, kN, dy, flip(w)));
  EXPECT_EQ(product(folder, "bf16", "wgrad", "dw"), chain(kN, kK, kM, flip(dy), flip(x)));
}

TEST(MatmulVerb, Fp32TensorsStayFp32WhereTheRecipeSaysSo) {
  const TempFolder folder;
  const std::vector<float> x = {1.0f + 0x1p-20f}, w = {3.0f};
  TensorFile().f32("x", {1, 1}, x).f32("w", {1, 1}, w).write(folder / "in");
  EXPECT_EQ(product(folder, "fp32", "fprop", "y")[0], x[0] * 3.0f);
  EXPECT_EQ(product(folder, "bf16", "fprop", "y")[0], 3.0f);
}

TEST(MatmulVerb, JsonSaysWhatRan) {
  const TempFolder folder;
  Tensors().write(folder / "in");
  const CommandResult result =
      run_minite({"matmul", (folder / "in").string(), "-o", (folder / "out").string(), "--recipe",
                  "nvfp4_per_token", "--pass", "wgrad", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["tensor"], "dw");
  EXPECT_EQ(document["shape"], (json{kN, kK}));
  EXPECT_EQ(document["a"], "mxfp8");
  EXPECT_TRUE(holds(document["plan"], "mxfp8 x mxfp8 -> f32"));
  EXPECT_EQ(document["padding"], "M=40 is not a multiple of 32: the last block is padded with zeros");
}

/// The contracted dimension of each pass, and what the pass multiplies.
TEST(MatmulVerb, SaysWhichDimensionIsPadded) {
  const TempFolder folder;
  TensorFile()
      .f32("x", {3, 17}, small_values(51))
      .f32("w", {5, 17}, small_values(85))
      .f32("dy", {3, 5}, small_values(15))
      .write(folder / "in");
  const std::map<std::string, Words> said = {
      {"fprop", {"y [3, 5], y = x w^T,", "K=17 is not a multiple of 16"}},
      {"dgrad", {"dx [3, 17], dx = dy w,", "N=5 is not a multiple of 16"}},
      {"wgrad", {"dw [5, 17], dw = dy^T x,", "M=3 is not a multiple of 16"}}};
  for (const auto& [pass, parts] : said) {
    const CommandResult result =
        run_minite({"matmul", (folder / "in").string(), "-o", (folder / "out").string(), "--recipe",
                    "nvfp4_te", "--pass", pass});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& part : parts) EXPECT_TRUE(holds(result.out, part)) << part << "\n" << result.out;
  }
}

/// x, w and y of Transformer Engine's reference product, per tensor, 1D blocks on both sides.
TEST(MatmulVerb, ReferenceEpilogueGivesTransformerEnginesProduct) {
  const TempFolder folder;
  const io::SafetensorsFile golden(MINITE_SOURCE_DIR "/tests/golden/transformer_engine.safetensors");
  int products = 0;
  for (const auto& [key, info] : golden.tensors()) {
    if (!key.starts_with("gemm/tensor1d_w1d/") || !key.ends_with("/y_f32")) continue;
    const std::string name = key.substr(0, key.rfind('/'));
    TensorFile file;
    for (const char* tensor : {"x", "w"}) {
      const io::TensorInfo& t = golden.at(name + "/" + tensor);
      file.add(tensor, "BF16", t.shape, {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()});
    }
    file.write(folder / "in");
    const auto te = product(folder, "nvfp4_per_tensor", "fprop", "y", {"--epilogue", "te"});
    ASSERT_EQ(te.size() * sizeof(float), info.bytes.size()) << name;
    EXPECT_EQ(std::memcmp(te.data(), info.bytes.data(), info.bytes.size()), 0) << name;
    ++products;
  }
  EXPECT_GT(products, 0);
}

TEST(MatmulVerb, BadInputNamesTheRemedy) {
  const TempFolder folder;
  const auto refused = [&](const Words& more, const Words& parts) {
    Words all = {"matmul", (folder / "in").string(), "-o", (folder / "out").string()};
    all.insert(all.end(), more.begin(), more.end());
    const CommandResult result = run_minite(all);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts)
      EXPECT_TRUE(holds(result.err, part)) << part << "\nnot in\n" << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  };
  TensorFile()
      .f32("x", {2, 32}, small_values(64))
      .f32("w", {3, 16}, small_values(48))
      .f32("b", {3}, {1, 2, 3})
      .write(folder / "in");
  refused({}, {"--recipe"});
  refused({"--recipe", "bf61"}, {"did you mean 'bf16'?"});
  refused({"--recipe", "bf16", "--pass", "fprp"}, {"--pass fprp", "did you mean 'fprop'?"});
  refused({"--recipe", "bf16", "--epilogue", "cublas"}, {"--epilogue cublas", "minite or te"});
  refused({"--recipe", "bf16"}, {"K is 16 in \"w\" and 32", "x [M,K]"});
  refused({"--recipe", "bf16", "--pass", "dgrad"}, {"no tensor \"dy\""});
  TensorFile().f32("x", {2, 2, 8}, small_values(32)).f32("w", {3, 16}, small_values(48)).write(folder / "in");
  refused({"--recipe", "bf16"}, {"\"x\"", "[2, 2, 8]", "matrices"});
  TensorFile().add("x", "I32", {1, 1}, "abcd").f32("w", {1, 1}, {1}).write(folder / "in");
  refused({"--recipe", "bf16"}, {"\"x\" is I32", "BF16"});
  TensorFile().f32("x", {0, 16}, {}).f32("w", {3, 16}, small_values(48)).write(folder / "in");
  refused({"--recipe", "bf16"}, {"M of \"x\" is 0"});
}

}  // namespace
}  // namespace minite
