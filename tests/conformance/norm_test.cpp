// RMSNorm and LayerNorm and their gradients.
#include "conformance/conformance.h"
#include "support/norms.h"

namespace minite::conformance {
namespace {

using Norm = Level;
MINITE_LEVELS(Norm);

struct Shape {
  int64_t rows, groups, cols;
};
constexpr std::array<Shape, 7> kShapes = {
    {{1, 1, 1}, {5, 1, 15}, {33, 1, 64}, {70, 1, 1000}, {9, 4, 16}, {40, 3, 72}, {700, 2, 130}}};

using test_support::kNorms;
using test_support::NormCase;

void forward(Trial& trial, const NormCase& norm, DType dtype, const Shape& s, Fill fill, bool in_place) {
  NormArgs args;
  args.x = trial.space.input("x", dtype, s.rows, s.groups * s.cols, fill, 3);
  args.weight = trial.space.input("w", dtype, 1, s.cols);
  args.eps = 1e-6f;
  args.groups = s.groups;
  args.y = in_place ? args.x : trial.space.output("y", dtype, s.rows, s.groups * s.cols, 1);
  args.spec = norm.spec;
  const TensorView rstd = trial.space.output("rstd", DType::f32, s.rows, s.groups, 1);
  const TensorView mean = trial.space.output("mean", DType::f32, s.rows, s.groups, 2);
  if (!in_place) args.rstd = rstd;
  if (!in_place && norm.spec.kind == NormKind::layernorm) args.mean = mean;
  if (norm.bias) args.bias = trial.space.input("bias", dtype, 1, s.cols);
  trial.op.norm(args, trial.exec());
}

TEST_P(Norm, Forward) {
  for (const NormCase& norm : kNorms) {
    for (const DType dtype : kStorage) {
      for (const Shape& s : kShapes) {
        for (const Fill fill : {Fill::normal, Fill::wide, Fill::special, Fill::sparse}) {
          for (const bool in_place : {false, true}) {
            check(fmt::format("{} of {}x{}", norm.name, s.groups, s.cols),
                  [&](Trial& trial) { forward(trial, norm, dtype, s, fill, in_place); });
          }
        }
      }
    }
  }
}

/// Where dx goes and whether a residual is added.
enum class Target { fresh, fresh_residual, dy, residual };

void backward(Trial& trial, const NormCase& norm, DType dtype, const Shape& s, Target target) {
  const int64_t cols = s.groups * s.cols;
  NormBackwardArgs args;
  args.dy = trial.space.input("dy", dtype, s.rows, cols, Fill::normal, 2);
  args.x = trial.space.input("x", dtype, s.rows, cols, Fill::normal, 3);
  args.weight = trial.space.input("w", dtype, 1, s.cols);
  args.rstd = trial.space.input("rstd", DType::f32, s.rows, s.groups, Fill::positive, 1);
  args.groups = s.groups;
  args.spec = norm.spec;
  const TensorView residual = trial.space.input("residual", dtype, s.rows, cols, Fill::finite);
  if (target == Target::fresh_residual || target == Target::residual) args.residual = residual;
  args.dx = target == Target::dy         ? args.dy
            : target == Target::residual ? residual
                                         : trial.space.output("dx", dtype, s.rows, cols, 1);
  args.dweight = trial.space.input("dw", DType::f32, 1, s.cols);
  if (norm.spec.kind == NormKind::layernorm) {
    args.mean = trial.space.input("mean", DType::f32, s.rows, s.groups, Fill::normal, 2);
  }
  if (norm.bias) args.dbias = trial.space.input("dbias", DType::f32, 1, s.cols);
  trial.op.norm_backward(args, trial.exec());
}

TEST_P(Norm, Backward) {
  for (const NormCase& norm : kNorms) {
    for (const DType dtype : kStorage) {
      for (const Shape& s : kShapes) {
        for (const Target target : {Target::fresh, Target::fresh_residual, Target::dy, Target::residual}) {
          check(fmt::format("gradient of {} of {}x{}", norm.name, s.groups, s.cols),
                [&](Trial& trial) { backward(trial, norm, dtype, s, target); });
        }
      }
    }
  }
}

}  // namespace
}  // namespace minite::conformance
