// Rope, the key/value store, attention and its gradient.
#include "conformance/conformance.h"

namespace minite::conformance {
namespace {

using Attention = Level;
MINITE_LEVELS(Attention);

/// Rows of one sequence: positions [begin, begin + count).
struct Piece {
  int32_t begin, count;
};
struct Heads {
  int64_t heads, kv_heads, dim;
};
/// How a case's store keeps keys and values.
struct Stored {
  KvFormat format = KvFormat::bf16;
  KvScale scale{};
};
const std::vector<Stored> kStored = {
    {}, {KvFormat::fp8, {}}, {KvFormat::fp8, {0.37f, 2.9e-2f}}, {KvFormat::fp8, {0x1p-7f, 3.0f}}};

/// A packed batch with its store: positions below each piece's end are filled, the rest is poison.
struct Batch {
  std::span<int32_t> seq, pos;
  KvStore kv;

  Batch(Trial& trial, DType dtype, const Heads& h, const std::vector<Piece>& pieces, Fill fill,
        const Stored& stored) {
    std::vector<int32_t> seqs, positions;
    std::vector<int64_t> first;
    int64_t blocks = 1;  // a block that nobody owns
    for (size_t s = 0; s < pieces.size(); ++s) {
      const int32_t keys = pieces[s].begin + pieces[s].count;
      // Slots in another order than rows.
      seqs.insert(seqs.end(), static_cast<size_t>(pieces[s].count),
                  static_cast<int32_t>(pieces.size() - 1 - s));
      for (int32_t p = pieces[s].begin; p < keys; ++p) positions.push_back(p);
      first.insert(first.begin(), blocks);
      blocks += (keys + kKeyBlock - 1) / kKeyBlock;
    }
    seq = trial.space.ints("seq", seqs);
    pos = trial.space.ints("pos", positions);
    first_blocks = first;
    kv = {nullptr, dtype, h.kv_heads, h.dim, first_blocks, stored.format, stored.scale};
    const DType element = kv_format(stored.format).scaled ? DType::u8 : dtype;
    kv.data = trial.space.output("kv", element, blocks, kv.block_elements()).data;
    for (size_t s = 0; s < pieces.size(); ++s) {
      fill_sequence(trial, static_cast<int32_t>(pieces.size() - 1 - s), pieces[s].begin + pieces[s].count,
                    fill);
    }
  }

 private:
  void fill_sequence(Trial& trial, int32_t slot, int32_t keys, Fill fill) {
    const int64_t cols = kv.kv_heads * kv.head_dim;
    const TensorView k = trial.space.input("k", kv.dtype, keys, cols, fill);
    const TensorView v = trial.space.input("v", kv.dtype, keys, cols, fill);
    std::vector<int32_t> slots(static_cast<size_t>(keys), slot), positions;
    for (int32_t p = 0; p < keys; ++p) positions.push_back(p);
    trial.op.kv_write({k, v, slots, positions, kv}, trial.exec());
  }
  std::vector<int64_t> first_blocks;
};

int64_t rows_of(const std::vector<Piece>& pieces) {
  int64_t rows = 0;
  for (const Piece& p : pieces) rows += p.count;
  return rows;
}

void forward(Trial& trial, DType dtype, const Heads& h, const std::vector<Piece>& pieces, Fill fill,
             const Stored& stored, bool with_lse) {
  const Batch batch(trial, dtype, h, pieces, fill, stored);
  const int64_t rows = rows_of(pieces), cols = h.heads * h.dim;
  const TensorView q = trial.space.input("q", dtype, rows, cols, fill, 5);
  const TensorView o = trial.space.output("o", dtype, rows, cols, 3);
  const TensorView lse = trial.space.output("lse", DType::f32, rows, h.heads);
  trial.op.attention({q, batch.seq, batch.pos, batch.kv, h.heads, o, with_lse ? lse : TensorView{}},
                     trial.exec(trial.op.attention_scratch(512, h.dim, trial.pool.threads())));
}

void backward(Trial& trial, DType dtype, const Heads& h, const std::vector<Piece>& pieces, Fill fill,
              const Stored& stored) {
  const Batch batch(trial, dtype, h, pieces, fill, stored);
  const int64_t rows = rows_of(pieces), cols = h.heads * h.dim, kv_cols = h.kv_heads * h.dim;
  const TensorView q = trial.space.input("q", dtype, rows, cols, fill, 5);
  const TensorView o = trial.space.output("o", dtype, rows, cols);
  const TensorView lse = trial.space.output("lse", DType::f32, rows, h.heads);
  const TensorView dout = trial.space.input("dout", dtype, rows, cols, fill, 1);
  const TensorView dq = trial.space.output("dq", dtype, rows, cols, 7);
  const TensorView dk = trial.space.output("dk", dtype, rows, kv_cols);
  const TensorView dv = trial.space.output("dv", dtype, rows, kv_cols, 2);
  trial.op.attention({q, batch.seq, batch.pos, batch.kv, h.heads, o, lse}, trial.exec());
  trial.op.attention_backward({dout, q, o, lse, batch.seq, batch.pos, batch.kv, h.heads, dq, dk, dv},
                              trial.exec(trial.op.attention_scratch(200, h.dim, trial.pool.threads())));
}

// Head sizes of models, then sizes that are no whole number of vectors, few and many query heads a KV head.
const std::vector<Heads> kHeads = {{4, 2, 64}, {2, 1, 128}, {3, 3, 16},  {1, 1, 256},
                                   {3, 1, 72}, {6, 2, 10},  {20, 1, 32}, {4, 2, 2}};

std::string name(DType dtype, const Heads& h, const Stored& stored) {
  return fmt::format("{} {}/{} heads of {}, KV {} ({}, {})", dtype_name(dtype), h.heads, h.kv_heads, h.dim,
                     kv_format(stored.format).name, stored.scale.k, stored.scale.v);
}
/// body(stored) for each way to store.
template <class Body>
void for_stored(const Body& body) {
  for (const Stored& stored : kStored) body(stored);
}

TEST_P(Attention, Forward) {
  // Prefill, decode, and chunks that begin and end inside and at key blocks.
  const std::vector<std::vector<Piece>> batches = {{{0, 1}},
                                                   {{0, 70}, {0, 3}},
                                                   {{5, 1}, {63, 1}, {64, 1}, {200, 1}, {0, 1}},
                                                   {{60, 9}, {128, 20}, {31, 33}}};
  for (const DType dtype : kStorage) {
    for (const Heads& h : kHeads) {
      for (const auto& pieces : batches) {
        for_stored([&](const Stored& stored) {
          check(name(dtype, h, stored), [&](Trial& trial) {
            forward(trial, dtype, h, pieces, Fill::normal, stored, pieces.size() != 2);
          });
        });
      }
    }
  }
}

TEST_P(Attention, ForwardOfSpecialValues) {
  for (const Fill fill : {Fill::special, Fill::finite, Fill::wide, Fill::sparse, Fill::ties}) {
    for_stored([&](const Stored& stored) {
      check("special", [&](Trial& trial) {
        forward(trial, DType::bf16, {4, 2, 24}, {{0, 40}, {100, 4}}, fill, stored, true);
      });
      check("special", [&](Trial& trial) {
        forward(trial, DType::f32, {2, 2, 16}, {{0, 80}}, fill, stored, true);
      });
    });
  }
}

TEST_P(Attention, Backward) {
  for (const DType dtype : kStorage) {
    for (const Heads& h : kHeads) {
      for_stored([&](const Stored& stored) {
        check(name(dtype, h, stored), [&](Trial& trial) {
          backward(trial, dtype, h, {{0, 1}, {0, 70}, {0, 5}, {0, 64}}, Fill::normal, stored);
        });
      });
    }
    check("long", [&](Trial& trial) {
      backward(trial, dtype, {4, 2, 16}, {{0, 200}, {0, 130}, {0, 1}}, Fill::normal, {});
    });
  }
}

TEST_P(Attention, BackwardOfSpecialValues) {
  for (const Fill fill : {Fill::special, Fill::finite, Fill::sparse}) {
    for_stored([&](const Stored& stored) {
      check("special", [&](Trial& trial) {
        backward(trial, DType::bf16, {4, 2, 24}, {{0, 40}, {0, 80}}, fill, stored);
      });
    });
  }
}

TEST_P(Attention, Rope) {
  for (const DType dtype : kStorage) {
    for (const int64_t dim : {2, 10, 32, 64, 72, 128}) {
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        check(fmt::format("rope of {}", dim), [&](Trial& trial) {
          const TensorView x = trial.space.input("x", dtype, 37, 3 * dim, Fill::normal, 4);
          const TensorView table = trial.space.input("table", DType::f32, 50, dim, Fill::normal);
          std::vector<int32_t> pos;
          for (int i = 0; i < 37; ++i) pos.push_back(static_cast<int32_t>(trial.space.below(50)));
          const auto positions = trial.space.ints("pos", pos);
          trial.op.rope({x, table, positions, 3, direction}, trial.exec());
        });
      }
    }
  }
}

}  // namespace
}  // namespace minite::conformance
