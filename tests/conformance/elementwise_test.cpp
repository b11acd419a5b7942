// SwiGLU, addition, the gradient of a bias, embedding, the optimizer and sums of squares.
#include "conformance/conformance.h"

namespace minite::conformance {
namespace {

using Elementwise = Level;
MINITE_LEVELS(Elementwise);

constexpr std::array<int64_t, 6> kWidths = {1, 15, 16, 33, 64, 1000};
constexpr std::array<Fill, 4> kFills = {Fill::normal, Fill::wide, Fill::special, Fill::sparse};

/// body(dtype, columns, fill) over everything.
void sweep(const std::function<void(DType, int64_t, Fill)>& body) {
  for (const DType dtype : kStorage) {
    for (const int64_t cols : kWidths) {
      for (const Fill fill : kFills) body(dtype, cols, fill);
    }
  }
}

TEST_P(Elementwise, Swiglu) {
  sweep([&](DType dtype, int64_t f, Fill fill) {
    check(fmt::format("swiglu of {}", f), [&](Trial& trial) {
      const TensorView x = trial.space.input("x", dtype, 41, 2 * f, fill, 3);
      trial.op.swiglu({x, trial.space.output("y", dtype, 41, f, 1)}, trial.exec());
    });
  });
}

TEST_P(Elementwise, SwigluBackward) {
  sweep([&](DType dtype, int64_t f, Fill fill) {
    for (const bool in_place : {false, true}) {
      check(fmt::format("swiglu_backward of {}", f), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", dtype, 41, 2 * f, fill, 3);
        const TensorView dy = trial.space.input("dy", dtype, 41, f, fill, 2);
        const TensorView dx = in_place ? x : trial.space.output("dx", dtype, 41, 2 * f);
        trial.op.swiglu_backward({dy, x, dx}, trial.exec());
      });
    }
  });
}

TEST_P(Elementwise, Add) {
  sweep([&](DType dtype, int64_t cols, Fill fill) {
    for (const int place : {0, 1, 2}) {
      check(fmt::format("add of {}", cols), [&](Trial& trial) {
        const TensorView a = trial.space.input("a", dtype, 50, cols, fill, 3);
        const TensorView b = trial.space.input("b", dtype, 50, cols, fill);
        trial.op.add({a, b,
                      place == 0   ? trial.space.output("y", dtype, 50, cols, 1)
                      : place == 1 ? a
                                   : b},
                     trial.exec());
      });
    }
  });
}

TEST_P(Elementwise, BiasBackward) {
  sweep([&](DType dtype, int64_t cols, Fill fill) {
    for (const int64_t rows : {0, 1, 70, 600}) {
      check(fmt::format("bias_backward of {}x{}", rows, cols), [&](Trial& trial) {
        const TensorView dy = trial.space.input("dy", dtype, rows, cols, fill, 3);
        trial.op.bias_backward({dy, trial.space.input("dbias", DType::f32, 1, cols)}, trial.exec());
      });
    }
  });
}

std::vector<int32_t> tokens(Trial& trial, int64_t rows, int64_t vocab) {
  std::vector<int32_t> token;
  for (int64_t i = 0; i < rows; ++i) token.push_back(static_cast<int32_t>(trial.space.below(vocab)));
  return token;
}

TEST_P(Elementwise, Embedding) {
  sweep([&](DType dtype, int64_t cols, Fill fill) {
    check(fmt::format("embedding of {}", cols), [&](Trial& trial) {
      const TensorView table = trial.space.input("table", dtype, 20, cols, fill, 5);
      const auto token = trial.space.ints("token", tokens(trial, 70, 20));
      trial.op.embedding({token, table, trial.space.output("y", dtype, 70, cols, 2)}, trial.exec());
    });
  });
}

TEST_P(Elementwise, EmbeddingBackward) {
  sweep([&](DType dtype, int64_t cols, Fill fill) {
    check(fmt::format("embedding_backward of {}", cols), [&](Trial& trial) {
      const TensorView dy = trial.space.input("dy", dtype, 300, cols, fill, 5);
      const TensorView dtable = trial.space.input("dtable", DType::f32, 9, cols, Fill::normal, 2);
      const auto token = trial.space.ints("token", tokens(trial, 300, 9));
      trial.op.embedding_backward({token, dy, dtable}, trial.exec());
    });
  });
}

TEST_P(Elementwise, AdamW) {
  for (const DType dtype : kStorage) {
    for (const int64_t cols : {1, 17, 1000, 40000}) {
      for (const int64_t step : {1, 1000}) {
        check(fmt::format("adamw of {}", cols), [&](Trial& trial) {
          AdamWArgs args;
          args.master = trial.space.input("master", DType::f32, 2, cols);
          args.m = trial.space.input("m", DType::f32, 2, cols);
          args.v = trial.space.input("v", DType::f32, 2, cols, Fill::positive);
          args.grad = trial.space.input("grad", DType::f32, 2, cols, step == 1 ? Fill::normal : Fill::wide);
          args.weight = trial.space.output("weight", dtype, 2, cols);
          args.grad_scale = 0.37f;
          args.lr = 3e-4f;
          args.weight_decay = 0.1f;
          args.step = step;
          trial.op.adamw(args, trial.exec());
        });
      }
    }
  }
}

TEST_P(Elementwise, SumSquares) {
  // The last is more chunks than the vector backend holds at once.
  for (const int64_t size : {int64_t{1}, int64_t{15}, int64_t{4096}, int64_t{4097}, int64_t{100003},
                             int64_t{4096} * 1024 + 4100}) {
    for (const Fill fill : {Fill::normal, Fill::wide, Fill::finite}) {
      if (size > 1000000 && fill != Fill::normal) continue;
      check(fmt::format("sum_squares of {}", size), [&](Trial& trial) {
        trial.op.sum_squares({trial.space.input("x", DType::f32, 1, size, fill), trial.space.number("sum")},
                             trial.exec());
      });
    }
  }
}

}  // namespace
}  // namespace minite::conformance
