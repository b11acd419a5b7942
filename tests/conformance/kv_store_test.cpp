// The FP8 store against its definition, apart from any backend: the codes are the nearest E4M3 values of the
// quotient, and attention reads code times scale.
#include <bit>
#include <cmath>

#include "backends/ref/numeric.h"
#include "conformance/conformance.h"
#include "formats/codecs.h"
#include "support/tiny_model.h"

namespace minite::conformance {
namespace {

/// The nearest E4M3 byte by trying all; an even mantissa wins a tie.
uint8_t nearest_code(float x) {
  if (std::isnan(x)) return 0x7F;
  const double magnitude = std::min(std::abs(static_cast<double>(x)), 448.0);
  int best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    const auto distance = [&](int c) {
      return std::abs(magnitude - static_cast<double>(E4M3::decode(static_cast<uint8_t>(c))));
    };
    const double now = distance(code), least = distance(best);
    if (now < least || (now == least && code % 2 == 0)) best = code;
  }
  return static_cast<uint8_t>(best | (std::signbit(x) ? 0x80 : 0));
}

const std::vector<int64_t> kOneSequence = {1};  // block 0 belongs to nobody

/// A store of one sequence, of poison.
struct Store {
  KvStore kv;
  Store(Workspace& space, DType dtype, int64_t kv_heads, int64_t dim, int64_t keys, KvFormat format,
        KvScale scale)
      : kv{nullptr, dtype, kv_heads, dim, kOneSequence, format, scale} {
    const int64_t blocks = 1 + (keys + kKeyBlock - 1) / kKeyBlock;
    const DType element = kv_format(format).scaled ? DType::u8 : dtype;
    kv.data = space.output("kv", element, blocks, kv.block_elements()).data;
  }
};

struct Positions {
  std::vector<int32_t> seq, pos;
  explicit Positions(int64_t rows) : seq(static_cast<size_t>(rows), 0) {
    for (int64_t r = 0; r < rows; ++r) pos.push_back(static_cast<int32_t>(r));
  }
};

TEST(KvStore, CodesAreTheNearestOfTheQuotient) {
  constexpr int64_t kRows = 70, kHeads = 2, kDim = 24;
  constexpr KvScale kScale{0.0625f, 1.7f};
  for (const OpTable* table : test_support::cpu_tables()) {
    for (const DType dtype : kStorage) {
      for (const Fill fill : {Fill::special, Fill::ties, Fill::wide, Fill::normal}) {
        Workspace space(3);
        ThreadPool pool(2);
        const Store store(space, dtype, kHeads, kDim, kRows, KvFormat::fp8, kScale);
        const TensorView k = space.input("k", dtype, kRows, kHeads * kDim, fill);
        const TensorView v = space.input("v", dtype, kRows, kHeads * kDim, fill);
        const Positions rows(kRows);
        table->kv_write({k, v, rows.seq, rows.pos, store.kv}, {&pool, {}});
        const auto element = [&](const TensorView& x, int64_t r, int64_t c) {
          return dtype == DType::bf16 ? static_cast<float>(x.row<bf16>(r)[c]) : x.row<float>(r)[c];
        };
        for (int64_t r = 0; r < kRows; ++r) {
          const int64_t block = 1 + r / kKeyBlock, at = r % kKeyBlock;
          for (int64_t c = 0; c < kHeads * kDim; ++c) {
            const int64_t d = c % kDim;
            ASSERT_EQ(store.kv.k<uint8_t>(block, c / kDim)[d * kKeyBlock + at],
                      nearest_code(element(k, r, c) / kScale.k))
                << table->name << " k of " << element(k, r, c);
            ASSERT_EQ(store.kv.v<uint8_t>(block, c / kDim)[at * kDim + d],
                      nearest_code(element(v, r, c) / kScale.v))
                << table->name << " v of " << element(v, r, c);
          }
        }
      }
    }
  }
}

/// Outputs of attention and its gradient, as bytes.
std::vector<std::byte> attend(const OpTable& table, Workspace& space, const KvStore& kv,
                              const std::vector<int32_t>& seq, const std::vector<int32_t>& pos) {
  constexpr int64_t kHeads = 4;
  const auto rows = static_cast<int64_t>(seq.size());
  const int64_t cols = kHeads * kv.head_dim, kv_cols = kv.kv_heads * kv.head_dim;
  ThreadPool pool(2);
  Buffer scratch(table.attention_scratch(rows, kv.head_dim, 2));
  const Exec exec{&pool, {scratch.data(), static_cast<size_t>(scratch.size())}};
  const TensorView q = space.input("q", kv.dtype, rows, cols),
                   dout = space.input("dout", kv.dtype, rows, cols);
  const TensorView o = space.output("o", kv.dtype, rows, cols);
  const TensorView lse = space.output("lse", DType::f32, rows, kHeads);
  const TensorView dq = space.output("dq", kv.dtype, rows, cols);
  const TensorView dk = space.output("dk", kv.dtype, rows, kv_cols);
  const TensorView dv = space.output("dv", kv.dtype, rows, kv_cols);
  table.attention({q, seq, pos, kv, kHeads, o, lse}, exec);
  table.attention_backward({dout, q, o, lse, seq, pos, kv, kHeads, dq, dk, dv}, exec);
  std::vector<std::byte> all;
  for (const TensorView& t : {o, lse, dq, dk, dv}) {
    const auto bytes = test_support::bytes_of(t);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

/// code * 2^n is exact in BF16, and a power of two moves through every product: a store of codes gives the
/// bits of a store of the decoded values, forward and backward.
TEST(KvStore, AttentionReadsCodeTimesScale) {
  constexpr int64_t kRows = 100, kKvHeads = 2, kDim = 24;
  constexpr KvScale kScale{0x1p-5f, 0x1p-3f};
  for (const OpTable* table : test_support::cpu_tables()) {
    for (const DType dtype : kStorage) {
      const auto run = [&](bool decoded, KvScale scale) {
        Workspace space(5);
        ThreadPool pool(1);
        TensorView k = space.input("k", dtype, kRows, kKvHeads * kDim, Fill::normal);
        TensorView v = space.input("v", dtype, kRows, kKvHeads * kDim, Fill::normal);
        const Positions rows(kRows);
        const Store codes(space, dtype, kKvHeads, kDim, kRows, KvFormat::fp8, kScale);
        table->kv_write({k, v, rows.seq, rows.pos, codes.kv}, {&pool, {}});
        Store plain(space, dtype, kKvHeads, kDim, kRows, KvFormat::bf16, {});
        ref::with_type(dtype, [&](auto tag) {
          using T = decltype(tag);
          for (int64_t i = plain.kv.block_elements(); i < 3 * plain.kv.block_elements(); ++i) {
            const bool key = i % plain.kv.head_elements() < kKeyBlock * kDim;
            static_cast<T*>(plain.kv.data)[i] = static_cast<T>(
                E4M3::decode(static_cast<uint8_t*>(codes.kv.data)[i]) * (key ? kScale.k : kScale.v));
          }
        });
        KvStore read = decoded ? plain.kv : codes.kv;
        read.scale = decoded ? KvScale{} : scale;
        return attend(*table, space, read, rows.seq, rows.pos);
      };
      EXPECT_TRUE(run(true, kScale) == run(false, kScale)) << table->name << " " << dtype_name(dtype);
      // Each scale is read: without one the bits differ.
      EXPECT_FALSE(run(true, kScale) == run(false, {1.0f, kScale.v})) << table->name;
      EXPECT_FALSE(run(true, kScale) == run(false, {kScale.k, 1.0f})) << table->name;
    }
  }
}

}  // namespace
}  // namespace minite::conformance
