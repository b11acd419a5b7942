// Log-probabilities, entropy, their gradient, and choosing tokens.
#include <limits>

#include "conformance/conformance.h"

namespace minite::conformance {
namespace {

using Logprob = Level;
MINITE_LEVELS(Logprob);

constexpr std::array<int64_t, 7> kVocabs = {1, 7, 64, 1000, 1024, 1025, 5003};

std::span<int32_t> targets(Trial& trial, int64_t rows, int64_t vocab) {
  std::vector<int32_t> target;
  for (int64_t i = 0; i < rows; ++i) target.push_back(static_cast<int32_t>(trial.space.below(vocab)));
  return trial.space.ints("target", target);
}

/// Logits with a part masked to -inf; the first `head` columns are all masked, so that a tile can be.
TensorView logits(Trial& trial, int64_t rows, int64_t vocab, Fill fill, int64_t head = 0) {
  const TensorView x = trial.space.input("logits", DType::f32, rows, vocab, fill, 3);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < vocab; ++j) {
      const bool masked = (head > 0 && trial.space.below(5) == 0) || j < head;
      x.row<float>(r)[j] = masked ? -std::numeric_limits<float>::infinity() : 8 * x.row<float>(r)[j];
    }
  }
  return x;
}

TEST_P(Logprob, Forward) {
  for (const int64_t vocab : kVocabs) {
    for (const Fill fill : {Fill::normal, Fill::special, Fill::sparse, Fill::wide}) {
      for (const int64_t head : {int64_t{0}, vocab / 2, vocab}) {
        for (const float temperature : {1.0f, 0.7f}) {
          check(fmt::format("logprob of {}", vocab), [&](Trial& trial) {
            LogprobArgs args;
            args.logits = logits(trial, 9, vocab, fill, head);
            args.target = targets(trial, 9, vocab);
            args.temperature = temperature;
            args.logp = trial.space.output("logp", DType::f32, 1, 9);
            if (head > 0) args.entropy = trial.space.output("entropy", DType::f32, 1, 9);
            if (temperature == 1.0f) args.lse = trial.space.output("lse", DType::f32, 1, 9);
            trial.op.logprob(args, trial.exec());
          });
        }
      }
    }
  }
}

TEST_P(Logprob, Backward) {
  for (const DType dtype : kStorage) {
    for (const int64_t vocab : kVocabs) {
      for (const bool entropy : {false, true}) {
        check(fmt::format("logprob_backward of {}", vocab), [&](Trial& trial) {
          LogprobBackwardArgs args;
          args.logits = logits(trial, 9, vocab, Fill::normal, vocab / 2);
          args.target = targets(trial, 9, vocab);
          args.temperature = entropy ? 0.8f : 1.0f;
          args.lse = trial.space.input("lse", DType::f32, 1, 9);
          args.dlogp = trial.space.input("dlogp", DType::f32, 1, 9);
          args.entropy = trial.space.input("entropy", DType::f32, 1, 9);
          if (entropy) args.dentropy = trial.space.input("dentropy", DType::f32, 1, 9);
          args.dlogits = trial.space.output("dlogits", dtype, 9, vocab, 2);
          trial.op.logprob_backward(args, trial.exec());
        });
      }
    }
  }
}

struct Filter {
  float temperature;
  int64_t top_k;
  float top_p;
};

TEST_P(Logprob, Choose) {
  const std::array<Filter, 8> filters = {{{1.0f, 0, 1.0f},
                                          {0.6f, 0, 1.0f},
                                          {0.0f, 0, 1.0f},
                                          {1.0f, 1, 1.0f},
                                          {1.3f, 5, 1.0f},
                                          {1.0f, 0, 0.9f},
                                          {0.9f, 40, 0.5f},
                                          {1.0f, 100000, 1.0f}}};
  for (const int64_t vocab : {1, 3, 63, 64, 65, 130, 1000}) {
    for (const Filter& filter : filters) {
      for (const Fill fill : {Fill::normal, Fill::sparse, Fill::finite}) {
        for (const int64_t head : {int64_t{0}, vocab / 2, vocab}) {
          // Ranking needs an order, so a filtered row has finite logits or -inf.
          check(fmt::format("choose of {}", vocab), [&](Trial& trial) {
            ChooseArgs args;
            args.logits = logits(trial, 25, vocab, fill, head);
            args.temperature = filter.temperature;
            args.top_k = filter.top_k;
            args.top_p = filter.top_p;
            args.seed = 0x123456789ABCDEFu;
            std::vector<uint64_t> request;
            std::vector<int32_t> pos;
            for (int i = 0; i < 25; ++i) {
              request.push_back(trial.space.next());
              pos.push_back(static_cast<int32_t>(trial.space.below(1 << 30)));
            }
            args.request = trial.space.words("request", request);
            args.pos = trial.space.ints("pos", pos);
            args.token = trial.space.ints("token", std::vector<int32_t>(25, -1));
            trial.op.choose(args, trial.exec(4 * vocab * trial.pool.threads()));
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace minite::conformance
