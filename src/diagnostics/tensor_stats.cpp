#include "diagnostics/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/fail.h"
#include "formats/element_codes.h"
#include "ops/code_stats.h"
#include "ops/ops.h"

// The same loops in wider vectors where the processor has them. The bits are the same: lanes are fixed and
// nothing is contracted.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define MINITE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define MINITE_CLONES
#endif

namespace minite::diagnostics {
namespace {

constexpr int64_t kChunk = 4096;              ///< elements
constexpr int64_t kPiece = int64_t{1} << 16;  ///< elements that are decoded at a time
constexpr int64_t kInline = 8;                ///< fewer chunks are not worth waking threads
constexpr int kLanes = 8;

// Eight lanes: element i goes to lane i mod 8, of whichever width the processor's vectors are.
using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using HalfFloats = float __attribute__((vector_size(16)));
using HalfDoubles = double __attribute__((vector_size(32)));

struct Doubles {
  HalfDoubles low{}, high{};
  [[gnu::always_inline]] static Doubles of(const Floats& x) {
    HalfFloats parts[2];
    std::memcpy(parts, &x, sizeof x);
    return {__builtin_convertvector(parts[0], HalfDoubles), __builtin_convertvector(parts[1], HalfDoubles)};
  }
  [[gnu::always_inline]] Doubles operator-(const Doubles& b) const { return {low - b.low, high - b.high}; }
  [[gnu::always_inline]] Doubles operator*(const Doubles& b) const { return {low * b.low, high * b.high}; }
  [[gnu::always_inline]] void add(const Doubles& b) { low += b.low, high += b.high; }
  [[gnu::always_inline]] Doubles abs() const {
    const HalfDoubles zero{};
    return {low < 0 ? zero - low : low, high < 0 ? zero - high : high};
  }
  [[nodiscard]] double sum() const {
    const HalfDoubles s = low + high;
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
};

[[nodiscard]] int64_t sum(const Ints& x) {
  int64_t total = 0;
  for (int j = 0; j < kLanes; ++j) total += x[j];
  return total;
}

/// Elements [i, i + 8), of which those from n on are `pad`.
[[gnu::always_inline]] inline Floats load(const float* x, size_t i, size_t n, float pad) {
  Floats v;
  if (i + kLanes <= n) {
    std::memcpy(&v, x + i, sizeof v);
  } else {
    for (size_t j = 0; j < kLanes; ++j) v[j] = i + j < n ? x[i + j] : pad;
  }
  return v;
}

MINITE_CLONES bool all_finite(std::span<const float> x) {
  uint32_t bad = 0;
  for (const float v : x) bad |= (std::bit_cast<uint32_t>(v) & 0x7F800000u) == 0x7F800000u ? 1u : 0u;
  return bad == 0;
}

/// Elements of one chunk, all finite. Sums run over x - x[0], so that a large mean takes no digits; the
/// padding of the last lanes is x[0] there.
MINITE_CLONES ValueStats finite_chunk(std::span<const float> x) {
  ValueStats s;
  const size_t n = x.size();
  s.count = static_cast<int64_t>(n);
  if (n == 0) return s;
  const Floats none{}, infinity = none + std::numeric_limits<float>::infinity();
  const float first = x[0];
  const Doubles shift = Doubles::of(none + first);
  Floats low = infinity, high = -infinity, tiny = infinity;
  Ints zeros{};
  Doubles total, squares, absolute;
  for (size_t i = 0; i < n; i += kLanes) {
    const Floats v = load(x.data(), i, n, first);
    const Floats size = v < 0 ? -v : v, nonzero = v == 0 ? infinity : size;
    low = v < low ? v : low;
    high = v > high ? v : high;
    tiny = nonzero < tiny ? nonzero : tiny;
    zeros -= v == 0;
    const Doubles wide = Doubles::of(v), d = wide - shift;
    total.add(d);
    squares.add(d * d);
    absolute.add(wide.abs());
  }
  const auto padding = static_cast<double>((kLanes - n % kLanes) % kLanes);
  const auto count = static_cast<double>(n);
  const double d = total.sum() / count;
  s.mean = first + d;
  s.m2 = std::max(0.0, squares.sum() - count * d * d);
  s.l1 = absolute.sum() - padding * std::fabs(double{first});
  s.zero = sum(zeros) - (first == 0.0f ? static_cast<int64_t>(padding) : 0);
  s.min = low[0], s.max = high[0], s.amin = tiny[0];
  for (int j = 1; j < kLanes; ++j) {
    s.min = std::min<double>(s.min, low[j]);
    s.max = std::max<double>(s.max, high[j]);
    s.amin = std::min<double>(s.amin, tiny[j]);
  }
  return s;
}

ValueStats measure_chunk(std::span<const float> x) {
  if (all_finite(x)) return finite_chunk(x);
  std::vector<float> finite;
  ValueStats outside;
  for (const float v : x) {
    outside.nan += std::isnan(v) ? 1 : 0;
    outside.inf += std::isinf(v) ? 1 : 0;
    if (std::isfinite(v)) finite.push_back(v);
  }
  ValueStats s = finite_chunk(finite);
  s.count = static_cast<int64_t>(x.size());
  s.nan = outside.nan;
  s.inf = outside.inf;
  return s;
}

MINITE_CLONES CodeLoss finite_codes(std::span<const float> x, std::span<const float> decoded) {
  CodeLoss s;
  const size_t n = x.size();
  Doubles signal, noise, absolute;
  Ints nonzero{}, underflow{};
  for (size_t i = 0; i < n; i += kLanes) {
    const Floats v = load(x.data(), i, n, 0), held = load(decoded.data(), i, n, 0);
    const Doubles value = Doubles::of(v), difference = Doubles::of(held) - value;
    signal.add(value * value);
    noise.add(difference * difference);
    absolute.add(difference.abs());
    nonzero -= v != 0;
    underflow -= (v != 0) & (held == 0);
  }
  s.error.count = static_cast<int64_t>(n);
  s.error.signal = signal.sum();
  s.error.noise = noise.sum();
  s.error.absolute = absolute.sum();
  s.nonzero = sum(nonzero);
  s.underflow = sum(underflow);
  return s;
}

CodeLoss codes_of_chunk(std::span<const float> x, std::span<const float> decoded) {
  if (all_finite(x) && all_finite(decoded)) return finite_codes(x, decoded);
  CodeLoss s;
  s.error.add(x, decoded);
  for (size_t i = 0; i < x.size(); ++i) {
    const bool counts = std::isfinite(x[i]) && x[i] != 0.0f;
    s.nonzero += counts ? 1 : 0;
    s.underflow += counts && decoded[i] == 0.0f ? 1 : 0;
  }
  return s;
}

/// Rows [begin, begin + count) of x as FP32, one after the other.
void load_rows(const TensorView& x, int64_t begin, int64_t count, std::vector<float>& out) {
  out.resize(static_cast<size_t>(count * x.cols));
  float* to = out.data();
  for (int64_t r = begin; r < begin + count; ++r, to += x.cols) {
    if (x.dtype == DType::f32) {
      std::copy_n(x.row<const float>(r), x.cols, to);
    } else {
      std::copy_n(x.row<const bf16>(r), x.cols, to);
    }
  }
}

int64_t rows_of_chunk(int64_t cols) { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, cols)); }

/// Measures chunks of `rows` rows with body(first row, rows, scratch) and merges the results in order.
template <class Stats, class Body>
Stats over_chunks(ThreadPool& pool, int64_t rows, int64_t cols, const Body& body) {
  const int64_t step = rows_of_chunk(cols), chunks = (rows + step - 1) / step;
  std::vector<Stats> parts(static_cast<size_t>(chunks));
  std::vector<std::vector<float>> scratch(static_cast<size_t>(pool.threads()));
  const auto one = [&](int64_t chunk, int thread) {
    const int64_t begin = chunk * step;
    parts[static_cast<size_t>(chunk)] =
        body(begin, std::min(step, rows - begin), scratch[static_cast<size_t>(thread)]);
  };
  if (chunks < kInline) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) one(chunk, 0);
  } else {
    pool.parallel_for(chunks, one);
  }
  Stats all;
  for (const Stats& part : parts) all.merge(part);
  return all;
}

void check_dtype(const TensorView& x) {
  if (x.dtype == DType::f32 || x.dtype == DType::bf16) return;
  fail(ErrorCode::unsupported, "statistics: a tensor of {}; f32 and bf16 are measured", dtype_name(x.dtype));
}

void add_scales(const QTensor& q, CodeStats& s) {
  const int64_t step = q.spec.blocks == BlockShape::tile ? q.spec.block_size() : 1;
  for (int64_t r = 0; r < q.rows; r += step) {
    for (int64_t b = 0; b < q.scale_stride(); ++b) ++s.histogram[q.block_scales[r * q.scale_stride() + b]];
  }
  for (int byte = 0; byte < 256; ++byte) {
    const int64_t count = s.histogram[static_cast<size_t>(byte)];
    if (count == 0) continue;
    const float scale = block_scale_value(q.spec, static_cast<uint8_t>(byte));
    s.blocks += count;
    s.zero_scales += scale == 0.0f ? count : 0;
    s.nan_scales += std::isnan(scale) ? count : 0;
  }
}

}  // namespace

double ValueStats::amax() const {
  return finite() == 0 ? std::numeric_limits<double>::quiet_NaN() : std::max(std::fabs(min), std::fabs(max));
}

double ValueStats::std() const {
  return finite() == 0 ? std::numeric_limits<double>::quiet_NaN()
                       : std::sqrt(m2 / static_cast<double>(finite()));
}

double ValueStats::dynamic_range() const {
  if (finite() == 0) return std::numeric_limits<double>::quiet_NaN();
  return amax() == 0 ? 0 : std::log2(amax()) - std::log2(amin);
}

double ValueStats::l2() const { return std::sqrt(m2 + static_cast<double>(finite()) * mean * mean); }

void ValueStats::merge(const ValueStats& b) {
  if (b.finite() > 0) {
    const auto na = static_cast<double>(finite()), nb = static_cast<double>(b.finite());
    const double delta = b.mean - mean;
    m2 += b.m2 + delta * delta * (na * nb / (na + nb));
    mean += delta * (nb / (na + nb));
  }
  count += b.count, nan += b.nan, inf += b.inf, zero += b.zero;
  min = std::min(min, b.min), max = std::max(max, b.max), amin = std::min(amin, b.amin);
  l1 += b.l1;
}

void CodeLoss::merge(const CodeLoss& b) {
  error.merge(b.error);
  nonzero += b.nonzero, underflow += b.underflow;
  saturated += b.saturated, overflow += b.overflow;
}

void CodeStats::merge(const CodeStats& b) {
  loss.merge(b.loss);
  blocks += b.blocks, zero_scales += b.zero_scales, nan_scales += b.nan_scales;
  for (size_t i = 0; i < histogram.size(); ++i) histogram[i] += b.histogram[i];
}

ValueStats measure(const Context& ctx, const TensorView& x) {
  check_dtype(x);
  return over_chunks<ValueStats>(
      *ctx.pool, x.rows, x.cols, [&](int64_t begin, int64_t rows, std::vector<float>& values) {
        if (x.dtype == DType::f32 && x.stride == x.cols) {
          return measure_chunk({x.row<const float>(begin), static_cast<size_t>(rows * x.cols)});
        }
        load_rows(x, begin, rows, values);
        return measure_chunk(values);
      });
}

CodeStats measure_codes(const Context& ctx, const QTensor& q, const TensorView& x,
                        std::vector<float>& decoded) {
  check_dtype(x);
  require(q.rows == x.rows && q.cols == x.cols, "statistics: codes are {}x{}, their values {}x{}", q.rows,
          q.cols, x.rows, x.cols);
  CodeStats all;
  const int64_t step = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, x.cols));
  decoded.resize(std::max(decoded.size(), static_cast<size_t>(std::min(step, x.rows) * x.cols)));
  for (int64_t first = 0; first < x.rows; first += step) {
    const int64_t count = std::min(step, x.rows - first);
    const QTensor part = q.slice_rows(first, count);
    ops::dequantize(ctx, {part, TensorView(decoded.data(), count, x.cols)});
    all.loss.merge(over_chunks<CodeLoss>(
        *ctx.pool, count, x.cols, [&](int64_t begin, int64_t rows, std::vector<float>& values) {
          load_rows(x, first + begin, rows, values);
          const auto cols = static_cast<size_t>(x.cols);
          const auto held = std::span<const float>(decoded).subspan(static_cast<size_t>(begin) * cols,
                                                                    static_cast<size_t>(rows) * cols);
          CodeLoss s = codes_of_chunk(values, held);
          for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
            const std::span<const float> row(values.data() + r * cols, cols);
            const ops::Clipped clipped =
                ops::count_clipped(part, begin + static_cast<int64_t>(r), row, held.subspan(r * cols, cols));
            s.saturated += clipped.saturated;
            s.overflow += clipped.overflow;
          }
          return s;
        }));
  }
  add_scales(q, all);
  return all;
}

}  // namespace minite::diagnostics
