// quantize, dequantize and the fused producers of codes.
#include "backends/ref/table.h"
#include "conformance/conformance.h"
#include "minite/convention.h"
#include "minite/error.h"
#include "support/norms.h"

namespace minite::conformance {
namespace {

using Quantize = Level;
using test_support::NormCase;
MINITE_LEVELS(Quantize);

bool valid(const QuantSpec& spec) {
  try {
    spec.validate();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Every convention but te on every format that it knows, with every search.
void add_conventions(std::vector<QuantSpec>& specs) {
  for (const ConventionRow& row : conventions()) {
    if (row.id == Convention::te) continue;
    for (const Format& each : formats()) {
      if (!row.formats.has(each.id)) continue;
      for (const auto outer : {OuterScale::none, OuterScale::tensor, OuterScale::row}) {
        for (const auto search : {ScaleSearch::amax, ScaleSearch::amax4, ScaleSearch::four_six_mse,
                                  ScaleSearch::four_six_abs_max}) {
          const QuantSpec spec{.format = each.id, .outer = outer, .convention = row.id, .search = search};
          if (valid(spec)) specs.push_back(spec);
        }
      }
    }
  }
}
/// Simulated formats with blocks of other sizes.
void add_blocks(std::vector<QuantSpec>& specs) {
  for (const int16_t block : {int16_t{8}, int16_t{24}, int16_t{32}, int16_t{128}}) {
    specs.push_back({.format = FormatId::sim_e2m2, .block = block});
    specs.push_back({.format = FormatId::sim_e3m1_e8m0, .block = block});
  }
}
/// Every block format plain, and every option of NVFP4 that may meet.
std::vector<QuantSpec> all_specs() {
  std::vector<QuantSpec> specs;
  for (const Format& row : formats()) {
    for (const auto outer : {OuterScale::none, OuterScale::tensor, OuterScale::expert, OuterScale::row}) {
      for (const auto blocks : {BlockShape::row, BlockShape::tile}) {
        for (const auto search : {ScaleSearch::amax, ScaleSearch::four_six_mae, ScaleSearch::four_six_mse}) {
          for (const auto rounding : {Rounding::nearest, Rounding::stochastic}) {
            for (const auto rotation : {Rotation::none, Rotation::hadamard}) {
              const auto max = static_cast<int16_t>(search == ScaleSearch::four_six_mae ? 256 : 448);
              const QuantSpec spec{row.id, outer, Convention::te, blocks, search, rounding, rotation, max};
              if (spec.quantized() && valid(spec)) specs.push_back(spec);
            }
          }
        }
      }
    }
  }
  add_conventions(specs);
  add_blocks(specs);
  return specs;
}
const std::vector<QuantSpec> kSpecs = all_specs();

/// What an activation can have.
bool producible(const QuantSpec& spec) {
  // Beside te's, all conventions take one path behind a producer; these two stand for it.
  const bool other = spec.convention != Convention::te && spec.convention != Convention::vllm &&
                     spec.convention != Convention::floor;
  return !other && spec.rounding == Rounding::nearest && spec.rotation == Rotation::none;
}
bool readable(const QuantSpec& spec, Orientation along) {
  return spec.rotation == Rotation::none || along == Orientation::columns;
}

constexpr std::array<Fill, 7> kFills = {Fill::normal, Fill::wide,   Fill::ties,    Fill::special,
                                        Fill::finite, Fill::sparse, Fill::positive};
struct Shape {
  int64_t rows, cols;
};
// One element, blocks cut short, groups of sixteen blocks cut short, more rows than one task.
constexpr std::array<Shape, 10> kShapes = {
    {{1, 1}, {3, 15}, {5, 16}, {7, 17}, {16, 33}, {2, 255}, {33, 257}, {70, 130}, {2, 1000}, {600, 70}}};

void quantize(Trial& trial, const TensorView& x, Orientation along, const QuantSpec& spec) {
  const bool rows = along == Orientation::rows;
  const QTensor out =
      trial.space.codes("out", spec, rows ? x.rows : x.cols, spec.stored_cols(rows ? x.cols : x.rows));
  trial.op.quantize({x, along, out, {0x1234567890ABCDEFu, 42}}, trial.exec());
}

TEST_P(Quantize, Shapes) {
  for (const QuantSpec& spec : kSpecs) {
    for (const Orientation along : {Orientation::rows, Orientation::columns}) {
      if (!readable(spec, along)) continue;
      for (const DType dtype : kStorage) {
        for (const Shape& shape : kShapes) {
          for (const Fill fill : kFills) {
            check(fmt::format("{} of {}x{} {}, fill {}", to_string(spec), shape.rows, shape.cols,
                              dtype_name(dtype), static_cast<int>(fill)),
                  [&](Trial& trial) {
                    quantize(trial, trial.space.input("x", dtype, shape.rows, shape.cols, fill, 3), along,
                             spec);
                  });
          }
        }
      }
    }
  }
}

/// The bytes of two calls, each with what it may have.
TEST_P(Quantize, BothWays) {
  for (const QuantSpec& by_columns : kSpecs) {
    QuantSpec by_rows = by_columns;
    by_rows.rotation = Rotation::none;
    for (const Shape& shape : {Shape{7, 17}, {33, 257}, {70, 130}}) {
      check(fmt::format("both ways {} {}x{}", to_string(by_columns), shape.rows, shape.cols),
            [&](Trial& trial) {
              const TensorView x = trial.space.input("x", DType::bf16, shape.rows, shape.cols, Fill::wide, 3);
              const QuantizeArgs rows = {
                  x, Orientation::rows, trial.space.codes("rows", by_rows, shape.rows, shape.cols), {1, 2}};
              const QuantizeArgs columns = {
                  x,
                  Orientation::columns,
                  trial.space.codes("columns", by_columns, shape.cols, by_columns.stored_cols(shape.rows)),
                  {3, 4}};
              if (&trial.op != &ref::table()) return trial.op.quantize_both({rows, columns}, trial.exec());
              trial.op.quantize(rows, trial.exec());
              trial.op.quantize(columns, trial.exec());
            });
    }
  }
}

/// Every BF16 pattern, element i * step mod 2^16 in row-major order: step 1 keeps equal magnitudes together,
/// a large odd step mixes them.
TensorView all_patterns(Trial& trial, uint32_t step, int64_t cols, bool with_nan) {
  const TensorView x = trial.space.output("x", DType::bf16, 65536 / cols, cols);
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto pattern = static_cast<uint16_t>(i * step);
    const bool nan = (pattern & 0x7FFF) > 0x7F80;
    x.as<bf16>()[i] = bf16::from_bits(nan && !with_nan ? uint16_t{0x3F80} : pattern);
  }
  return x;
}

TEST_P(Quantize, EveryBf16Pattern) {
  for (const QuantSpec& spec : kSpecs) {
    for (const Orientation along : {Orientation::rows, Orientation::columns}) {
      if (!readable(spec, along)) continue;
      for (const uint32_t step : {1u, 40503u}) {
        for (const bool with_nan : {false, true}) {
          for (const int64_t cols : {16, 64}) {
            check(fmt::format("{} of every pattern, step {}", to_string(spec), step), [&](Trial& trial) {
              quantize(trial, all_patterns(trial, step, cols, with_nan), along, spec);
            });
          }
        }
      }
    }
  }
}

TEST_P(Quantize, DequantizeEveryByte) {
  for (const QuantSpec& spec : kSpecs) {
    for (const DType dtype : kStorage) {
      for (const Shape& shape : kShapes) {
        check(fmt::format("dequantize {} {}x{}", to_string(spec), shape.rows, shape.cols), [&](Trial& trial) {
          const QTensor q = trial.space.codes("q", spec, shape.rows, shape.cols);
          for (int64_t i = 0; i < q.rows * q.code_stride(); ++i)
            q.codes[i] = static_cast<uint8_t>(trial.space.next());
          for (int64_t i = 0; i < q.rows * q.scale_stride(); ++i) {
            q.block_scales[i] = static_cast<uint8_t>(trial.space.next());
          }
          for (int64_t i = 0; i < q.outer_count(); ++i) {
            q.amax[i] = static_cast<float>(trial.space.below(1000)) * 0.013f;
            q.outer[i] = q.amax[i] / 2688.0f;
            if (q.reciprocal != nullptr) q.reciprocal[i] = 2688.0f / q.amax[i];
          }
          trial.op.dequantize({q, trial.space.output("y", dtype, shape.rows, shape.cols, 3)}, trial.exec());
        });
      }
    }
  }
}

/// The transposed codes are those of the transpose: against the reference, and against quantizing by columns.
TEST_P(Quantize, TransposeCodes) {
  int64_t specs = 0;
  for (const QuantSpec& spec : kSpecs) {
    if (!spec.transposable()) continue;
    ++specs;
    for (const Shape& shape : kShapes) {
      for (const bool by_columns : {false, true}) {
        check(fmt::format("transpose {} {}x{}", to_string(spec), shape.rows, shape.cols), [&](Trial& trial) {
          const TensorView x = trial.space.input("x", DType::bf16, shape.rows, shape.cols, Fill::wide, 3);
          const QTensor q = trial.space.codes("q", spec, shape.rows, shape.cols);
          trial.op.quantize({x, Orientation::rows, q, {}}, trial.exec());
          const QTensor out = trial.space.codes("out", spec, shape.cols, shape.rows);
          if (by_columns && &trial.op == &ref::table())
            return trial.op.quantize({x, Orientation::columns, out, {}}, trial.exec());
          trial.op.transpose_codes({q, out}, trial.exec());
        });
      }
    }
  }
  EXPECT_GT(specs, 4);
}

NormArgs norm_args(Trial& trial, const NormCase& norm, DType dtype, const Shape& shape) {
  NormArgs args;
  args.x = trial.space.input("x", dtype, shape.rows, shape.cols, Fill::normal, 2);
  args.weight = trial.space.input("w", dtype, 1, shape.cols);
  args.eps = 1e-5f;
  args.y = trial.space.output("y", dtype, shape.rows, shape.cols, 5);
  args.rstd = trial.space.output("rstd", DType::f32, shape.rows, 1);
  args.spec = norm.spec;
  if (norm.spec.kind == NormKind::layernorm)
    args.mean = trial.space.output("mean", DType::f32, shape.rows, 1);
  if (norm.bias) args.bias = trial.space.input("bias", dtype, 1, shape.cols);
  return args;
}

/// Against the reference, whose fused op is the composition; and against the level's own two ops.
TEST_P(Quantize, NormQuantize) {
  for (const QuantSpec& spec : kSpecs) {
    if (!producible(spec)) continue;
    for (const NormCase& norm : test_support::kNorms) {
      for (const DType dtype : kStorage) {
        for (const Shape& shape : kShapes) {
          const std::string what =
              fmt::format("{}, {} {}x{}", norm.name, to_string(spec), shape.rows, shape.cols);
          check(what, [&](Trial& trial) {
            const NormArgs args = norm_args(trial, norm, dtype, shape);
            const QTensor out = trial.space.codes("out", spec, shape.rows, shape.cols);
            trial.op.norm_quantize({args, out}, trial.exec());
          });
          check(what + " in two ops", [&](Trial& trial) {
            const NormArgs args = norm_args(trial, norm, dtype, shape);
            const QTensor out = trial.space.codes("out", spec, shape.rows, shape.cols);
            if (&trial.op == &ref::table()) return trial.op.norm_quantize({args, out}, trial.exec());
            trial.op.norm(args, trial.exec());
            trial.op.quantize({args.y, Orientation::rows, out, {}}, trial.exec());
          });
        }
      }
    }
  }
}

TEST_P(Quantize, SwigluQuantize) {
  for (const QuantSpec& spec : kSpecs) {
    if (!producible(spec)) continue;
    for (const DType dtype : kStorage) {
      for (const Shape& shape : kShapes) {
        check(fmt::format("swiglu_quantize {} {}x{}", to_string(spec), shape.rows, shape.cols),
              [&](Trial& trial) {
                SwigluQuantizeArgs args;
                args.act.x = trial.space.input("x", dtype, shape.rows, 2 * shape.cols, Fill::normal, 2);
                args.act.y = trial.space.output("y", dtype, shape.rows, shape.cols, 5);
                args.out = trial.space.codes("out", spec, shape.rows, shape.cols);
                trial.op.swiglu_quantize(args, trial.exec());
              });
      }
    }
  }
}

}  // namespace
}  // namespace minite::conformance
