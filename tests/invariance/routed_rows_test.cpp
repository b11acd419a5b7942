// Tokens routed to experts: what a token gets back depends on the token and on where it goes, not on its
// place in the batch, on how many or how large the other tokens are, or on what other experts get.
#include <set>

#include "invariance/invariance.h"
#include "modules/grouped_linear.h"
#include "support/tiny_model.h"

namespace minite::invariance {
namespace {
using namespace test_support;

constexpr int64_t kExperts = 5, kSlots = 2;  ///< of the layer, of a token

struct Token {
  std::vector<bf16> x;
  std::array<int32_t, kSlots> expert{};
  std::array<float, kSlots> weight{};
};
using Matrix = std::vector<std::vector<bf16>>;

float noise(uint64_t i, uint64_t stream) {
  return static_cast<float>(Philox::generate(19, i, stream)[0] >> 8) * 0x1p-23f - 1.0f;
}

/// A model of one layer.
ModelConfig layer_config(const std::string& recipe) {
  ModelConfig c = ragged_experts(recipe);
  c.num_hidden_layers = 1;
  return c;
}

/// The second product of the experts of one layer: dispatch, permute, product by expert, combine.
class RoutedLayer {
 public:
  RoutedLayer(const std::string& recipe, const OpTable& table, int threads = 1, const Policy& policy = {})
      : table_(table),
        pool_(threads),
        weights_(layer_config(recipe), DType::bf16, Purpose::inference),
        cache_(weights_),
        layer_(weights_.config().num_experts, resolved(recipe), DType::bf16, table, policy) {
    fill_uneven(weights_, 81);
    units_ = cache_.add_units("layers.0.experts.down", layer_.each().params());
    scratch_ = Buffer(layer_.scratch(kMostTokens * kSlots, threads));
    cache_.refresh(context());
  }

  /// [T,N]: weighted sums over each token's experts.
  Matrix run(const std::vector<Token>& tokens) {
    const auto count = static_cast<int64_t>(tokens.size()), rows = count * kSlots;
    Arena measure;
    (void)place(measure, count);
    memory_ = Buffer(measure.peak());
    poison(memory_);
    poison(scratch_);
    Arena arena(memory_);
    Placed p = place(arena, count);
    std::vector<int32_t> expert;
    for (int64_t t = 0; t < count; ++t) {
      const Token& token = tokens[static_cast<size_t>(t)];
      std::copy(token.x.begin(), token.x.end(), p.x.row<bf16>(t));
      std::copy(token.weight.begin(), token.weight.end(), p.weight.row<float>(t));
      expert.insert(expert.end(), token.expert.begin(), token.expert.end());
    }
    std::vector<int32_t> offset(static_cast<size_t>(layer_.num_gemms()) + 1);
    std::vector<int32_t> row_of(static_cast<size_t>(rows)), slot_of(row_of.size());
    ops::dispatch(context(), {expert, offset, row_of, slot_of});
    ops::permute(context(), {p.x, slot_of, p.packed});
    layer_.forward(context(), p.packed, {offset}, units_, p.product, p.saved);
    ops::combine(context(), {p.product, row_of, p.weight, p.y});
    Matrix out;
    for (int64_t t = 0; t < count; ++t) out.emplace_back(p.y.row<bf16>(t), p.y.row<bf16>(t) + p.y.cols);
    return out;
  }

  [[nodiscard]] int64_t k() const { return layer_.each().k(); }

  static constexpr int64_t kMostTokens = 129;

 private:
  struct Placed {
    TensorView x, packed, product, y, weight;
    LinearSaved saved;
  };
  Placed place(Arena& arena, int64_t tokens) const {
    const int64_t rows = tokens * kSlots, k = layer_.each().k(), n = layer_.each().n();
    Placed p;
    p.x = arena.take_tensor(DType::bf16, tokens, k);
    p.packed = arena.take_tensor(DType::bf16, rows, k);
    p.product = arena.take_tensor(DType::bf16, rows, n);
    p.y = arena.take_tensor(DType::bf16, tokens, n);
    p.weight = arena.take_tensor(DType::f32, tokens, kSlots);
    const QuantSpec& spec = layer_.each().params().fprop.a;
    if (layer_.each().needs().quantized_x) p.saved.xq = arena.take_qtensor(spec, rows, k);
    return p;
  }
  [[nodiscard]] Context context() {
    return {&table_, &pool_, nullptr, {scratch_.data(), static_cast<size_t>(scratch_.size())}};
  }
  static ResolvedLinear resolved(const std::string& recipe) {
    for (const ResolvedLinear& r : resolve(recipe, {}, linear_modules(layer_config(recipe)), 1)) {
      if (r.module.name == "layers.0.experts.down") return r;
    }
    throw std::logic_error("the layer has no experts");
  }

  const OpTable& table_;
  ThreadPool pool_;
  Weights weights_;
  WeightCache cache_;
  GroupedLinear layer_;
  std::vector<LinearWeights> units_;
  Buffer memory_, scratch_;
};

/// Tokens that go to experts below `experts`, unevenly: the first gets the most. A single one gets them
/// twice.
std::vector<Token> tokens(const RoutedLayer& layer, int64_t count, int64_t experts = kExperts,
                          float scale = 1.0f) {
  std::vector<Token> all(static_cast<size_t>(count));
  for (size_t t = 0; t < all.size(); ++t) {
    // As in fill_uneven(): blocks of very different size, so that the order of a sum shows in its bits.
    for (int64_t k = 0; k < layer.k(); ++k) {
      const float block = std::ldexp(scale, -3 * static_cast<int>(k / 16 % 4));
      all[t].x.emplace_back(noise(static_cast<uint64_t>(k), 100 + t) * block);
    }
    const auto word = Philox::generate(20, t, 0);
    const auto most = static_cast<uint32_t>(experts);
    const auto first = static_cast<int32_t>(std::min(word[0] % most, word[1] % most));
    const auto further = experts == 1 ? 0 : 1 + word[2] % (most - 1);
    all[t].expert = {first, static_cast<int32_t>((static_cast<uint32_t>(first) + further) % most)};
    all[t].weight = {0.5f + 0.25f * noise(t, 1), 0.5f - 0.25f * noise(t, 1)};
  }
  return all;
}

/// A few rows of a batch that reaches the branches of small and large groups; ref is slow.
std::vector<size_t> some_rows(const OpTable& table, size_t count) {
  std::vector<size_t> rows;
  for (size_t r = 0; r < count; r += table.name == ref::table().name ? 16 : 5) rows.push_back(r);
  return rows;
}

class RoutedRows : public RecipeTest {};
MINITE_RECIPES(RoutedRows, Which::row_local);

/// If two tokens had one result, a permuted result could pass for the right one.
TEST_P(RoutedRows, DifferFromEachOther) {
  RoutedLayer layer(GetParam(), fast_table());
  const Matrix y = layer.run(tokens(layer, 129));
  std::set<std::vector<uint16_t>> seen;
  for (const auto& row : y) {
    std::vector<uint16_t> bits;
    for (const bf16 v : row) bits.push_back(v.bits);
    EXPECT_TRUE(seen.insert(bits).second);
  }
}

TEST_P(RoutedRows, AloneEqualsAnyBatch) {
  for (const OpTable* table : cpu_tables()) {
    RoutedLayer layer(GetParam(), *table);
    const auto x = tokens(layer, 129);
    const Matrix whole = layer.run(x);
    for (const size_t r : some_rows(*table, x.size()))
      ASSERT_TRUE(same_bits(layer.run({x[r]})[0], whole[r])) << table->name << " row " << r << " alone";
    for (size_t n = 2; n < x.size(); n += table == &ref::table() ? 31 : 1) {
      const Matrix part = layer.run({x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)});
      for (size_t r = 0; r < n; ++r)
        ASSERT_TRUE(same_bits(part[r], whole[r])) << table->name << " row " << r << " of " << n;
    }
  }
}

TEST_P(RoutedRows, FollowTheirToken) {
  for (const OpTable* table : cpu_tables()) {
    RoutedLayer layer(GetParam(), *table);
    const auto x = tokens(layer, 97);
    const Matrix y = layer.run(x);
    for (const size_t step : {1u, 5u, 96u}) {  // 96: the reverse, but for its start
      std::vector<Token> turned;
      for (size_t r = 0; r < x.size(); ++r) turned.push_back(x[(r * step + 13) % x.size()]);
      const Matrix z = layer.run(turned);
      for (size_t r = 0; r < x.size(); ++r)
        ASSERT_TRUE(same_bits(z[r], y[(r * step + 13) % x.size()])) << table->name << " row " << r;
    }
  }
}

/// All other tokens 10000 times larger.
Matrix among_loud(RoutedLayer& layer, const std::vector<Token>& x, size_t row) {
  auto loud = tokens(layer, static_cast<int64_t>(x.size()), kExperts, 1e4f);
  loud[row] = x[row];
  return layer.run(loud);
}
/// All other tokens sent elsewhere: to the experts that `row` does not use, or all to the two that it uses.
Matrix among_moved(RoutedLayer& layer, const std::vector<Token>& x, size_t row, bool together) {
  auto moved = x;
  for (size_t r = 0; r < x.size(); ++r) {
    if (r == row) continue;
    auto& expert = moved[r].expert;
    if (together) expert = x[row].expert;
    for (int32_t& e : expert) {
      while (!together && (e == x[row].expert[0] || e == x[row].expert[1])) e = (e + 1) % kExperts;
    }
  }
  return layer.run(moved);
}

TEST_P(RoutedRows, IgnoreHowLargeOthersAreAndWhereTheyGo) {
  for (const OpTable* table : cpu_tables()) {
    RoutedLayer layer(GetParam(), *table);
    const auto x = tokens(layer, 65);
    const Matrix y = layer.run(x);
    for (const size_t r : some_rows(*table, x.size())) {
      const std::string what = fmt::format("{} row {}", table->name, r);
      ASSERT_TRUE(same_bits(among_loud(layer, x, r)[r], y[r])) << what << " among larger ones";
      for (const bool together : {false, true})
        ASSERT_TRUE(same_bits(among_moved(layer, x, r, together)[r], y[r])) << what << " others moved";
    }
  }
}

/// The check above can fail: an activation scale of the whole tensor ties rows together.
TEST(RoutedRowsOfATensor, AreTiedTogether) {
  RoutedLayer layer("nvfp4_per_tensor", fast_table(), 1, {Policy::Kind::fastest, {}});
  const auto x = tokens(layer, 65);
  const Matrix y = layer.run(x);
  int loud = 0, alone = 0;
  for (const size_t r : some_rows(fast_table(), x.size())) {
    loud += same_bits(among_loud(layer, x, r)[r], y[r]) ? 0 : 1;
    alone += same_bits(layer.run({x[r]})[0], y[r]) ? 0 : 1;
  }
  EXPECT_EQ(loud, 13);
  EXPECT_GT(alone, 5);
}

/// All tokens at one expert, at the same two, at three; the others have no rows.
TEST_P(RoutedRows, AreTheSameOnEveryBackendWithAnyThreadsAndLoad) {
  for (const int64_t used : {int64_t{1}, int64_t{2}, int64_t{3}, kExperts}) {
    RoutedLayer specification(GetParam(), ref::table());
    const auto x = tokens(specification, 61, used);
    const Matrix expected = specification.run(x);
    for (const OpTable* table : cpu_tables()) {
      for (const int threads : {1, 2, 3}) {
        if (table == &ref::table()) continue;  // sequential, and what the others are compared with
        RoutedLayer layer(GetParam(), *table, threads);
        for (int repeat = 0; repeat < 5; ++repeat) {
          const Matrix y = layer.run(x);
          for (size_t r = 0; r < x.size(); ++r) {
            ASSERT_TRUE(same_bits(y[r], expected[r]))
                << table->name << " " << threads << " threads, " << used << " experts, row " << r;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace minite::invariance
