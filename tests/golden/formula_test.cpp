// New vectors for NVFP4: the conventions' formulas written down once more (golden/formula.h says how), on
// random shapes, seeds and magnitudes, infinities and NaN included.
#include "golden/formula.h"

#include <gtest/gtest.h>

namespace minite::golden {
namespace {

const double kSixth = f32(1.0 / 6);

/// Sign in bit 3: of numbers below zero, or of -0 and NaN as well.
int below_zero(double y) { return y < 0 ? 8 : 0; }
/// E2M1 of y; `nan` is the code of NaN.
int e2m1(double y, int nan) { return std::isnan(y) ? nan : nearest(kE2M1, std::fabs(y)) | below_zero(y); }
double e2m1_value(int code) {
  return std::copysign(kE2M1[static_cast<size_t>(code & 7)], code < 8 ? 1.0 : -1.0);
}
using Value = std::function<double(int code, int byte, double global)>;

// --- decoded values, in the projects' order ---
double block_only(int code, int byte, double) { return mul(e2m1_value(code), e4m3_value(byte)); }
double times_global(int code, int byte, double global) {
  return mul(e2m1_value(code), mul(e4m3_value(byte), global));
}
double over_global(int code, int byte, double global) {
  return mul(e2m1_value(code), div(e4m3_value(byte), global));
}
Value amax_over(double range) {
  return [range](int code, int byte, double amax) {
    return mul(e2m1_value(code), div(mul(e4m3_value(byte), amax), range));
  };
}

// --- Transformer Engine and FlashInfer ---
/// S, whose amax of 0 gives 1 in one and FLT_MAX in the other.
double te_encode(double amax, double range, bool zero_is_one) {
  const double s = std::isnan(amax) ? amax : std::min(div(range, amax), kFmax);
  return s == 0 || (zero_is_one && amax == 0) ? 1.0 : s;
}
double te_factor(int byte, double s) {
  const double e = div(1, mul(e4m3_value(byte), div(1, s)));
  return std::isnan(e) ? e : std::min(e, kFmax);
}
Formula te_like(bool zero_is_one) {
  Formula f;
  f.global = [=](double amax) { return zero_is_one ? amax : div(1, te_encode(amax, 2688, false)); };
  f.encode = [=](std::span<const double> x, double a, double amax) {
    const double s = te_encode(amax, 2688, zero_is_one);
    const int byte = saturating_e4m3(mul(a, mul(s, kSixth)));
    return each(byte, x, [=](double v) { return e2m1(mul(v, te_factor(byte, s)), 0); });
  };
  f.decode = zero_is_one ? Value([](int code, int byte, double amax) {
    return mul(e2m1_value(code), mul(mul(e4m3_value(byte), amax), f32(1.0 / 2688)));
  })
                         : Value(times_global);
  return f;
}

// --- ModelOpt ---
Formula modelopt() {
  Formula f;
  f.global = [](double amax) { return div(amax, 2688); };
  f.encode = [](std::span<const double> x, double a, double amax) {
    const double s = div(amax, 2688), t = div(a, mul(6, s));
    const int byte = cast(clamp(t == 0 ? 1.0 : t, 0x1p-9, 448));
    return each(byte, x, [=](double v) { return e2m1(div(v, mul(e4m3_value(byte), s)), 7); });
  };
  f.decode = times_global;
  return f;
}

// --- compressed-tensors; `round` is to the dtype of the statistics ---
Formula compressed_tensors(const std::function<double(double)>& round) {
  Formula f;
  const auto global = [round](double amax) {
    const double g = round(mul(round(div(1, amax)), 2688));
    return std::isfinite(g) ? g : 1.0;
  };
  f.global = global;
  f.encode = [=](std::span<const double> x, double a, double amax) {
    const double g = global(amax);
    const int t = cast(clamp(mul(g, round(div(a, 6))), -448, 448)), byte = t == 0 ? 0x20 : t;
    return each(byte, x, [=](double v) { return e2m1(div(v, div(e4m3_value(byte), g)), 0); });
  };
  f.decode = over_global;
  return f;
}

// --- torchao ---
/// -0 and NaN keep their sign; a NaN's code is what integer rounding makes of its upper bits.
int torchao_code(double y) {
  const int sign = std::signbit(y) ? 8 : 0;
  if (!std::isnan(y)) return nearest(kE2M1, std::fabs(y)) | sign;
  const uint32_t mantissa = std::bit_cast<uint32_t>(static_cast<float>(y)) & 0x7FFFFFu;
  return (mantissa >= 0x600000u ? 4 : 3) | sign;
}
Formula torchao() {
  Formula f;
  f.global = [](double amax) { return div(amax, 2688); };
  f.encode = [](std::span<const double> x, double a, double amax) {
    const double s = div(amax, 2688);
    const int byte = cast(clamp(div(div(a, 6), s), 0x1p-6, 448));
    return each(byte, x, [=](double v) { return torchao_code(mul(v, div(div(1, s), e4m3_value(byte)))); });
  };
  f.decode = times_global;
  return f;
}
Formula torchao_1level() {
  Formula f;
  f.encode = [](std::span<const double> x, double a, double) {
    const int byte = cast(clamp(div(a, 6), 0x1p-6, 448));
    return each(byte, x, [=](double v) { return torchao_code(mul(v, div(1, e4m3_value(byte)))); });
  };
  f.decode = block_only;
  return f;
}

// --- vLLM's emulation and the reference of FlashInfer's tests ---
Formula emulation(bool clamps, double factor_of_zero) {
  Formula f;
  const auto global = [](double amax) { return mul(div(1, amax), 2688); };
  f.global = global;
  f.encode = [=](std::span<const double> x, double a, double amax) {
    const double g = global(amax), t = mul(g, mul(a, kSixth));
    const int byte = cast(clamps ? clamp(t, -448, 448) : t);
    const double p = mul(e4m3_value(byte), div(1, g)), factor = p == 0 ? factor_of_zero : div(1, p);
    return each(byte, x, [=](double v) { return e2m1(mul(v, factor), 7); });
  };
  f.decode = over_global;
  return f;
}

// --- fouroversix ---
/// E2M1's steps continued beyond 6: a block whose scale was rounded down far reaches 8 and 12.
std::vector<double> beyond() {
  std::vector<double> values(kE2M1.begin(), kE2M1.end());
  for (double power = 8; power < 4096; power *= 2) values.insert(values.end(), {power, 1.5 * power});
  return values;
}
struct Candidate {
  Coded block;
  double error = 0;
};
Candidate candidate(std::span<const double> x, int byte, double amax, double range, ScaleSearch search) {
  static const std::vector<double> kValues = beyond();
  const double d = e4m3_value(byte), scale = div(1, div(range, amax));
  const double factor = byte == 0 ? 0 : div(1, mul(d, scale));
  Candidate result{{byte, {}}, 0};
  for (const double v : x) {
    const double y = mul(v, factor);
    const int magnitude = std::isnan(y) ? 0 : nearest(kValues, std::fabs(y));
    result.block.codes.push_back(std::isnan(y) ? 0xB : (magnitude | below_zero(y)) & 15);
    const double q = std::isnan(y) ? y : std::copysign(kValues[static_cast<size_t>(magnitude)], y);
    const double distance = std::fabs(sub(div(mul(mul(q, d), amax), range), v));
    if (search == ScaleSearch::four_six_abs_max)
      result.error = std::isnan(distance) ? distance : std::max(result.error, distance);
    else
      result.error =
          add(result.error, search == ScaleSearch::four_six_mse ? mul(distance, distance) : distance);
  }
  return result;
}
Formula fouroversix(ScaleSearch search, double scale_max) {
  const double target = search == ScaleSearch::amax4 ? 4 : 6, range = target * scale_max;
  Formula f;
  f.global = [](double amax) { return amax; };
  f.encode = [=](std::span<const double> x, double a, double amax) {
    if (amax == 0) return each(0, x, [](double) { return 0; });
    const double base = mul(div(a, target), div(range, amax));
    const Candidate six = candidate(x, cast(base), amax, range, search);
    if (search == ScaleSearch::amax || search == ScaleSearch::amax4) return six.block;
    const Candidate four = candidate(x, cast(mul(base, 1.5)), amax, range, search);
    return four.error < six.error ? four.block : six.block;
  };
  f.decode = amax_over(range);
  return f;
}

// --- ggml ---
/// Half of unsigned E4M3: 0x7F is 0 too.
double ggml_half(int byte) { return byte == 0x7F ? 0 : kE4M3[static_cast<size_t>(byte)] / 2; }
/// Half up on one bit beyond the mantissa, nothing below it; from 248 on 448.
int ggml_byte(double t) {
  if (!(t > 0)) return 0;
  if (t >= 248) return 0x7E;
  if (t < 0x1p-6) return std::min(7, static_cast<int>(std::floor(t * 512 + 0.5)));
  const int e = std::ilogb(t);
  const int steps = static_cast<int>(std::floor(std::ldexp(t, 4 - e)));  // 16..31: mantissa and one bit more
  return (e + 7) * 8 + (steps + 1) / 2 - 8;
}
/// The first of the 16 values whose FP32 distance to x is smallest; 8 is another 0.
int ggml_code(double x, double half) {
  int best = 0;
  double smallest = kInf;
  for (int code = 0; code < 16; ++code) {
    const double value = code == 8 ? 0.0 : f32(2 * e2m1_value(code) * half);
    const double distance = std::fabs(sub(value, x));
    if (distance < smallest) {
      smallest = distance;
      best = code;
    }
  }
  return best;
}
Formula ggml() {
  Formula f;
  f.nan_counts = false;
  f.encode = [](std::span<const double> x, double a, double) {
    const int byte = ggml_byte(div(a, 6));
    return each(byte, x, [=](double v) { return ggml_code(v, ggml_half(byte)); });
  };
  f.decode = [](int code, int byte, double) { return mul(2 * e2m1_value(code), ggml_half(byte)); };
  return f;
}

constexpr QuantSpec nvfp4(Convention convention, OuterScale outer = OuterScale::tensor) {
  return {.format = FormatId::nvfp4, .outer = outer, .convention = convention};
}
void check(const QuantSpec& spec, const Formula& formula, DType dtype) {
  EXPECT_GT(compare(spec, formula, dtype), 10000) << to_string(spec);
}

class Formulas : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, Formulas, ::testing::Values(DType::bf16, DType::f16, DType::f32),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

TEST_P(Formulas, Nvfp4) {
  using C = Convention;
  const DType dtype = GetParam();
  const auto same = [](double x) { return x; };
  check(nvfp4(C::te), te_like(true), dtype);
  check(nvfp4(C::flashinfer), te_like(false), dtype);
  check(nvfp4(C::modelopt), modelopt(), dtype);
  check(nvfp4(C::compressed_tensors),
        dtype == DType::bf16  ? compressed_tensors(to_bf16)
        : dtype == DType::f16 ? compressed_tensors(to_f16)
                              : compressed_tensors(same),
        dtype);
  check(nvfp4(C::compressed_tensors_f32), compressed_tensors(same), dtype);
  check(nvfp4(C::torchao), torchao(), dtype);
  check(nvfp4(C::torchao_1level, OuterScale::none), torchao_1level(), dtype);
  check(nvfp4(C::vllm), emulation(true, div(1, 1e8)), dtype);
  check(nvfp4(C::flashinfer_test), emulation(false, 0), dtype);
  check(nvfp4(C::ggml, OuterScale::none), ggml(), dtype);
}

TEST_P(Formulas, FourOverSix) {
  using S = ScaleSearch;
  for (const int16_t scale_max : {int16_t{448}, int16_t{256}}) {
    for (const S search : {S::amax, S::amax4, S::four_six_mae, S::four_six_mse, S::four_six_abs_max}) {
      QuantSpec spec = nvfp4(Convention::fouroversix);
      spec.search = search;
      spec.scale_max = scale_max;
      check(spec, fouroversix(search, static_cast<double>(scale_max)), GetParam());
    }
  }
}

}  // namespace
}  // namespace minite::golden
