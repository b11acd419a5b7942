// Backward ops against central differences of their forward ops, element by element, in FP64.
#include "formats/codecs.h"
#include "gradcheck/differences.h"
#include "model/rope.h"
#include "support/norms.h"

namespace minite::gradcheck {
namespace {

void check_norm(const test_support::NormCase& norm, bool with_residual) {
  Reference ref;
  constexpr int64_t kRows = 3, kGroups = 2, kDim = 19;
  const bool layernorm = norm.spec.kind == NormKind::layernorm;
  Matrix x = Matrix::random(kRows, kGroups * kDim, 1), w = Matrix::random(1, kDim, 2),
         c = Matrix::random(kRows, kGroups * kDim, 3), b = Matrix::random(1, kDim, 27);
  Matrix residual = Matrix::random(kRows, kGroups * kDim, 4);
  Matrix y(kRows, kGroups * kDim), rstd(kRows, kGroups), mean(kRows, kGroups), dx(kRows, kGroups * kDim);
  Matrix dw(1, kDim), db(1, kDim);
  const TensorView means = layernorm ? mean.view() : TensorView{};
  // The residual's own loss is <residual, x>: dx includes it.
  const Loss loss = [&] {
    ops::norm(ref.context(), {x.view(), w.view(), 1e-2f, kGroups, y.view(), rstd.view(), norm.spec,
                              norm.bias ? b.view() : TensorView{}, means});
    return y.dot(c) + (with_residual ? x.dot(residual) : 0.0);
  };
  (void)loss();
  for (Matrix* m : {&dw, &db}) std::fill(m->data.begin(), m->data.end(), 0.5);  // gradients accumulate
  ops::norm_backward(ref.context(), {c.view(), x.view(), w.view(), rstd.view(), kGroups,
                                     with_residual ? residual.view() : TensorView{}, dx.view(), dw.view(),
                                     norm.spec, means, norm.bias ? db.view() : TensorView{}});
  for (Matrix* m : {&dw, &db}) {
    for (double& e : m->data) e -= 0.5;
  }
  const std::string name(norm.name);
  check_elements(name + " dx", x.data, dx.data, loss);
  check_elements(name + " dweight", w.data, dw.data, loss);
  if (norm.bias) check_elements(name + " dbias", b.data, db.data, loss);
}

TEST(Ops, Norms) {
  for (const test_support::NormCase& norm : test_support::kNorms) {
    for (const bool with_residual : {false, true}) check_norm(norm, with_residual);
  }
}

/// The norms by their textbook formulas; the mean is large, so that a variance by E[x^2] - E[x]^2 would show.
TEST(Ops, NormsAreTheirFormulas) {
  Reference ref;
  constexpr int64_t kDim = 37;
  constexpr double kEps = 0x1p-7;
  Matrix x = Matrix::random(1, kDim, 71), w = Matrix::random(1, kDim, 72), b = Matrix::random(1, kDim, 73);
  for (double& e : x.data) e += 1e6;
  double mean = 0, variance = 0, square = 0;
  for (const double e : x.data) mean += e / kDim;
  for (const double e : x.data) variance += (e - mean) * (e - mean) / kDim, square += e * e / kDim;
  Matrix y(1, kDim), means(1, 1);
  for (const test_support::NormCase& norm : test_support::kNorms) {
    const bool layernorm = norm.spec.kind == NormKind::layernorm;
    ops::norm(ref.context(), {x.view(),
                              w.view(),
                              static_cast<float>(kEps),
                              1,
                              y.view(),
                              {},
                              norm.spec,
                              norm.bias ? b.view() : TensorView{},
                              layernorm ? means.view() : TensorView{}});
    for (size_t i = 0; i < kDim; ++i) {
      const double weight = w.data[i] + (norm.spec.gamma == Gamma::zero_centered ? 1.0 : 0.0);
      const double centred =
          layernorm ? (x.data[i] - mean) / std::sqrt(variance + kEps) : x.data[i] / std::sqrt(square + kEps);
      EXPECT_NEAR(y.data[i], centred * weight + (norm.bias ? b.data[i] : 0.0), 1e-8) << norm.name;
    }
    if (layernorm) {
      EXPECT_NEAR(means.data[0], mean, 1e-8);
    }
  }
}

TEST(Ops, Rope) {
  Reference ref;
  constexpr int64_t kHeads = 3, kDim = 10;
  std::vector<float> angles(20 * kDim);
  const TensorView table(angles.data(), 20, kDim);
  fill_rope_table(table, 100.0);
  const std::vector<int32_t> pos = {0, 7, 19};
  Matrix x = Matrix::random(3, kHeads * kDim, 5), c = Matrix::random(3, kHeads * kDim, 6),
         y(3, kHeads * kDim);
  const Loss loss = [&] {
    y = x;
    ops::rope(ref.context(), {y.view(), table, pos, kHeads, Direction::forward});
    return y.dot(c);
  };
  Matrix dx = c;
  ops::rope(ref.context(), {dx.view(), table, pos, kHeads, Direction::backward});
  check_elements("dx", x.data, dx.data, loss);
}

TEST(Ops, Swiglu) {
  Reference ref;
  Matrix x = Matrix::random(4, 2 * 9, 7, 4.0), c = Matrix::random(4, 9, 8), y(4, 9), dx(4, 2 * 9);
  const Loss loss = [&] {
    ops::swiglu(ref.context(), {x.view(), y.view()});
    return y.dot(c);
  };
  ops::swiglu_backward(ref.context(), {c.view(), x.view(), dx.view()});
  check_elements("dx", x.data, dx.data, loss);
}

TEST(Ops, Embedding) {
  Reference ref;
  const std::vector<int32_t> token = {2, 0, 2, 4, 2};
  Matrix table = Matrix::random(6, 7, 9), c = Matrix::random(5, 7, 10), y(5, 7), dtable(6, 7);
  const Loss loss = [&] {
    ops::embedding(ref.context(), {token, table.view(), y.view()});
    return y.dot(c);
  };
  ops::embedding_backward(ref.context(), {token, c.view(), dtable.view()});
  check_elements("dtable", table.data, dtable.data, loss);
}

TEST(Ops, LogprobAndEntropy) {
  Reference ref;
  constexpr int64_t kRows = 3, kVocab = 1030;  // crosses a tile of 1024
  const std::vector<int32_t> target = {0, 1027, 511};
  for (const bool with_entropy : {false, true}) {
    Matrix x = Matrix::random(kRows, kVocab, 11, 6.0), c = Matrix::random(1, kRows, 12),
           e = Matrix::random(1, kRows, 13);
    Matrix logp(1, kRows), entropy(1, kRows), lse(1, kRows), dx(kRows, kVocab);
    const Loss loss = [&] {
      ops::logprob(ref.context(), {x.view(), target, 0.7f, logp.view(), entropy.view(), lse.view()});
      return logp.dot(c) + (with_entropy ? entropy.dot(e) : 0.0);
    };
    (void)loss();
    ops::logprob_backward(ref.context(), {x.view(), target, 0.7f, lse.view(), entropy.view(), c.view(),
                                          with_entropy ? e.view() : TensorView{}, dx.view()});
    check_elements("dlogits", x.data, dx.data, loss, 1e-8, with_entropy ? 1 : 3);
  }
}

/// Packed sequences of 3, 70 (two key blocks) and 1 rows; 6 heads share 2 key/value heads.
TEST(Ops, Attention) {
  Reference ref;
  constexpr int64_t kHeads = 6, kKv = 2, kDim = 5;
  const std::vector<int64_t> lengths = {3, 70, 1}, first_block = {0, 1, 3};
  std::vector<int32_t> seq, pos;
  for (size_t s = 0; s < lengths.size(); ++s) {
    for (int32_t p = 0; p < lengths[s]; ++p) seq.push_back(static_cast<int32_t>(s)), pos.push_back(p);
  }
  const auto rows = static_cast<int64_t>(seq.size());
  Matrix q = Matrix::random(rows, kHeads * kDim, 14, 2.0), k = Matrix::random(rows, kKv * kDim, 15, 2.0);
  Matrix v = Matrix::random(rows, kKv * kDim, 16), c = Matrix::random(rows, kHeads * kDim, 17);
  Matrix o(rows, kHeads * kDim), lse(rows, kHeads), dq(rows, kHeads * kDim), dk(rows, kKv * kDim),
      dv(rows, kKv * kDim);
  KvStore kv{nullptr, DType::f64, kKv, kDim, first_block};
  std::vector<double> store(static_cast<size_t>(4 * kv.block_elements()));
  kv.data = store.data();
  const Loss loss = [&] {
    ops::kv_write(ref.context(), {k.view(), v.view(), seq, pos, kv});
    ops::attention(ref.context(), {q.view(), seq, pos, kv, kHeads, o.view(), lse.view()});
    return o.dot(c);
  };
  (void)loss();
  ops::attention_backward(ref.context(), {c.view(), q.view(), o.view(), lse.view(), seq, pos, kv, kHeads,
                                          dq.view(), dk.view(), dv.view()});
  check_elements("dq", q.data, dq.data, loss, 1e-8, 41);
  check_elements("dk", k.data, dk.data, loss, 1e-8, 17);
  check_elements("dv", v.data, dv.data, loss, 1e-8, 17);
  check_direction("dq", q.data, dq.data, loss, 18);
  check_direction("dk", k.data, dk.data, loss, 19);
  check_direction("dv", v.data, dv.data, loss, 20);
}

/// Keys and values as codes: the gradients are those of the rounded keys and values, which a store without
/// codes holds here, and queries see the codes.
TEST(Ops, AttentionOfFp8KeysIsStraightThrough) {
  Reference ref;
  constexpr int64_t kHeads = 4, kKv = 2, kDim = 6, kRows = 70;
  constexpr KvScale kScale{0.03f, 0.017f};
  const std::vector<int64_t> first_block = {0};
  const std::vector<int32_t> seq(kRows, 0);
  std::vector<int32_t> pos;
  for (int32_t p = 0; p < kRows; ++p) pos.push_back(p);
  Matrix q = Matrix::random(kRows, kHeads * kDim, 21, 2.0), c = Matrix::random(kRows, kHeads * kDim, 24);
  Matrix k = Matrix::random(kRows, kKv * kDim, 22, 2.0), v = Matrix::random(kRows, kKv * kDim, 23);
  Matrix o(kRows, kHeads * kDim), lse(kRows, kHeads), dq(kRows, kHeads * kDim);
  Matrix dk(kRows, kKv * kDim), dv(kRows, kKv * kDim);
  KvStore codes{nullptr, DType::f64, kKv, kDim, first_block, KvFormat::fp8, kScale};
  std::vector<uint8_t> code_memory(static_cast<size_t>(2 * codes.block_elements()));
  codes.data = code_memory.data();
  ops::kv_write(ref.context(), {k.view(), v.view(), seq, pos, codes});
  const auto attend = [&](const KvStore& kv) {
    ops::attention(ref.context(), {q.view(), seq, pos, kv, kHeads, o.view(), lse.view()});
    return o.dot(c);
  };
  (void)attend(codes);
  ops::attention_backward(ref.context(), {c.view(), q.view(), o.view(), lse.view(), seq, pos, codes, kHeads,
                                          dq.view(), dk.view(), dv.view()});
  check_elements(
      "dq", q.data, dq.data, [&] { return attend(codes); }, 1e-8, 41);

  const auto round = [](Matrix& x, float scale) {
    for (double& e : x.data) {
      const auto code = E4M3::encode(static_cast<float>(e / static_cast<double>(scale)));
      e = static_cast<double>(E4M3::decode(code)) * static_cast<double>(scale);
    }
  };
  round(k, kScale.k);
  round(v, kScale.v);
  KvStore plain{nullptr, DType::f64, kKv, kDim, first_block};
  std::vector<double> memory(static_cast<size_t>(2 * plain.block_elements()));
  plain.data = memory.data();
  const Loss loss = [&] {
    ops::kv_write(ref.context(), {k.view(), v.view(), seq, pos, plain});
    return attend(plain);
  };
  EXPECT_NEAR(loss(), attend(codes), 1e-12);
  check_elements("dk", k.data, dk.data, loss, 1e-8, 17);
  check_elements("dv", v.data, dv.data, loss, 1e-8, 17);
  check_direction("dk", k.data, dk.data, loss, 25);
  check_direction("dv", v.data, dv.data, loss, 26);
}

}  // namespace
}  // namespace minite::gradcheck
