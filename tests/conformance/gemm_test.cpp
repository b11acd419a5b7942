// Matrix products in the canonical order.
#include <array>

#include "backends/ref/table.h"
#include "conformance/conformance.h"
#include "minite/error.h"

namespace minite::conformance {
namespace {

using Gemm = Level;
/// On a device too, only the canonical order has the reference's bits.
constexpr SumOrder kOrder = SumOrder::canonical;
MINITE_LEVELS_OF(Gemm, "avx2", "avxvnni", "avx512", "avx512vnni");

/// How an operand is made.
struct Side {
  QuantSpec spec;  ///< bf16 or fp32: a dense operand
  Orientation along = Orientation::rows;
  Fill fill = Fill::normal;
};

Operand operand(Trial& trial, const char* name, const Side& side, int64_t rows, int64_t depth) {
  const bool dense = !side.spec.quantized();
  const DType dtype = side.spec.format == FormatId::fp32 ? DType::f32 : DType::bf16;
  const bool by_rows = side.along == Orientation::rows;
  const TensorView x = trial.space.input(name, dtype, by_rows ? rows : depth, by_rows ? depth : rows,
                                         side.fill, dense ? 3 : 0);
  if (dense) return Operand::of(x, side.along);
  const QTensor q = trial.space.codes(name, side.spec, rows, depth);
  ref::table().quantize({x, side.along, q}, {});
  return Operand::of(q);
}

struct Product {
  Side a, b;
  DType y = DType::bf16;
  bool bias = false;
  Output output = Output::overwrite;
  Epilogue epilogue = Epilogue::minite;
};

void product(Trial& trial, const Product& p, int64_t m, int64_t n, int64_t k) {
  GemmArgs args;
  args.a = operand(trial, "a", p.a, m, k);
  args.b = operand(trial, "b", p.b, n, k);
  if (p.bias) args.bias = trial.space.input("bias", DType::f32, 1, n);
  args.y = p.output == Output::accumulate ? trial.space.input("y", p.y, m, n, Fill::normal, 5)
                                          : trial.space.output("y", p.y, m, n, 5);
  args.output = p.output;
  args.epilogue = p.epilogue;
  args.order = kOrder;
  const GemmProblem problem{p.a.spec.format, p.b.spec.format, p.y, n, k, p.epilogue, kOrder};
  const Support support = trial.op.supports_gemm(problem);
  if (!support.ok) throw Error(ErrorCode::unsupported, support.reason);
  trial.op.gemm(args, trial.exec(trial.op.gemm_scratch(problem, m, trial.pool.threads())));
}

constexpr QuantSpec kBf16{FormatId::bf16}, kFp32{FormatId::fp32}, kMxfp8{FormatId::mxfp8};
constexpr QuantSpec nvfp4(OuterScale outer) { return {FormatId::nvfp4, outer}; }
constexpr QuantSpec sim(FormatId format) { return {format}; }
constexpr auto kRows = Orientation::rows, kColumns = Orientation::columns;

const std::vector<Product> kProducts = {
    {{nvfp4(OuterScale::row)}, {nvfp4(OuterScale::tensor)}},
    {{nvfp4(OuterScale::none)}, {nvfp4(OuterScale::expert)}, DType::f32, true},
    {{nvfp4(OuterScale::tensor)}, {nvfp4(OuterScale::row)}, DType::bf16, true, Output::accumulate},
    {{nvfp4(OuterScale::none), kRows, Fill::sparse},
     {nvfp4(OuterScale::none), kRows, Fill::ties},
     DType::f32},
    {{nvfp4(OuterScale::tensor)},
     {nvfp4(OuterScale::tensor)},
     DType::f32,
     false,
     Output::overwrite,
     Epilogue::te},
    {{nvfp4(OuterScale::row)}, {nvfp4(OuterScale::row)}, DType::bf16, true, Output::accumulate, Epilogue::te},
    {{kBf16}, {kBf16}},
    {{kBf16}, {kBf16, kColumns}},
    {{kBf16, kColumns}, {kBf16}, DType::f32, false, Output::accumulate},
    {{kBf16, kColumns}, {kBf16, kColumns}, DType::f32, true, Output::accumulate},
    {{kBf16, kRows, Fill::finite}, {kBf16, kRows, Fill::special}, DType::f32},
    {{kMxfp8}, {kMxfp8}},
    {{kMxfp8, kColumns}, {kMxfp8, kColumns}, DType::f32, false, Output::accumulate},
    {{kMxfp8, kRows, Fill::special}, {kMxfp8, kRows, Fill::wide}, DType::f32},
    {{nvfp4(OuterScale::row)}, {kBf16}, DType::bf16, true},
    {{kBf16}, {nvfp4(OuterScale::tensor)}, DType::f32},
    {{kBf16, kColumns}, {nvfp4(OuterScale::row)}},
    {{kMxfp8}, {nvfp4(OuterScale::row)}},
    {{nvfp4(OuterScale::row)}, {kMxfp8}, DType::f32, true},
    {{sim(FormatId::sim_e2m1)}, {sim(FormatId::sim_e2m1)}},
    {{sim(FormatId::sim_e4m1)}, {sim(FormatId::sim_e3m1_e8m0)}, DType::f32},
    {{sim(FormatId::sim_e5m1), kRows, Fill::sparse}, {sim(FormatId::sim_e2m4)}, DType::f32},
    {{sim(FormatId::sim_e2m2_e8m0), kColumns},
     {sim(FormatId::sim_e2m3)},
     DType::f32,
     true,
     Output::accumulate},
    {{sim(FormatId::sim_e5m1_e8m0), kRows, Fill::wide}, {kBf16}},
    // MX formats and blocks of other sizes, by decode.
    {{sim(FormatId::mxfp4)}, {sim(FormatId::mxfp4)}, DType::f32},
    {{sim(FormatId::mxfp8_e5m2)}, {sim(FormatId::mxfp8)}, DType::f32},
    {{kBf16}, {sim(FormatId::mxfp4)}},
    {{{.format = FormatId::sim_e2m2, .block = 8}}, {{.format = FormatId::sim_e3m1, .block = 40}}, DType::f32},
    {{{.format = FormatId::nvfp4, .convention = Convention::ggml}}, {nvfp4(OuterScale::tensor)}, DType::f32},
    {{{.format = FormatId::mxfp4, .convention = Convention::ggml}}, {kBf16}, DType::f32},
    {{kFp32}, {kFp32}, DType::f32},
    {{kFp32, kColumns}, {kFp32, kColumns}, DType::f32, true, Output::accumulate},
};

std::string name(const Product& p, int64_t m, int64_t n, int64_t k) {
  return fmt::format("{} x {}, {}x{}x{}", to_string(p.a.spec), to_string(p.b.spec), m, n, k);
}

TEST_P(Gemm, EveryRowCount) {
  for (const Product& p : kProducts) {
    for (int64_t m = 1; m <= 70; m += 3) {
      check(name(p, m, 21, 50), [&](Trial& trial) { product(trial, p, m, 21, 50); });
    }
  }
}

TEST_P(Gemm, OffTheTile) {
  for (const Product& p : kProducts) {
    for (const int64_t n : {1, 16, 31, 65, 130}) {
      for (const int64_t k : {1, 15, 33, 272}) {
        check(name(p, 5, n, k), [&](Trial& trial) { product(trial, p, 5, n, k); });
      }
    }
  }
}

TEST_P(Gemm, DeepAndTall) {
  for (const Product& p : kProducts) {
    check(name(p, 9, 19, 2100), [&](Trial& trial) { product(trial, p, 9, 19, 2100); });
    check(name(p, 3, 145, 650), [&](Trial& trial) { product(trial, p, 3, 145, 650); });
    check(name(p, 200, 17, 40), [&](Trial& trial) { product(trial, p, 200, 17, 40); });
  }
}

/// Codes and scales of any bytes: every E4M3 scale, NaN and negative ones, zeros and the extremes among them;
/// bits past an odd last column are noise.
QTensor any_bytes(Trial& trial, const char* name, Convention convention, int64_t rows, int64_t cols,
                  bool extremes) {
  const QuantSpec spec{.format = FormatId::nvfp4, .convention = convention};
  const QTensor q = trial.space.codes(name, spec, rows, cols);
  // The last two are NaN for E4M3, which would spread over the product and hide the others.
  constexpr uint8_t kExtremes[] = {0x00, 0x01, 0x7E, 0x80, 0xFE, 0x07, 0x08, 0x7F, 0xFF};
  const size_t count = std::size(kExtremes) - (convention == Convention::ggml ? 0 : 2);
  for (int64_t i = 0; i < rows * q.code_stride(); ++i)
    q.codes[i] = static_cast<uint8_t>(trial.space.next() >> 20);
  for (int64_t i = 0; i < rows * q.scale_stride(); ++i) {
    const auto any = static_cast<uint8_t>(trial.space.next() >> 20);
    q.block_scales[i] = extremes ? kExtremes[any % count] : any;
  }
  return q;
}

constexpr std::array<std::array<int64_t, 3>, 4> kAnySizes = {
    {{1, 40, 16}, {7, 33, 130}, {48, 70, 527}, {49, 97, 1041}}};

void any_product(Trial& trial, const Operand& a, const Operand& b) {
  GemmArgs args;
  args.a = a;
  args.b = b;
  args.y = trial.space.output("y", DType::f32, a.rows(), b.rows());
  args.order = kOrder;
  const GemmProblem problem{a.format(), b.format(),       DType::f32, b.rows(),
                            a.depth(),  Epilogue::minite, kOrder};
  trial.op.gemm(args, trial.exec(trial.op.gemm_scratch(problem, a.rows(), trial.pool.threads())));
}

/// ggml reads its scale bytes in another way: no sign, no NaN.
TEST_P(Gemm, AnyBytesOfNvfp4) {
  for (const auto& [m, n, k] : kAnySizes) {
    for (const auto& [ca, cb] : {std::pair{Convention::te, Convention::te},
                                 {Convention::ggml, Convention::ggml},
                                 {Convention::te, Convention::ggml},
                                 {Convention::ggml, Convention::te}}) {
      for (const bool extremes : {false, true}) {
        check(fmt::format("any bytes of {} x {}, {}x{}x{}", to_string(ca), to_string(cb), m, n, k),
              [&, conventions = std::pair{ca, cb}](Trial& trial) {
                any_product(trial, Operand::of(any_bytes(trial, "a", conventions.first, m, k, extremes)),
                            Operand::of(any_bytes(trial, "b", conventions.second, n, k, extremes)));
              });
      }
    }
  }
}

/// The same bytes as weights of dense activations, for few rows and for many.
TEST_P(Gemm, AnyBytesOfWeights) {
  for (const auto& [m, n, k] : kAnySizes) {
    for (const Convention convention : {Convention::te, Convention::ggml}) {
      for (const bool extremes : {false, true}) {
        check(fmt::format("bf16 x any bytes of {}, {}x{}x{}", to_string(convention), m, n, k),
              [&, id = convention](Trial& trial) {
                const TensorView x = trial.space.input("a", DType::bf16, m, k, Fill::normal);
                any_product(trial, Operand::of(x), Operand::of(any_bytes(trial, "b", id, n, k, extremes)));
              });
      }
    }
  }
}

/// More packed panels than fit one slice of the weights, and rows past those of one task.
TEST_P(Gemm, SlicesOfPanels) {
  check("slices", [&](Trial& trial) { product(trial, kProducts[2], 50, 265, 6500); });
}

}  // namespace
}  // namespace minite::conformance
