// New vectors: the conventions' formulas written down once more, from the published descriptions alone, in
// FP64 with explicit roundings and codes found by search. Random shapes, seeds and magnitudes, finite values.
// An FP32 operation is its FP64 result rounded once more, which is exact for + - * /.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "core/philox.h"
#include "ops/ops.h"

namespace minite {
namespace {

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }
double to_bf16(double x) { return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x)))); }

/// Magnitudes of a format by code, ascending.
std::vector<double> grid(int exponent_bits, int mantissa_bits, int largest_code) {
  std::vector<double> values;
  const int bias = (1 << (exponent_bits - 1)) - 1, steps = 1 << mantissa_bits;
  for (int code = 0; code <= largest_code; ++code) {
    const int e = code / steps, m = code % steps;
    values.push_back(e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits)
                            : std::ldexp(steps + m, e - bias - mantissa_bits));
  }
  return values;
}
const std::vector<double> kE2M1 = grid(2, 1, 7), kE4M3 = grid(4, 3, 0x7E), kE5M2 = grid(5, 2, 0x7B);

/// Code of the nearest magnitude, ties to the even code; past the end the last.
int nearest(const std::vector<double>& values, double m) {
  int best = 0;
  for (int code = 1; code < static_cast<int>(values.size()); ++code) {
    const double was = std::fabs(values[static_cast<size_t>(best)] - m),
                 now = std::fabs(values[static_cast<size_t>(code)] - m);
    if (now < was || (now == was && code % 2 == 0)) best = code;
  }
  return best;
}
double e4m3(double x) { return kE4M3[static_cast<size_t>(nearest(kE4M3, x))]; }

/// What a formula makes of one block: the scale's byte, and what x becomes before it is rounded to a code.
struct Block {
  int byte;
  std::function<double(double)> scaled;
};
/// Block of a convention from the block's amax and the tensor's.
using Formula = std::function<Block(double a, double amax)>;

Block e4m3_block(double t, const std::function<double(double, double)>& scaled) {
  const int byte = nearest(kE4M3, t);
  const double d = kE4M3[static_cast<size_t>(byte)];
  return {byte, [d, scaled](double x) { return scaled(x, d); }};
}
Block modelopt(double a, double amax) {
  const double s = f32(amax / 2688), t = f32(a / f32(6 * s));
  return e4m3_block(std::clamp(t == 0 ? 1.0 : t, 0x1p-9, 448.0),
                    [s](double x, double d) { return f32(x / f32(d * s)); });
}
Block compressed_tensors(double a, double amax, const std::function<double(double)>& round) {
  const double g = round(f32(round(f32(1 / amax)) * 2688)), t = std::min(f32(g * round(f32(a / 6))), 448.0);
  const auto scaled = [g](double x, double d) { return f32(x / f32(d / g)); };
  return e4m3_block(e4m3(t) == 0 ? 0.125 : t, scaled);
}
Block torchao(double a, double amax) {
  const double s = f32(amax / 2688);
  return e4m3_block(std::clamp(f32(f32(a / 6) / s), 0x1p-6, 448.0),
                    [s](double x, double d) { return f32(x * f32(f32(1 / s) / d)); });
}
Block torchao_1level(double a, double) {
  return e4m3_block(std::clamp(f32(a / 6), 0x1p-6, 448.0),
                    [](double x, double d) { return f32(x * f32(1 / d)); });
}
Block vllm(double a, double amax) {
  const double g = f32(f32(1 / amax) * 2688);
  return e4m3_block(f32(g * f32(a * f32(1.0 / 6))), [g](double x, double d) {
    const double p = f32(d * f32(1 / g));
    return f32(x * f32(1 / (p == 0 ? 1e8 : p)));
  });
}
Block transformer_engine(double a, double amax) {
  const double s = f32(2688 / amax), s_dec = f32(1 / s);
  return e4m3_block(f32(a * f32(s * f32(1.0 / 6))), [s_dec](double x, double d) {
    return f32(x * std::min(f32(1 / f32(d * s_dec)), 0x1.fffffep127));
  });
}

/// An E8M0 block of exponent e.
Block power_block(int e) {
  const int clamped = std::clamp(e, -127, 127);
  return {clamped + 127, [clamped](double x) { return f32(std::ldexp(x, -clamped)); }};
}
int floor_exponent(double x) { return x == 0 ? -1000 : std::ilogb(x); }
int ceil_exponent(double x) {
  return x == 0 ? -1000 : std::ilogb(x) + (std::scalbn(1.0, std::ilogb(x)) < x ? 1 : 0);
}

struct Element {
  FormatId format;
  const std::vector<double>* values;
  int max_exponent, mantissa;
};
const Element kElements[] = {
    {FormatId::mxfp4, &kE2M1, 2, 1}, {FormatId::mxfp8, &kE4M3, 8, 3}, {FormatId::mxfp8_e5m2, &kE5M2, 15, 2}};

/// x of one draw: normal-like sums at a magnitude per row, and zeros.
std::vector<float> draw(uint64_t seed, int64_t rows, int64_t cols, DType dtype) {
  std::vector<float> x(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto word = Philox::generate(seed, static_cast<uint64_t>(i), 1);
    const float sum = Philox::unit(word[0]) + Philox::unit(word[1]) + Philox::unit(word[2]) - 1.5f;
    const float value =
        word[3] % 31 == 0
            ? 0.0f
            : std::ldexp(sum, static_cast<int>(seed * 7 + static_cast<uint64_t>(i / cols)) % 9 - 4);
    x[static_cast<size_t>(i)] = dtype == DType::bf16 ? static_cast<float>(bf16(value)) : value;
  }
  return x;
}

/// Compares `spec` with a formula on every backend; returns the number of codes compared.
int64_t compare(const QuantSpec& spec, const Formula& formula, const std::vector<double>& values,
                DType dtype) {
  ThreadPool pool(2);
  int64_t compared = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto word = Philox::generate(seed, 99, 0);
    const int64_t rows = 1 + word[0] % 20, cols = 1 + word[1] % 200, size = spec.block_size();
    const std::vector<float> x = draw(seed, rows, cols, dtype);
    std::vector<bf16> narrow(x.begin(), x.end());
    void* data = dtype == DType::bf16 ? static_cast<void*>(narrow.data()) : const_cast<float*>(x.data());
    double amax = 0;
    for (const float v : x) amax = std::max(amax, std::fabs(static_cast<double>(v)));
    for (const Backend& backend : backends()) {
      if (backend.table == nullptr) continue;
      Buffer memory(QTensor::bytes(spec, rows, cols));
      const QTensor q = QTensor::place(spec, rows, cols, memory.data());
      ops::quantize({backend.table, &pool, nullptr, {}},
                    {{data, dtype, rows, cols}, Orientation::rows, q, {}});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t begin = 0; begin < cols; begin += size) {
          const int64_t end = std::min(begin + size, cols);
          double a = 0;
          for (int64_t c = begin; c < end; ++c)
            a = std::max(a, std::fabs(static_cast<double>(x[static_cast<size_t>(r * cols + c)])));
          const Block block = formula(a, amax);
          EXPECT_EQ(q.block_scales[r * q.scale_stride() + begin / size], block.byte)
              << to_string(spec) << " " << a;
          for (int64_t c = begin; c < end; ++c, ++compared) {
            const double y = block.scaled(static_cast<double>(x[static_cast<size_t>(r * cols + c)]));
            const int bits = format(spec.format).bits,
                      at = bits == 4 ? static_cast<int>(c / 2) : static_cast<int>(c);
            const uint8_t byte = q.codes[r * q.code_stride() + at];
            const int code = bits == 8 ? byte : c % 2 == 0 ? byte & 15 : byte >> 4;
            EXPECT_EQ(code, nearest(values, std::fabs(y)) | (y < 0 ? 1 << (bits - 1) : 0))
                << to_string(spec) << " seed " << seed << " at " << r << "," << c;
          }
        }
      }
    }
  }
  return compared;
}

constexpr QuantSpec nvfp4(Convention convention, OuterScale outer = OuterScale::tensor) {
  return {.format = FormatId::nvfp4, .outer = outer, .convention = convention};
}

TEST(Formulas, Nvfp4) {
  using C = Convention;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const auto same = [](double x) { return x; };
    const std::function<double(double)> stats = dtype == DType::bf16 ? to_bf16 : +same;
    int64_t compared = 0;
    const auto check = [&](const QuantSpec& spec, const Formula& formula) {
      compared += compare(spec, formula, kE2M1, dtype);
    };
    check(nvfp4(C::te), transformer_engine);
    check(nvfp4(C::flashinfer), transformer_engine);
    check(nvfp4(C::modelopt), modelopt);
    check(nvfp4(C::compressed_tensors),
          [&](double a, double amax) { return compressed_tensors(a, amax, stats); });
    check(nvfp4(C::compressed_tensors_f32),
          [&](double a, double amax) { return compressed_tensors(a, amax, same); });
    check(nvfp4(C::torchao), torchao);
    check(nvfp4(C::torchao_1level, OuterScale::none), torchao_1level);
    check(nvfp4(C::vllm), vllm);
    EXPECT_GT(compared, 10000);
  }
}

TEST(Formulas, Mx) {
  using C = Convention;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const Element& e : kElements) {
      const double max = e.values->back();
      const Formula rceil = [max](double a, double) {
        return power_block(ceil_exponent(f32(a * f32(1 / max))));
      };
      const auto check = [&](Convention convention, const Formula& formula) {
        EXPECT_GT(compare({.format = e.format, .convention = convention}, formula, *e.values, dtype), 1000);
      };
      check(C::te, rceil);
      check(C::rceil, rceil);
      check(C::floor, [&](double a, double) { return power_block(floor_exponent(a) - e.max_exponent); });
      check(C::ceil, [&](double a, double) { return power_block(ceil_exponent(a) - e.max_exponent); });
      check(C::even, [&](double a, double) {
        const double half_step = std::ldexp(1.0, floor_exponent(a) - e.mantissa - 1);
        return power_block(floor_exponent(a + half_step) - e.max_exponent);
      });
    }
  }
}

}  // namespace
}  // namespace minite
