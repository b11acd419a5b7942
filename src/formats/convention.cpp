// One row per convention and family of formats. `minite formats --conventions` and the documentation print
// it; the steps themselves are in nvfp4_rules.cpp, mx_rules.cpp and, for te, in backends/ref/quantize.h.
#include "minite/convention.h"

#include <array>
#include <vector>

#include "core/fail.h"

namespace minite {
namespace {

using C = Convention;
using F = FormatId;
using O = OuterScale;
using S = ScaleSearch;
using G = StoredGlobal;
constexpr EnumSet<F> kNvfp4{F::nvfp4}, kMx{F::mxfp8, F::mxfp8_e5m2, F::mxfp4}, kMxfp4{F::mxfp4},
    kMxfp84{F::mxfp8, F::mxfp4};
constexpr EnumSet<F> kSim = EnumSet<F>::from_to(F::sim_e2m1, F::sim_e2m4_e8m0);
constexpr EnumSet<O> kNone{O::none}, kTensor{O::tensor, O::expert},
    kAny{O::none, O::tensor, O::expert, O::row};
constexpr EnumSet<S> kAmax{S::amax};

constexpr std::string_view kMinite = "minite: fl(fl(acc * s_row) * s_col)";
constexpr std::string_view kDecodeMx = "q * 2^(b-127)";
constexpr std::string_view kNearest = "nearest even of fl(x * 2^(127-b)), saturating";
constexpr std::string_view kAoNan =
    "inf or NaN in a block: b = 0xFF, every code NaN (E2M1 0x3 with NaN's sign); E2M1 keeps the sign of -0";

// Where infinities and NaN are known from.
constexpr std::string_view kVectors = "vectors", kFormula = "formula";
constexpr std::string_view kZerosRun = "formula; vectors of 0/0 (a tensor of zeros)";

/// An MX rule without options.
constexpr ConventionRow mx(C id, EnumSet<F> formats, std::string_view scale, std::string_view code,
                           std::string_view exception, std::string_view peer,
                           std::string_view nonfinite = kFormula) {
  return {id,   formats,   G::none, kNone,     kAmax,     false, scale,
          code, kDecodeMx, kMinite, exception, nonfinite, peer};
}

constexpr ConventionRow kRows[] = {
    {C::te, kNvfp4, G::amax, kAny, EnumSet<S>{S::amax, S::four_six_mae, S::four_six_mse}, true,
     "S = min(fl(2688/A), FMAX); d = E4M3(min(fl(a * fl(S * fl(1/6))), FMAX))",
     "nearest even of fl(x * min(fl(1 / fl(d * fl(1/S))), FMAX)), saturating",
     "q * fl(fl(d * A) * fl(1/2688))", "te: acc * fl(fl(A_x * A_w) / 7225344)",
     "d may be 0, then codes saturate and decode to 0; -0 gives 0x0; NaN gives d = 0x7F, codes 0x0", kVectors,
     "Transformer Engine d0067d0d, reference quantizer"},
    {C::te, kMx, G::none, kNone, kAmax, true, "b = fl(a * fl(1/max)) rounded up to a power of two", kNearest,
     kDecodeMx, kMinite, "inf: b = 0xFE; NaN: b = 0xFF, codes 0x7F (E2M1 0x0); -0 gives E2M1 0x0", kFormula,
     "Transformer Engine d0067d0d, MXFP8; E5M2 and E2M1 by the same rule"},
    {C::te, kSim, G::none, kNone, kAmax, true, "t = fl(a / max); d = E4M3(t), or E8M0(t) rounded up",
     "nearest even of fl(x / d), saturating", "q * d", kMinite,
     "d = 0: zeros become NaN, other values saturate and decode to 0", kFormula,
     "none: exists in software only"},
    {C::modelopt, kNvfp4, G::multiplier, kTensor, kAmax, false,
     "s = fl(A/2688); t = fl(a / fl(6*s)), 0 becomes 1; d = E4M3(clamp(t, 2^-9, 448))",
     "nearest even of fl(x / fl(d*s)), saturating", "q * fl(d * s)", kMinite,
     "a block of zeros has d = 0x38; A = 0 gives s = 0, d NaN, codes 0x7; NaN gives 0x7", kZerosRun,
     "ModelOpt a2fbac7b, NVFP4QTensor"},
    mx(C::modelopt, kMxfp84, "b = ceil(fl(log2(fl(a/max))))",
       "MXFP8: nearest even; MXFP4: ties to zero, of fl(x * 2^(127-b)), saturating",
       "MXFP4 zeros give 0x8; inf: b = 0xFE; NaN: b = 0xFF (ModelOpt converts NaN to an integer, undefined)",
       "ModelOpt a2fbac7b", "formula; NaN is undefined: converted to an integer"),
    {C::compressed_tensors, kNvfp4, G::reciprocal, kTensor, kAmax, false,
     "in the dtype of x: g = fl(fl(1/A) * 2688), t = fl(a/6); d = E4M3(clamp(fl(g*t), 448))",
     "nearest even of fl(x / fl(d/g)), saturating", "q * fl(d / g)", kMinite,
     "a scale byte 0x00 becomes 0x20 (0.125); g not finite becomes 1", kFormula,
     "compressed-tensors ac8e2ba8 with llm-compressor ab1ba3ef"},
    mx(C::compressed_tensors, kMxfp84, "b = exponent of (a + half an E2M1 ulp) - max_exponent", kNearest,
       "an amax that rounds up to 2^128: byte 0x7F, codes 0", "compressed-tensors ac8e2ba8",
       "formula; vectors of an amax that rounds up to 2^128"),
    {C::compressed_tensors_f32, kNvfp4, G::reciprocal, kTensor, kAmax, false,
     "as compressed-tensors, statistics in FP32", "nearest even of fl(x / fl(d/g)), saturating",
     "q * fl(d / g)", kMinite, "as compressed-tensors", kFormula,
     "compressed-tensors ac8e2ba8, FP32 weights or statistics"},
    {C::torchao, kNvfp4, G::multiplier, kTensor, kAmax, false,
     "s = fl(A/2688); d = E4M3(clamp(fl(fl(a/6) / s), 2^-6, 448))",
     "nearest even of fl(x * fl(fl(1/s) / d)), saturating", "q * fl(s * d)", kMinite,
     "d is never below 0x08; -0 gives 0x8; NaN through integer rounding: 0xB, 0xC or by its bits", kZerosRun,
     "torchao 36027d82, nvfp4_quantize with a tensor scale"},
    {C::torchao_1level, kNvfp4, G::none, kNone, kAmax, false, "d = E4M3(clamp(fl(a/6), 2^-6, 448))",
     "nearest even of fl(x * fl(1/d)), saturating", "q * d", kMinite, "as torchao", kFormula,
     "torchao 36027d82, nvfp4_quantize"},
    {C::vllm, kNvfp4, G::reciprocal, kTensor, kAmax, false,
     "g = fl(fl(1/A) * 2688); d = E4M3(clamp(fl(g * fl(a * fl(1/6))), 448))",
     "nearest even of fl(x * fl(1 / fl(d * fl(1/g)))), saturating", "q * fl(d / g)", kMinite,
     "a product of 0 counts as 1e8, so codes are 0x0 or 0x8; NaN gives 0x7", kZerosRun,
     "vLLM's NVFP4 emulation of 2026-08"},
    {C::flashinfer, kNvfp4, G::multiplier, EnumSet<O>{O::tensor, O::expert, O::row}, kAmax, false,
     "as te, but A = 0 gives S = FMAX", "as te", "q * fl(d * s), s = fl(1/S)", kMinite, "as te", kFormula,
     "FlashInfer fb28d724, exact mode (TRTLLM_DISABLE_FP4_QUANT_FAST_MATH=1)"},
    {C::flashinfer_test, kNvfp4, G::reciprocal, kTensor, kAmax, false,
     "g = fl(fl(1/A) * 2688); d = cast(fl(g * fl(a * fl(1/6)))), not saturating",
     "nearest even of fl(x * fl(1 / fl(d * fl(1/g)))), saturating", "q * fl(d / g)", kMinite,
     "a product of 0 gives codes 0x0; above 464 d is NaN; NaN gives 0x7", kZerosRun,
     "FlashInfer fb28d724, tests' reference"},
    {C::fouroversix, kNvfp4, G::amax, kTensor,
     EnumSet<S>{S::amax, S::amax4, S::four_six_mae, S::four_six_mse, S::four_six_abs_max}, false,
     "e = fl(R/A), R = 6 or 4 times 448 or 256; d = cast(fl(fl(a/6) * e)), of the 4: * 1.5",
     "nearest even of fl(x * fl(1 / fl(d * fl(1/e)))) on the grid 0..6, 8, 12, low 4 bits",
     "q * fl(fl(d * A) / R)", kMinite,
     "d = 0 gives codes 0; |y| >= 7 overflows into code 0x8 or 0x9; NaN gives 0xB; A = 0: all 0",
     "formula; vectors of a scale that overflows to NaN",
     "fouroversix dadfad69: static_6, static_4, mse, mae, abs_max"},
    {C::ggml, kNvfp4, G::none, kNone, kAmax, false,
     "d = UE4M3(fl(a/6)), half up on one bit; 248 and above is 448",
     "nearest of the 16 values fl(q * d), ties to the lowest index", "q * d", kMinite,
     "never 0x8; NaN does not count and gives 0x0; decode: 0x7F is 0, 0xFF is 480, the top bit is ignored",
     kFormula, "ggml d99724f2"},
    mx(C::ggml, kMxfp4, "b = floor(fl(log2 a)) - 2 + 127, low 8 bits",
       "nearest of the 16 values, ties to the lowest",
       "below 2^-125 b wraps; every byte is a number, 0xFF too; NaN does not count and gives 0x0",
       "ggml d99724f2", "formula; inf is undefined: converted to a byte"),
    mx(C::rceil, kMx, "b = fl(a * fl(1/max)) rounded up to a power of two", kNearest, kAoNan,
       "torchao 36027d82 RCEIL"),
    mx(C::floor, kMx, "b = exponent of a - max_exponent (OCP MX 1.0)", kNearest, kAoNan,
       "torchao 36027d82 FLOOR"),
    mx(C::even, kMx, "b = exponent of (a + half an element ulp) - max_exponent", kNearest, kAoNan,
       "torchao 36027d82 EVEN", "formula; vectors of an amax that rounds up to 2^128"),
    mx(C::ceil, kMx, "b = exponent of a, plus 1 unless a is a power of two, - max_exponent", kNearest, kAoNan,
       "torchao 36027d82 CEIL"),
    mx(C::microxcaling, kMx, "b = floor(fl(log2 a)) - max_exponent",
       "half away from zero of fl(x * 2^(127-b)), saturating", "inf or NaN in a block: b = 0xFF",
       "microxcaling 7bc41952, round=\"nearest\" (its \"even\" is floor)"),
};

}  // namespace

std::span<const ConventionRow> conventions() { return kRows; }

const ConventionRow* find_convention(Convention id, FormatId format) {
  for (const ConventionRow& row : conventions()) {
    if (row.id == id && row.formats.has(format)) return &row;
  }
  return nullptr;
}

Convention parse_convention(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConventionRow& row : conventions()) {
    if (to_string(row.id) == name) return row.id;
    names.push_back(to_string(row.id));
  }
  fail(ErrorCode::not_found, "unknown convention '{}'{}; `minite formats --conventions` lists all", name,
       did_you_mean(name, names));
}

}  // namespace minite
