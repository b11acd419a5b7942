#include "diagnostics/chunk_loops.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define MINITE_INSIDE [[gnu::always_inline]] inline

namespace minite::diagnostics::MINITE_ISA {
namespace {

constexpr size_t kLanes = 8;
constexpr float kInfinity = __builtin_inff();

// Of whichever width the processor's vectors are.
using Floats = float __attribute__((vector_size(32)));
using Ints = int32_t __attribute__((vector_size(32)));
using Words = uint32_t __attribute__((vector_size(32)));
using Halves = uint16_t __attribute__((vector_size(16)));
using Bytes = uint8_t __attribute__((vector_size(8)));
using HalfDoubles = double __attribute__((vector_size(32)));

#ifdef __AVX2__
// One instruction each, where GCC 12 makes several of a conversion that widens.
MINITE_INSIDE HalfDoubles low_half(const Floats& x) {
  return HalfDoubles(_mm256_cvtps_pd(_mm256_castps256_ps128(__m256(x))));
}
MINITE_INSIDE HalfDoubles high_half(const Floats& x) {
  return HalfDoubles(_mm256_cvtps_pd(_mm256_extractf128_ps(__m256(x), 1)));
}
MINITE_INSIDE Words widened(const Halves& x) { return Words(_mm256_cvtepu16_epi32(__m128i(x))); }
MINITE_INSIDE Words widened(const Bytes& x) {
  int64_t word = 0;
  __builtin_memcpy(&word, &x, sizeof word);
  return Words(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(word)));
}
#else
MINITE_INSIDE HalfDoubles low_half(const Floats& x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3), HalfDoubles);
}
MINITE_INSIDE HalfDoubles high_half(const Floats& x) {
  return __builtin_convertvector(__builtin_shufflevector(x, x, 4, 5, 6, 7), HalfDoubles);
}
template <class Narrow>
MINITE_INSIDE Words widened(const Narrow& x) {
  return __builtin_convertvector(x, Words);
}
#endif

struct Doubles {
  HalfDoubles low{}, high{};
  MINITE_INSIDE static Doubles of(const Floats& x) { return {low_half(x), high_half(x)}; }
  MINITE_INSIDE Doubles operator-(const Doubles& b) const { return {low - b.low, high - b.high}; }
  MINITE_INSIDE Doubles operator*(const Doubles& b) const { return {low * b.low, high * b.high}; }
  MINITE_INSIDE void add(const Doubles& b) { low += b.low, high += b.high; }
  [[nodiscard]] MINITE_INSIDE double sum() const {
    const HalfDoubles s = low + high;
    return (s[0] + s[2]) + (s[1] + s[3]);
  }
};

MINITE_INSIDE int64_t sum(const Ints& x) {
  int64_t total = 0;
  for (size_t j = 0; j < kLanes; ++j) total += x[j];
  return total;
}

MINITE_INSIDE Floats load(const float* x) {
  Floats v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}
MINITE_INSIDE Floats load(const bf16* x) {
  Halves h;
  __builtin_memcpy(&h, x, sizeof h);
  return Floats(widened(h) << 16);
}
/// The first n < 8 elements, then `pad`.
template <class T>
MINITE_INSIDE Floats load_some(const T* x, size_t n, float pad) {
  Floats v;
  for (size_t j = 0; j < kLanes; ++j) v[j] = j < n ? float{x[j]} : pad;
  return v;
}

MINITE_INSIDE Floats magnitude(const Floats& x) { return Floats(Words(x) & 0x7FFFFFFFu); }

/// Lanes of the sums over values.
struct ValueLanes {
  Doubles shift, total, squares, absolute;
  Floats low, high, tiny;
  Ints zeros{};

  MINITE_INSIDE explicit ValueLanes(float first)
      : shift(Doubles::of(Floats{} + first)),
        low(Floats{} + kInfinity),
        high(Floats{} - kInfinity),
        tiny(Floats{} + kInfinity) {}
  MINITE_INSIDE void add(const Floats& v) {
    const Floats size = magnitude(v), nonzero = v == 0 ? Floats{} + kInfinity : size;
    low = v < low ? v : low;
    high = v > high ? v : high;
    tiny = nonzero < tiny ? nonzero : tiny;
    zeros -= v == 0;
    const Doubles d = Doubles::of(v) - shift;
    total.add(d);
    squares.add(d * d);
    absolute.add(Doubles::of(size));
  }
};

template <class T>
MINITE_INSIDE void values(const T* x, size_t n, ValueSums& s) {
  const float first = x[0];
  ValueLanes lanes(first);
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) lanes.add(load(x + i));
  if (i < n) lanes.add(load_some(x + i, n - i, first));
  s = {lanes.total.sum(), lanes.squares.sum(), lanes.absolute.sum(), sum(lanes.zeros),
       lanes.low[0],      lanes.high[0],       lanes.tiny[0]};
  for (size_t j = 1; j < kLanes; ++j) {
    s.min = lanes.low[j] < s.min ? lanes.low[j] : s.min;
    s.max = lanes.high[j] > s.max ? lanes.high[j] : s.max;
    s.amin = lanes.tiny[j] < s.amin ? lanes.tiny[j] : s.amin;
  }
}

/// Eight codes from `at` on, of which `count` bytes are read; nibbles have those of their neighbours above.
MINITE_INSIDE Words nibbles(const uint8_t* at, size_t count) {
  constexpr Words kShift = {0, 4, 8, 12, 16, 20, 24, 28};
  uint32_t word = 0;
  __builtin_memcpy(&word, at, count);
  return (Words{} + word) >> kShift;
}
MINITE_INSIDE Words bytes(const uint8_t* at, size_t count) {
  Bytes eight{};
  __builtin_memcpy(&eight, at, count);
  return widened(eight);
}

/// Lanes of the sums over codes.
struct LossLanes {
  Doubles signal, noise;
  Ints nonzero{}, underflow{}, saturated{}, beyond{};

  MINITE_INSIDE void add(const Floats& v, const Floats& held, const Words& codes, const ChunkCodes& c) {
    const Doubles value = Doubles::of(v), difference = Doubles::of(held) - value;
    signal.add(value * value);
    noise.add(difference * difference);
    nonzero -= v != 0;
    underflow -= (v != 0) & (held == 0);
    const Floats size = magnitude(v), kept = magnitude(held);
    const Ints full = ((codes & c.magnitude_mask) == c.largest) & (kept < size);
    saturated -= full;
    beyond |= full & (kept > 0) & (size * c.ratio >= kept);
  }
};

template <bool kNibbles, class T>
MINITE_INSIDE void losses(const ChunkCodes& given, const T* x, const float* decoded, size_t n, LossSums& s) {
  const ChunkCodes c = given;
  LossLanes lanes;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    lanes.add(load(x + i), load(decoded + i), kNibbles ? nibbles(c.codes + i / 2, 4) : bytes(c.codes + i, 8),
              c);
  if (const size_t left = n - i; left > 0) {
    lanes.add(load_some(x + i, left, 0), load_some(decoded + i, left, 0),
              kNibbles ? nibbles(c.codes + i / 2, (left + 1) / 2) : bytes(c.codes + i, left), c);
  }
  s = {lanes.signal.sum(),   lanes.noise.sum(),    sum(lanes.nonzero),
       sum(lanes.underflow), sum(lanes.saturated), sum(lanes.beyond) != 0};
}

template <class T>
MINITE_INSIDE void losses(const ChunkCodes& c, const T* x, const float* decoded, size_t n, LossSums& s) {
  c.nibbles ? losses<true>(c, x, decoded, n, s) : losses<false>(c, x, decoded, n, s);
}

}  // namespace

void sum_values(const float* x, size_t n, ValueSums& sums) { values(x, n, sums); }
void sum_values(const bf16* x, size_t n, ValueSums& sums) { values(x, n, sums); }
void sum_losses(const ChunkCodes& codes, const float* x, const float* decoded, size_t n, LossSums& sums) {
  losses(codes, x, decoded, n, sums);
}
void sum_losses(const ChunkCodes& codes, const bf16* x, const float* decoded, size_t n, LossSums& sums) {
  losses(codes, x, decoded, n, sums);
}

}  // namespace minite::diagnostics::MINITE_ISA
