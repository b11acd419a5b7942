#pragma once
// Network::forward by hand: packed rows in, hidden states and log-probs of given targets out.
#include "support/tiny_model.h"

namespace minite::test_support {

/// Memory of one network with its own key/value cache: `slots` sequences of up to `max_length` positions.
class PackedRun {
 public:
  PackedRun(const Network& network, const OpTable& table, ThreadPool& pool, int64_t slots, int64_t max_length)
      : network_(network) {
    const int64_t blocks = (max_length + kKeyBlock - 1) / kKeyBlock;
    cache_ = Buffer(network.kv_bytes(slots * blocks));
    for (int64_t s = 0; s < slots; ++s) first_block_.push_back(s * blocks);
    kv_ = network.kv_set(cache_.data(), slots * blocks, first_block_);
    const int64_t rows = slots * max_length;
    Arena measure;
    (void)network.place(measure, rows, rows, Keep::for_backward);
    arena_ = Buffer(measure.peak());
    scratch_ = Buffer(network.scratch(rows, max_length, pool.threads()));
    context_ = {&table, &pool, nullptr, {scratch_.data(), static_cast<size_t>(scratch_.size())}};
  }

  /// Fills cache, activations and scratch with bytes that read as NaN.
  void poison() {
    for (const Buffer* b : {&cache_, &arena_, &scratch_}) test_support::poison(*b);
  }

  struct Result {
    std::vector<std::byte> hidden;     ///< [T,D]
    std::vector<float> logp, entropy;  ///< of `target`, one a row
    friend bool operator==(const Result& a, const Result& b) {
      return a.hidden == b.hidden && same_bits(a.logp, b.logp) && same_bits(a.entropy, b.entropy);
    }
  };

  Result run(const Rows& rows, std::span<const int32_t> target) {
    const int64_t n = rows.size();
    Arena arena(arena_);
    Activations act = network_.place(arena, n, n, Keep::nothing);
    const TensorView hidden = network_.forward(context_, rows, kv_, act);
    Result result{bytes_of(hidden), std::vector<float>(static_cast<size_t>(n)),
                  std::vector<float>(static_cast<size_t>(n))};
    std::vector<int32_t> all(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) all[static_cast<size_t>(i)] = static_cast<int32_t>(i);
    network_.gather(context_, hidden, all, act);
    for (int64_t begin = 0; begin < n; begin += Network::kLogitRows) {
      const int64_t count = std::min(Network::kLogitRows, n - begin);
      const TensorView logits = network_.logits(context_, act, begin, count);
      ops::logprob(context_, {logits,
                              target.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)),
                              1.0f,
                              {result.logp.data() + begin, 1, count},
                              {result.entropy.data() + begin, 1, count},
                              {}});
    }
    return result;
  }

  [[nodiscard]] const KvSet& kv() const { return kv_; }
  [[nodiscard]] std::vector<std::byte> cache_bytes() const {
    return {cache_.data(), cache_.data() + cache_.size()};
  }

 private:
  const Network& network_;
  Buffer cache_, arena_, scratch_;
  std::vector<int64_t> first_block_;
  KvSet kv_;
  Context context_;
};

/// Rows of a batch that is put together sequence by sequence.
struct PackedRows {
  std::vector<int32_t> token, seq, pos, target;

  /// Positions [begin, end) of `tokens` in slot `slot`; the target of a position is the token after it.
  PackedRows& add(const std::vector<int32_t>& tokens, int32_t slot, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      token.push_back(tokens[static_cast<size_t>(p)]);
      seq.push_back(slot);
      pos.push_back(static_cast<int32_t>(p));
      target.push_back(tokens[static_cast<size_t>(p) + 1]);
    }
    return *this;
  }
  [[nodiscard]] Rows rows() const { return {token, seq, pos}; }
};

}  // namespace minite::test_support
