#include <gtest/gtest.h>

#include "backends/registry.h"
#include "core/memory.h"
#include "core/philox.h"
#include "golden/formula.h"
#include "ops/ops.h"

namespace minite::golden {
namespace {

/// What a drawn tensor is made of.
enum class Kind : uint8_t {
  ordinary,    ///< normal-like sums at a magnitude per row, and zeros
  tiny,        ///< FP32 subnormals and a little above
  huge,        ///< up to FLT_MAX
  spread,      ///< blocks far below the tensor's amax
  ties,        ///< midpoints of E2M1 and their neighbours, at powers of two
  scale_ties,  ///< block amaxes at and around midpoints of E4M3 scales
  loud,        ///< block amaxes about the end of E4M3 scales that have no outer scale
  powers,      ///< block amaxes at and around powers of two, also times an element's largest value
  sparse,      ///< zeros of both signs, few other values
  zeros,       ///< nothing else
  infinities,  ///< ordinary with some +-inf
  nans,        ///< ordinary with some +-NaN
  both,        ///< inf and NaN, also as neighbours
};

float ordinary(const std::array<uint32_t, 4>& word) {
  return Philox::unit(word[0]) + Philox::unit(word[1]) + Philox::unit(word[2]) - 1.5f;
}
float tie(const std::array<uint32_t, 4>& word) {
  constexpr std::array<float, 12> kPoints = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f,
                                             5.0f,  6.0f,  4.0f,  7.0f,  1.0f, 1.5f};
  const float x = std::ldexp(kPoints[word[0] % 12], static_cast<int>(word[1] % 4) - 2);
  const float at = word[1] >> 8 & 1   ? x
                   : word[1] >> 9 & 1 ? std::nextafter(x, 0.0f)
                                      : std::nextafter(x, 1e9f);
  return word[2] & 1 ? -at : at;
}
/// x, up to two ulps away, with either sign.
float nudged(float x, const std::array<uint32_t, 4>& word) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + word[1] % 5 - 2) | word[0] << 31);
}
/// 6 or 4 times a midpoint of E4M3, one for each block, and here and there what an outer scale maps to 448;
/// all of them in a unit of the draw.
float scale_tie(const std::array<uint32_t, 4>& word, int block, uint64_t seed) {
  constexpr std::array<float, 3> kAmaxes = {2688.0f, 1536.0f, 1792.0f};
  const float unit = seed % 5 == 0 ? 1.0f : 1.0f + Philox::unit(Philox::generate(seed, 98, 0)[0]);
  if (word[3] % 97 == 0) return kAmaxes[word[3] / 97 % 3] * unit;
  const float midpoint = std::ldexp(17.0f + static_cast<float>(block % 8 * 2), block / 8 % 6 - 4);
  return nudged(midpoint * (word[2] & 1 ? 6.0f : 4.0f) * unit, word);
}
/// Within a few ulps of a point times the power of two of its block.
float power(const std::array<uint32_t, 4>& word, int block) {
  constexpr std::array<float, 8> kPoints = {1.0f, 1.0f, 1.75f, 6.0f, 448.0f, 57344.0f, 248.0f, 7.0f};
  const float x = std::ldexp(kPoints[static_cast<uint32_t>(block) / 2 % 8], block * 7 % 230 - 125);
  const uint32_t near = std::bit_cast<uint32_t>(x) + word[1] % 3 * (word[2] % 101) - word[1] % 3 * 50;
  return std::bit_cast<float>(near | word[0] << 31);
}
/// +-inf or +-NaN, or `x` for most words.
float not_finite(float x, const std::array<uint32_t, 4>& word, bool inf, bool nan) {
  if (word[3] % 37 != 0) return x;
  const float value = nan && (!inf || word[3] >> 8 & 1) ? std::numeric_limits<float>::quiet_NaN()
                                                        : std::numeric_limits<float>::infinity();
  return std::copysign(value, word[3] >> 9 & 1 ? 1.0f : -1.0f);
}

struct Draw {
  Kind kind;
  uint64_t seed;
  int64_t cols;

  [[nodiscard]] float value(int64_t i) const {
    const auto word = Philox::generate(seed, static_cast<uint64_t>(i), 1);
    const auto row = static_cast<int>(i / cols), block = static_cast<int>(i / 16);
    const float sum = ordinary(word), x = std::ldexp(sum, (static_cast<int>(seed) * 7 + row) % 9 - 4);
    switch (kind) {
      case Kind::ordinary:
        return word[3] % 31 == 0 ? 0.0f : x;
      case Kind::tiny:
        return std::ldexp(sum, -126 - static_cast<int>((seed + word[3] % 3) % 24));
      case Kind::huge:
        return std::copysign(std::ldexp(0.5f + std::fabs(sum) / 3.01f, 128 - row % 3), sum);
      case Kind::spread:
        return std::ldexp(sum, -(block * 5 % 61));
      case Kind::ties:
        return tie(word);
      case Kind::scale_ties:
        return scale_tie(word, block, seed);
      case Kind::loud:
        return sum * 1300;
      case Kind::powers:
        return power(word, block);
      case Kind::sparse:
        return word[3] % 29 == 0 ? x : std::copysign(0.0f, sum);
      case Kind::zeros:
        return std::copysign(0.0f, sum);
      case Kind::infinities:
        return not_finite(x, word, true, false);
      case Kind::nans:
        return not_finite(x, word, false, true);
      case Kind::both:
        return not_finite(x, word, true, true);
    }
    return 0;
  }
};

double largest(std::span<const double> x, bool nan_counts) {
  double a = 0;
  for (const double v : x) {
    if (std::isnan(v)) {
      if (nan_counts) return kNan;
    } else {
      a = std::max(a, std::fabs(v));
    }
  }
  return a;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// One tensor, and what the formula says of it.
struct Expected {
  std::vector<double> x;
  double global = 1;
  std::vector<Coded> blocks;  ///< row by row
};
Expected expected(const QuantSpec& spec, const Formula& formula, std::span<const float> x, int64_t cols) {
  Expected e;
  e.x.assign(x.begin(), x.end());
  const double amax = largest(e.x, formula.nan_counts);
  e.global = formula.global(amax);
  const auto size = static_cast<size_t>(spec.block_size()), width = static_cast<size_t>(cols);
  for (size_t row = 0; row < e.x.size(); row += width) {
    for (size_t c = 0; c < width; c += size) {
      std::vector<double> block(e.x.begin() + static_cast<int64_t>(row + c),
                                e.x.begin() + static_cast<int64_t>(row + std::min(c + size, width)));
      block.resize(size);  // a cut block counts as padded with zeros
      e.blocks.push_back(formula.encode(block, largest(block, formula.nan_counts), amax));
    }
  }
  return e;
}

int code_of(const QTensor& q, int64_t r, int64_t c) {
  const int bits = format(q.spec.format).bits;
  const uint8_t byte = q.codes[r * q.code_stride() + (bits == 4 ? c / 2 : c)];
  return bits == 8 ? byte : c % 2 == 0 ? byte & 15 : byte >> 4;
}

/// Differences of one tensor; stops at the first few.
int64_t check(const QTensor& q, std::span<const float> y, const Expected& e, const Formula& formula) {
  const int64_t size = q.spec.block_size();
  int64_t compared = 0;
  int shown = 0;
  EXPECT_PRED2(same, static_cast<double>(q.stored_global(0)), e.global);
  for (int64_t r = 0; r < q.rows && shown < 3; ++r) {
    for (int64_t c = 0; c < q.cols; ++c, ++compared) {
      const int64_t at = r * q.scale_stride() + c / size, i = r * q.cols + c;
      const Coded& block = e.blocks[static_cast<size_t>(at)];
      const int code = code_of(q, r, c), want = block.codes[static_cast<size_t>(c % size)];
      const double value = static_cast<double>(y[static_cast<size_t>(i)]),
                   decoded = formula.decode(want, block.byte, e.global);
      if (q.block_scales[at] == block.byte && code == want && same(value, decoded)) continue;
      ADD_FAILURE() << "at " << r << "," << c << " x " << e.x[static_cast<size_t>(i)] << ": scale "
                    << int{q.block_scales[at]} << " code " << code << " value " << value << ", expected "
                    << block.byte << " " << want << " " << decoded;
      if (++shown == 3) break;
    }
  }
  return compared;
}

}  // namespace

int64_t compare(const QuantSpec& spec, const Formula& formula, DType dtype) {
  ThreadPool pool(2);
  int64_t compared = 0;
  constexpr uint64_t kKinds = static_cast<uint64_t>(Kind::both) + 1;
  for (uint64_t draw = 0; draw < 6 * kKinds; ++draw) {
    const auto word = Philox::generate(draw, 99, 0);
    const int64_t rows = 1 + word[0] % 7, cols = 1 + word[1] % 130;
    const auto kind = static_cast<Kind>(draw % kKinds);
    std::vector<float> x;
    for (int64_t i = 0; i < rows * cols; ++i) {
      const float value = Draw{kind, draw, cols}.value(i);
      x.push_back(dtype == DType::bf16  ? static_cast<float>(bf16(value))
                  : dtype == DType::f16 ? static_cast<float>(to_f16(static_cast<double>(value)))
                                        : value);
    }
    std::vector<bf16> narrow(x.begin(), x.end());
    void* data = dtype == DType::bf16 ? static_cast<void*>(narrow.data()) : x.data();
    const Expected want = expected(spec, formula, x, cols);
    for (const Backend& backend : backends()) {
      if (backend.table == nullptr) continue;
      SCOPED_TRACE(to_string(spec) + " of " + std::string(dtype_name(dtype)) + ", kind " +
                   std::to_string(static_cast<int>(kind)) + ", draw " + std::to_string(draw) + ", " +
                   std::string(backend.name));
      const Context ctx{backend.table, &pool, nullptr, {}};
      Buffer memory(QTensor::bytes(spec, rows, cols));
      const QTensor q = QTensor::place(spec, rows, cols, memory.data());
      ops::quantize(
          ctx,
          {{data, dtype == DType::bf16 ? dtype : DType::f32, rows, cols}, Orientation::rows, q, {}, dtype});
      std::vector<float> y(x.size());
      ops::dequantize(ctx, {q, TensorView(y.data(), rows, cols)});
      compared += check(q, y, want, formula);
      if (::testing::Test::HasFailure()) return compared;
    }
  }
  return compared;
}

}  // namespace minite::golden
