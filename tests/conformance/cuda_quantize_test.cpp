// What the general suites leave out of the device's quantization: shapes on 16-byte boundaries, which take
// the fast kernels, decoded values beside the codes, and the list of what must run.
#include "backends/cuda/codecs_check.h"
#include "backends/cuda/cuda.h"
#include "backends/cuda/quantize/both.h"
#include "conformance/conformance.h"
#include "minite/convention.h"
#include "minite/error.h"
#include "support/norms.h"

namespace minite::conformance {
namespace {

/// Nothing here may be refused.
class CudaQuantize : public Level {
 protected:
  void TearDown() override {
    for (const auto& [sentence, count] : refusals()) ADD_FAILURE() << sentence << ", " << count << " times";
  }
};
MINITE_LEVELS(CudaQuantize);

constexpr std::array<OuterScale, 4> kOuters = {OuterScale::none, OuterScale::tensor, OuterScale::expert,
                                               OuterScale::row};

bool valid(const QuantSpec& spec) {
  try {
    spec.validate();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// What the backend must quantize, decode and transpose.
std::vector<QuantSpec> required() {
  std::vector<QuantSpec> specs;
  for (const auto blocks : {BlockShape::row, BlockShape::tile}) {
    for (const OuterScale outer : kOuters) {
      for (const auto search : {ScaleSearch::amax, ScaleSearch::four_six_mae, ScaleSearch::four_six_mse}) {
        for (const auto rounding : {Rounding::nearest, Rounding::stochastic}) {
          for (const auto rotation : {Rotation::none, Rotation::hadamard}) {
            for (const int16_t max : {int16_t{448}, int16_t{256}}) {
              const QuantSpec spec{FormatId::nvfp4, outer,    Convention::te, blocks,
                                   search,          rounding, rotation,       max};
              if (valid(spec)) specs.push_back(spec);
            }
          }
        }
      }
    }
    for (const FormatId format : {FormatId::mxfp8, FormatId::mxfp8_e5m2, FormatId::mxfp4}) {
      specs.push_back({.format = format, .blocks = blocks});
      if (blocks == BlockShape::row) specs.push_back({.format = format, .convention = Convention::rceil});
    }
  }
  return specs;
}
const std::vector<QuantSpec> kRequired = required();

bool plain(const QuantSpec& spec) {
  return spec.rounding == Rounding::nearest && spec.rotation == Rotation::none;
}

struct Shape {
  int64_t rows, cols;
};
/// Each size of team, rows longer than the largest, more rows than a tile.
constexpr std::array<Shape, 10> kShapes = {{{5, 64},
                                            {3, 1024},
                                            {9, 2048},
                                            {7, 2560},
                                            {5, 4096},
                                            {2, 8192},
                                            {1, 16384},
                                            {1, 32768},
                                            {1, 33792},
                                            {160, 192}}};

void quantize(Trial& trial, const Shape& s, DType dtype, Fill fill, Orientation along, const QuantSpec& spec,
              int64_t extra, bool decoded) {
  const bool rows = along == Orientation::rows;
  const TensorView x = trial.space.input("x", dtype, s.rows, s.cols, fill, extra);
  const int64_t out_rows = rows ? s.rows : s.cols, out_cols = spec.stored_cols(rows ? s.cols : s.rows);
  QuantizeArgs args = {
      x, along, trial.space.codes("out", spec, out_rows, out_cols), {0x1234567890ABCDEFu, 42}};
  if (decoded) args.decoded = trial.space.output("decoded", DType::bf16, out_rows, out_cols, extra);
  trial.op.quantize(args, trial.exec());
}

TEST_P(CudaQuantize, Aligned) {
  for (const QuantSpec& spec : kRequired) {
    for (const Orientation along : {Orientation::rows, Orientation::columns}) {
      if (spec.rotation == Rotation::hadamard && along == Orientation::rows) continue;
      for (const Shape& s : kShapes) {
        for (const Fill fill :
             {Fill::normal, Fill::wide, Fill::ties, Fill::special, Fill::finite, Fill::sparse}) {
          // The choices of other shapes are independent of the fill.
          if (s.cols > 4096 && fill != Fill::wide) continue;
          for (const bool decoded : {false, true}) {
            const DType dtype = fill == Fill::ties && decoded ? DType::f32 : DType::bf16;
            check(
                fmt::format("{} of {}x{}, fill {}", to_string(spec), s.rows, s.cols, static_cast<int>(fill)),
                [&](Trial& trial) {
                  quantize(trial, s, dtype, fill, along, spec, decoded ? 8 : 0, decoded);
                });
          }
        }
      }
    }
  }
}

/// Both ways from one look at x.
TEST_P(CudaQuantize, BothWays) {
  const QuantSpec none{FormatId::nvfp4}, row{FormatId::nvfp4, OuterScale::row},
      tensor{FormatId::nvfp4, OuterScale::tensor};
  QuantSpec turned = tensor, noise = row, turned_noise = none, tile = none, scaled_tile = tensor;
  noise.rounding = turned_noise.rounding = Rounding::stochastic;
  turned.rotation = turned_noise.rotation = Rotation::hadamard;
  tile.blocks = scaled_tile.blocks = BlockShape::tile;
  for (const auto& [by_rows, by_columns] : {std::pair{none, none},
                                            {row, row},
                                            {tensor, tensor},
                                            {row, turned},
                                            {noise, noise},
                                            {noise, turned_noise},
                                            {tile, tile},
                                            {scaled_tile, scaled_tile}}) {
    for (const Shape& s : {Shape{16, 16}, {48, 336}, {128, 128}, {272, 400}}) {
      for (const Fill fill : {Fill::normal, Fill::wide, Fill::special, Fill::finite, Fill::sparse}) {
        check(fmt::format("{} and {} of {}x{}", to_string(by_rows), to_string(by_columns), s.rows, s.cols),
              [&, by_rows = by_rows, by_columns = by_columns](Trial& trial) {
                const TensorView x = trial.space.input("x", DType::bf16, s.rows, s.cols, fill, 8);
                const QuantizeBothArgs both = {
                    {x,
                     Orientation::rows,
                     trial.space.codes("rows", by_rows, s.rows, s.cols),
                     {77, 3},
                     DType::f32,
                     trial.space.output("decoded rows", DType::bf16, s.rows, s.cols)},
                    {x,
                     Orientation::columns,
                     trial.space.codes("columns", by_columns, s.cols, s.rows),
                     {77, 4},
                     DType::f32,
                     trial.space.output("decoded columns", DType::bf16, s.cols, s.rows, 8)}};
                ASSERT_TRUE(cuda::both_fit(both)) << "the fast kernel is meant";
                trial.op.quantize_both(both, trial.exec());
              });
      }
    }
  }
}

/// Both amaxes: rows are quantized in the pass that finds those of the columns.
TEST_P(CudaQuantize, BothWaysRowsFirst) {
  const QuantSpec row{FormatId::nvfp4, OuterScale::row};
  for (const Shape& s :
       {Shape{16, 512}, {48, 528}, {304, 2560}, {4000, 1040}, {32, 4096}, {16, 16384}, {16, 16400}}) {
    for (const Fill fill : {Fill::normal, Fill::wide, Fill::special, Fill::sparse}) {
      if (s.rows > 1000 && fill != Fill::wide) continue;  // more rows than blocks of threads on any device
      check(fmt::format("both ways of {}x{}", s.rows, s.cols), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", DType::bf16, s.rows, s.cols, fill, 8);
        trial.op.quantize_both({{x, Orientation::rows, trial.space.codes("rows", row, s.rows, s.cols)},
                                {x, Orientation::columns, trial.space.codes("columns", row, s.cols, s.rows)}},
                               trial.exec());
      });
    }
  }
}

/// Codes of every BF16 value under factors of every exponent: the first element of a block, a power of two
/// times an odd mantissa, sets the factor, the other fifteen are any value below it.
TEST_P(CudaQuantize, EveryValueUnderManyFactors) {
  for (const OuterScale outer : {OuterScale::none, OuterScale::row}) {
    for (uint32_t step = 0; step < 64; ++step) {
      check(fmt::format("every value, step {}", step), [&](Trial& trial) {
        const TensorView x = trial.space.output("x", DType::bf16, 70, 1024);
        for (int64_t i = 0; i < x.size(); ++i) {
          const auto top = static_cast<uint16_t>(((i / 16 * 509 + step * 97) % 0x7F80) | 1);
          const auto any = static_cast<uint16_t>(i * 40503 + step * 7919);
          const bool below = (any & 0x7FFF) <= top;
          x.as<bf16>()[i] = bf16::from_bits(i % 16 == 0 || !below ? top : any);
        }
        const QuantSpec spec{FormatId::nvfp4, outer};
        trial.op.quantize({x, Orientation::rows, trial.space.codes("out", spec, 70, 1024)}, trial.exec());
      });
    }
  }
}

TEST_P(CudaQuantize, DecodeAligned) {
  for (const QuantSpec& spec : kRequired) {
    if (!plain(spec)) continue;
    for (const Multiplier multiplier : {Multiplier::all, Multiplier::block}) {
      for (const DType dtype : kStorage) {
        check(fmt::format("dequantize {}", to_string(spec)), [&](Trial& trial) {
          const QTensor q = trial.space.codes("q", spec, 40, 256);
          for (int64_t i = 0; i < q.rows * q.code_stride(); ++i)
            q.codes[i] = static_cast<uint8_t>(trial.space.next());
          for (int64_t i = 0; i < q.rows * q.scale_stride(); ++i)
            q.block_scales[i] = static_cast<uint8_t>(trial.space.next());
          for (int64_t i = 0; i < q.outer_count(); ++i) {
            q.amax[i] = static_cast<float>(trial.space.below(1000)) * 0.013f;
            q.outer[i] = q.amax[i] / 2688.0f;
          }
          trial.op.dequantize({q, trial.space.output("y", dtype, 40, 256, 8), multiplier}, trial.exec());
        });
      }
    }
  }
}

TEST_P(CudaQuantize, TransposeAligned) {
  for (const QuantSpec& spec : kRequired) {
    if (!spec.transposable()) continue;
    check(fmt::format("transpose {}", to_string(spec)), [&](Trial& trial) {
      const TensorView x = trial.space.input("x", DType::bf16, 160, 320, Fill::wide);
      const QTensor q = trial.space.codes("q", spec, 160, 320),
                    out = trial.space.codes("out", spec, 320, 160);
      trial.op.quantize({x, Orientation::rows, q, {}}, trial.exec());
      trial.op.transpose_codes({q, out}, trial.exec());
    });
  }
}

// --- fused producers -------------------------------------------------------------------------------

/// Runs body(spec, shape, fill) over what an activation can have on fast shapes.
void sweep(const std::function<void(const QuantSpec&, const Shape&, Fill)>& body) {
  for (const QuantSpec& spec : kRequired) {
    if (!plain(spec)) continue;
    for (const Shape& s : kShapes) {
      for (const Fill fill : {Fill::normal, Fill::wide, Fill::special}) {
        // rceil writes the bits of a NaN, and those that arithmetic makes are the processor's own.
        if (spec.convention == Convention::rceil && fill == Fill::special) continue;
        if (s.cols <= 4096 || fill == Fill::normal) body(spec, s, fill);
      }
    }
  }
}

NormArgs norm_args(Trial& trial, const test_support::NormCase& norm, const TensorView& x,
                   const TensorView& y) {
  NormArgs args;
  args.x = x;
  args.weight = trial.space.input("w", DType::bf16, 1, x.cols);
  args.eps = 1e-5f;
  args.y = y;
  args.rstd = trial.space.output("rstd", DType::f32, x.rows, 1, 2);
  args.spec = norm.spec;
  if (norm.spec.kind == NormKind::layernorm) args.mean = trial.space.output("mean", DType::f32, x.rows, 1);
  if (norm.bias) args.bias = trial.space.input("bias", DType::bf16, 1, x.cols);
  return args;
}

TEST_P(CudaQuantize, NormQuantize) {
  sweep([&](const QuantSpec& spec, const Shape& s, Fill fill) {
    for (const test_support::NormCase& norm : test_support::kNorms) {
      check(fmt::format("{}, {} {}x{}", norm.name, to_string(spec), s.rows, s.cols), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", DType::bf16, s.rows, s.cols, fill, 8);
        const TensorView y = norm.bias ? x : trial.space.output("y", DType::bf16, s.rows, s.cols, 16);
        const QTensor out = trial.space.codes("out", spec, s.rows, s.cols);
        trial.op.norm_quantize({norm_args(trial, norm, x, y), out}, trial.exec());
      });
    }
  });
}

TEST_P(CudaQuantize, AddNormQuantize) {
  for (const DType dtype : kStorage) {
    sweep([&](const QuantSpec& spec, const Shape& s, Fill fill) {
      if (dtype == DType::f32 && s.cols > 1024) return;
      check(fmt::format("add_norm_quantize {} {}x{}", to_string(spec), s.rows, s.cols), [&](Trial& trial) {
        const TensorView a = trial.space.input("a", dtype, s.rows, s.cols, fill, 8);
        const TensorView b = trial.space.input("b", dtype, s.rows, s.cols, Fill::normal);
        const TensorView sum = s.rows % 2 == 0 ? a : trial.space.output("sum", dtype, s.rows, s.cols, 8);
        NormArgs norm;
        norm.x = sum;
        norm.weight = trial.space.input("w", dtype, 1, s.cols);
        norm.eps = 1e-6f;
        norm.y = trial.space.output("y", dtype, s.rows, s.cols);
        norm.rstd = trial.space.output("rstd", DType::f32, s.rows, 1);
        trial.op.add_norm_quantize({{a, b, sum}, norm, trial.space.codes("out", spec, s.rows, s.cols)},
                                   trial.exec());
      });
    });
  }
}

/// More pairs of rows than blocks of threads on any device: each takes many, in turn.
TEST_P(CudaQuantize, NormOfManyRows) {
  constexpr int64_t kRows = 30001, kCols = 64;
  for (const test_support::NormCase& norm : test_support::kNorms) {
    for (const OuterScale outer : {OuterScale::none, OuterScale::row}) {
      const QuantSpec spec{FormatId::nvfp4, outer};
      check(fmt::format("{} of many rows", norm.name), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", DType::bf16, kRows, kCols);
        const TensorView y = trial.space.output("y", DType::bf16, kRows, kCols);
        const QTensor out = trial.space.codes("out", spec, kRows, kCols);
        trial.op.norm_quantize({norm_args(trial, norm, x, y), out}, trial.exec());
      });
      check(fmt::format("sum and {} of many rows", norm.name), [&](Trial& trial) {
        const TensorView a = trial.space.input("a", DType::bf16, kRows, kCols);
        const TensorView b = trial.space.input("b", DType::bf16, kRows, kCols);
        const TensorView y = trial.space.output("y", DType::bf16, kRows, kCols);
        const QTensor out = trial.space.codes("out", spec, kRows, kCols);
        trial.op.add_norm_quantize({{a, b, a}, norm_args(trial, norm, a, y), out}, trial.exec());
      });
    }
  }
}

TEST_P(CudaQuantize, SwigluQuantize) {
  sweep([&](const QuantSpec& spec, const Shape& s, Fill fill) {
    check(fmt::format("swiglu_quantize {} {}x{}", to_string(spec), s.rows, s.cols), [&](Trial& trial) {
      SwigluQuantizeArgs args;
      args.act.x = trial.space.input("x", DType::bf16, s.rows, 2 * s.cols, fill, 8);
      args.act.y = trial.space.output("y", DType::bf16, s.rows, s.cols, 8);
      args.out = trial.space.codes("out", spec, s.rows, s.cols);
      trial.op.swiglu_quantize(args, trial.exec());
    });
  });
}

TEST_P(CudaQuantize, PermuteQuantize) {
  for (const DType dtype : kStorage) {
    sweep([&](const QuantSpec& spec, const Shape& s, Fill fill) {
      if (dtype == DType::f32 && s.cols > 1024) return;
      check(fmt::format("permute_quantize {} {}x{}", to_string(spec), s.rows, s.cols), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", dtype, s.rows, s.cols, fill, 8);
        std::vector<int32_t> slots;  // two experts a token, reversed
        for (int64_t r = 2 * s.rows; r-- > 0;) slots.push_back(static_cast<int32_t>(r));
        const TensorView y = trial.space.output("y", dtype, 2 * s.rows, s.cols);
        trial.op.permute_quantize(
            {{x, trial.space.ints("slot_of", slots), y}, trial.space.codes("out", spec, 2 * s.rows, s.cols)},
            trial.exec());
      });
    });
  }
}

/// permute by itself; the suite of experts starts with dispatch, which the device refuses.
TEST_P(CudaQuantize, Permute) {
  for (const DType dtype : kStorage) {
    for (const int64_t cols : {1, 16, 33, 200}) {
      check(fmt::format("permute of {}", cols), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", dtype, 3, cols, Fill::special, 3);
        const auto slots = trial.space.ints("slot_of", {5, 0, 3, 2, 4, 1});
        trial.op.permute({x, slots, trial.space.output("y", dtype, 6, cols, 1)}, trial.exec());
      });
    }
  }
}

TEST_P(CudaQuantize, AlignedAlone) {
  for (const Shape& s : kShapes) {
    for (const Fill fill : {Fill::normal, Fill::wide, Fill::special}) {
      check(fmt::format("swiglu and norm of {}x{}", s.rows, s.cols), [&](Trial& trial) {
        const TensorView x = trial.space.input("x", DType::bf16, s.rows, 2 * s.cols, fill, 8);
        const TensorView y = trial.space.output("y", DType::bf16, s.rows, s.cols, 8);
        trial.op.swiglu({x, y}, trial.exec());
        NormArgs norm;
        norm.x = x.slice_cols(s.cols, s.cols);
        norm.weight = trial.space.input("w", DType::bf16, 1, s.cols);
        norm.y = trial.space.output("normed", DType::bf16, s.rows, s.cols);
        trial.op.norm(norm, trial.exec());
      });
    }
  }
}

/// Every BF16 gate.
TEST_P(CudaQuantize, SwigluOfEveryGate) {
  for (const DType dtype : kStorage) {
    check("swiglu of every gate", [&](Trial& trial) {
      const TensorView x = trial.space.input("x", dtype, 64, 2048, Fill::positive);
      for (int64_t i = 0; i < 65536; ++i) {
        const bf16 gate = bf16::from_bits(static_cast<uint16_t>(i));
        if (dtype == DType::bf16) x.row<bf16>(i / 1024)[i % 1024] = gate;
        if (dtype == DType::f32) x.row<float>(i / 1024)[i % 1024] = gate;
      }
      trial.op.swiglu({x, trial.space.output("y", dtype, 64, 1024)}, trial.exec());
    });
  }
}

TEST(CudaSupport, QuickReciprocalsAreDivisions) {
  const Backend backend = cuda::backend();
  if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
  EXPECT_EQ(cuda::reciprocal_differences(), 0u);
}

// --- what must run ---------------------------------------------------------------------------------

TEST(CudaSupport, QuantizesWhatItMustAndRefusesTheRest) {
  const Backend backend = cuda::backend();
  if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
  for (const QuantSpec& spec : kRequired) {
    const Support support = backend.table->supports_quantize(spec);
    EXPECT_TRUE(support.ok) << to_string(spec) << ": " << support.reason;
    EXPECT_FALSE(support.kernel.empty());
  }
  for (const ConventionRow& row : conventions()) {
    for (const Format& format : formats()) {
      if (!row.formats.has(format.id)) continue;
      const bool mx =
          format.id == FormatId::mxfp8 || format.id == FormatId::mxfp8_e5m2 || format.id == FormatId::mxfp4;
      const bool must = (row.id == Convention::te && (mx || format.id == FormatId::nvfp4)) ||
                        (row.id == Convention::rceil && mx);
      const Support support = backend.table->supports_quantize({.format = format.id, .convention = row.id});
      EXPECT_EQ(support.ok, must) << to_string(row.id) << " of " << format.name;
      EXPECT_EQ(support.reason.empty(), must);
    }
  }
}

/// The sentence that op refuses empty arguments with, "" when it takes them.
template <class Args>
std::string refusal(const OpTable& table, void (*OpTable::*op)(const Args&, const Exec&)) {
  try {
    (table.*op)(Args{}, Exec{});
  } catch (const Error& error) {
    return error.code() == ErrorCode::unsupported ? error.what() : "";
  }
  return "";
}

TEST(CudaSupport, OpsWithoutAKernelAreThese) {
  const Backend backend = cuda::backend();
  if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
  const OpTable& t = *backend.table;
  using T = OpTable;
  const std::map<std::string, std::string> refused = {
      {"norm_backward", refusal(t, &T::norm_backward)},
      {"rope", refusal(t, &T::rope)},
      {"kv_write", refusal(t, &T::kv_write)},
      {"attention", refusal(t, &T::attention)},
      {"attention_backward", refusal(t, &T::attention_backward)},
      {"swiglu_backward", refusal(t, &T::swiglu_backward)},
      {"bias_backward", refusal(t, &T::bias_backward)},
      {"route", refusal(t, &T::route)},
      {"route_backward", refusal(t, &T::route_backward)},
      {"router_balance", refusal(t, &T::router_balance)},
      {"dispatch", refusal(t, &T::dispatch)},
      {"combine", refusal(t, &T::combine)},
      {"combine_backward", refusal(t, &T::combine_backward)},
      {"embedding", refusal(t, &T::embedding)},
      {"embedding_backward", refusal(t, &T::embedding_backward)},
      {"logprob", refusal(t, &T::logprob)},
      {"logprob_backward", refusal(t, &T::logprob_backward)},
      {"choose", refusal(t, &T::choose)},
      {"adamw", refusal(t, &T::adamw)},
      {"sum_squares", refusal(t, &T::sum_squares)},
  };
  for (const auto& [op, sentence] : refused)
    EXPECT_NE(sentence.find("no kernel yet"), std::string::npos) << op << ": '" << sentence << "'";
  EXPECT_EQ(refusal(t, &T::norm), "");
  EXPECT_EQ(refusal(t, &T::swiglu), "");
  EXPECT_EQ(refusal(t, &T::add), "");
  EXPECT_EQ(refusal(t, &T::permute), "");
}

}  // namespace
}  // namespace minite::conformance
