// Weights are quantized once an update, both sides read the same bytes, and those are the bytes that a BF16
// checkpoint quantized offline gives.
#include "invariance/invariance.h"
#include "io/safetensors.h"
#include "learn/checkpoint.h"
#include "support/temp_folder.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

class Cache : public RecipeTest {};
MINITE_RECIPES(Cache, Which::all);

const Policy kFastest{Policy::Kind::fastest, {}};

/// Everything of one quantized tensor in one string of bytes.
std::vector<std::byte> all_bytes(const QTensor& q) {
  std::vector<std::byte> out;
  const auto add = [&out](const void* p, int64_t n) {
    const auto* b = static_cast<const std::byte*>(p);
    if (n > 0) out.insert(out.end(), b, b + n);
  };
  add(q.codes, q.rows * q.code_stride());
  add(q.block_scales, q.rows * q.scale_stride());
  add(q.outer, q.outer_count() * 4);
  add(q.amax, q.outer_count() * 4);
  return out;
}

/// Forms of every covered weight of the model.
std::vector<LinearWeights> forms(WeightCache& cache, const ModelConfig& config, const std::string& recipe) {
  std::vector<LinearWeights> all;
  for (const LinearModule& module : linear_modules(config)) {
    if (module.covered) all.push_back(cache.add(module.name, get_recipe(recipe).params));
  }
  return all;
}
std::vector<std::byte> all_bytes(const std::vector<LinearWeights>& forms) {
  std::vector<std::byte> out;
  for (const LinearWeights& w : forms) {
    for (const auto& part : {all_bytes(w.fprop), all_bytes(w.dgrad), bytes_of(w.dequantized)}) {
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

std::vector<Sequence> small_batch() {
  return {{random_tokens(9, 40, 51, 0), 2}, {random_tokens(6, 40, 51, 1), 3}};
}
void update(Learner& learner, int64_t number) {
  StepResult result =
      learner.accumulate(small_batch(), 1.0f, Learner::EntropyGradient::none,
                         [](const MicroBatch& m) { std::fill(m.dlogp.begin(), m.dlogp.end(), -1.0f); });
  learner.apply({}, number, result);
}

TEST_P(Cache, QuantizesEachFormOnceAnUpdate) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 51);
  Sides sides(weights, {.recipe = GetParam(), .policy = kFastest});
  // A second network of the same recipe registers nothing new.
  const Network other(weights, sides.cache, resolve(GetParam(), {}, linear_modules(config), 2), fast_table(),
                      kFastest);
  const QLinearParams& p = get_recipe(GetParam()).params;
  const bool moved = p.dgrad.b == p.fprop.b && p.dgrad.b.transposable();  // codes of w^T are those of w
  const int64_t expected = 8 * ((p.fprop.b.quantized() ? 1 : 0) + (p.dgrad.b.quantized() && !moved ? 1 : 0));
  EXPECT_EQ(sides.cache.refresh(sides.learner.context()), expected);
  for (int64_t number = 1; number <= 2; ++number) {
    EXPECT_EQ(sides.cache.refresh(sides.learner.context()), 0);
    update(sides.learner, number);
    EXPECT_EQ(sides.cache.refresh(sides.learner.context()), expected);
    EXPECT_EQ(sides.cache.version(), weights.version());
  }
}

TEST_P(Cache, BothSidesReadTheSamePointers) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 52);
  WeightCache cache(weights);
  const auto learner = forms(cache, config, GetParam()), sampler = forms(cache, config, GetParam());
  for (size_t i = 0; i < learner.size(); ++i) {
    EXPECT_EQ(learner[i].dense.data, sampler[i].dense.data);
    EXPECT_EQ(learner[i].fprop.codes, sampler[i].fprop.codes);
    EXPECT_EQ(learner[i].fprop.outer, sampler[i].fprop.outer);
    EXPECT_EQ(learner[i].dgrad.codes, sampler[i].dgrad.codes);
    EXPECT_EQ(learner[i].dequantized.data, sampler[i].dequantized.data);
  }
}

TEST_P(Cache, ReloadingGivesTheSameBits) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 53);
  Sides sides(weights, {.recipe = GetParam(), .policy = kFastest});
  const auto mine = forms(sides.cache, config, GetParam());
  const auto state = [&] {
    sides.cache.refresh(sides.learner.context());
    return std::pair(all_bytes(mine), score(sides.learner, small_batch()).logp);
  };
  const auto a = state();
  fill_strong(weights, 54);
  const auto b = state();
  fill_strong(weights, 53);
  const auto again = state();
  EXPECT_EQ(a.first, again.first);
  EXPECT_TRUE(same_bits(a.second, again.second));
  EXPECT_FALSE(same_bits(a.second, b.second));
}

/// Two recipes with one forward format: the sampler's codes are the learner's codes.
TEST(SharedCache, RecipesWithOneForwardFormatShareCodes) {
  const ModelConfig config = tiny_config();
  Weights weights(config, DType::bf16, Purpose::training);
  fill_strong(weights, 55);
  ThreadPool pool(1);
  WeightCache cache(weights);
  const auto network = [&](const char* recipe) {
    return Network(weights, cache, resolve(recipe, {}, linear_modules(config), 2), fast_table(), Policy{});
  };
  const Network learning = network("nvfp4_per_token"), sampling = network("nvfp4_per_token_bf16_bwd");
  Learner learner(weights, learning, fast_table(), pool, {512, 96});
  Sampler sampler(sampling, fast_table(), pool, {4, 96, 512});
  const auto mine = forms(cache, config, "nvfp4_per_token_bf16_bwd");
  EXPECT_EQ(cache.refresh(learner.context()), 16);
  const auto requests = requests_of({3, 20}, config.vocab_size);
  SampleParams p;
  p.max_new_tokens = 10;
  const auto before = scores_of(sampler.generate(requests, p));
  mine[0].fprop.codes[7] ^= 1;  // seen by both sides
  const auto samples = sampler.generate(requests, p);
  const auto after = scores_of(samples);
  EXPECT_FALSE(same_bits(before.logp, after.logp));
  EXPECT_TRUE(same_bits(after, score(learner, sequences_of(requests, samples))));
}

/// The parameter `p` as the checkpoint holds it, its pieces one below the other.
std::vector<bf16> read_back(const io::SafetensorsFile& file, const Parameter& p) {
  std::vector<bf16> out;
  for (const CheckpointPiece& piece : p.spec.pieces) {
    const io::TensorInfo& t = file.at(piece.name);
    EXPECT_EQ(t.type, io::StoredType::bf16);
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(t.count()));
    std::memcpy(out.data() + at, t.bytes.data(), t.bytes.size());
  }
  return out;
}
std::vector<std::byte> quantize_offline(const TensorView& w, Orientation along, const QuantSpec& spec) {
  const bool rows = along == Orientation::rows;
  const int64_t r = rows ? w.rows : w.cols, c = rows ? w.cols : w.rows;
  const Buffer memory(QTensor::bytes(spec, r, c));
  const QTensor q = QTensor::place(spec, r, c, memory.data());
  ref::table().quantize({w, along, q}, {});
  return all_bytes(q);
}

TEST_P(Cache, AnExportedCheckpointQuantizedOfflineGivesTheSameBytes) {
  const QLinearParams& params = get_recipe(GetParam()).params;
  for (const bool tied : {false, true}) {
    const ModelConfig config = tiny_config(24, tied);
    Weights weights(config, DType::bf16, Purpose::training);
    fill_strong(weights, 56);
    Sides sides(weights, {.recipe = GetParam(), .policy = kFastest});
    update(sides.learner, 1);
    const auto mine = forms(sides.cache, config, GetParam());
    sides.cache.refresh(sides.learner.context());
    const TempFolder folder;
    save_model(folder.path(), weights);
    const io::SafetensorsFile file(folder / "model.safetensors");
    size_t i = 0;
    for (const LinearModule& module : linear_modules(config)) {
      if (!module.covered) continue;
      const Parameter& p = weights.at(module.name);
      auto stored = read_back(file, p);
      const TensorView w(stored.data(), p.spec.rows, p.spec.cols);
      EXPECT_EQ(bytes_of(w), bytes_of(p.weight)) << module.name;
      const LinearWeights& form = mine[i++];
      if (!form.fprop.empty()) {
        EXPECT_EQ(quantize_offline(w, Orientation::rows, params.fprop.b), all_bytes(form.fprop))
            << module.name;
        EXPECT_NE(quantize_offline(p.master, Orientation::rows, params.fprop.b), all_bytes(form.fprop))
            << module.name << ": codes of the master must differ, else this test shows nothing";
      }
      if (!form.dgrad.empty()) {
        EXPECT_EQ(quantize_offline(w, Orientation::columns, params.dgrad.b), all_bytes(form.dgrad))
            << module.name;
      }
    }
    EXPECT_EQ(i, 8u);
  }
}

}  // namespace
}  // namespace minite::invariance
