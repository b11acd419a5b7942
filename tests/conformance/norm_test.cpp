// RMSNorm and its gradient.
#include "conformance/conformance.h"

namespace minite::conformance {
namespace {

using Norm = Level;
MINITE_LEVELS(Norm);

struct Shape {
  int64_t rows, groups, cols;
};
constexpr std::array<Shape, 7> kShapes = {
    {{1, 1, 1}, {5, 1, 15}, {33, 1, 64}, {70, 1, 1000}, {9, 4, 16}, {40, 3, 72}, {700, 2, 130}}};

TEST_P(Norm, Forward) {
  for (const DType dtype : kStorage) {
    for (const Shape& s : kShapes) {
      for (const Fill fill : {Fill::normal, Fill::wide, Fill::special, Fill::sparse}) {
        for (const bool in_place : {false, true}) {
          check(fmt::format("rmsnorm of {}x{}", s.groups, s.cols), [&](Trial& trial) {
            const TensorView x = trial.space.input("x", dtype, s.rows, s.groups * s.cols, fill, 3);
            const TensorView w = trial.space.input("w", dtype, 1, s.cols);
            const TensorView y = in_place ? x : trial.space.output("y", dtype, s.rows, s.groups * s.cols, 1);
            const TensorView rstd = trial.space.output("rstd", DType::f32, s.rows, s.groups, 1);
            trial.op.rmsnorm({x, w, 1e-6f, s.groups, y, in_place ? TensorView{} : rstd}, trial.exec());
          });
        }
      }
    }
  }
}

/// Where dx goes and whether a residual is added.
enum class Target { fresh, fresh_residual, dy, residual };

TEST_P(Norm, Backward) {
  for (const DType dtype : kStorage) {
    for (const Shape& s : kShapes) {
      for (const Target target : {Target::fresh, Target::fresh_residual, Target::dy, Target::residual}) {
        check(fmt::format("rmsnorm_backward of {}x{}", s.groups, s.cols), [&](Trial& trial) {
          const int64_t cols = s.groups * s.cols;
          RmsNormBackwardArgs args;
          args.dy = trial.space.input("dy", dtype, s.rows, cols, Fill::normal, 2);
          args.x = trial.space.input("x", dtype, s.rows, cols, Fill::normal, 3);
          args.weight = trial.space.input("w", dtype, 1, s.cols);
          args.rstd = trial.space.input("rstd", DType::f32, s.rows, s.groups, Fill::positive, 1);
          args.groups = s.groups;
          const TensorView residual = trial.space.input("residual", dtype, s.rows, cols, Fill::finite);
          if (target == Target::fresh_residual || target == Target::residual) args.residual = residual;
          args.dx = target == Target::dy         ? args.dy
                    : target == Target::residual ? residual
                                                 : trial.space.output("dx", dtype, s.rows, cols, 1);
          args.dweight = trial.space.input("dw", DType::f32, 1, s.cols);
          trial.op.rmsnorm_backward(args, trial.exec());
        });
      }
    }
  }
}

}  // namespace
}  // namespace minite::conformance
