#include "diagnostics/tensor_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/fail.h"
#include "diagnostics/chunk_stats.h"
#include "formats/element_codes.h"
#include "ops/code_stats.h"
#include "ops/ops.h"

namespace minite::diagnostics {
namespace {

constexpr int64_t kChunk = 4096;              ///< elements
constexpr int64_t kPiece = int64_t{1} << 16;  ///< elements that are decoded at a time
constexpr int64_t kInline = 8;                ///< fewer chunks are not worth waking threads

/// Of elements of which one at least is not finite.
ValueStats count_outside(std::span<const float> x) {
  std::vector<float> finite;
  ValueStats outside;
  for (const float v : x) {
    outside.nan += std::isnan(v) ? 1 : 0;
    outside.inf += std::isinf(v) ? 1 : 0;
    if (std::isfinite(v)) finite.push_back(v);
  }
  ValueStats s = finite_values(finite).value();
  s.count = static_cast<int64_t>(x.size());
  s.nan = outside.nan;
  s.inf = outside.inf;
  return s;
}

/// Of a chunk in which a value or a decoded one is not finite, without the elements that were clipped.
CodeLoss loss_outside(std::span<const float> x, std::span<const float> decoded) {
  CodeLoss s;
  s.error.add(x, decoded);
  s.error.absolute = 0;
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

/// Calls body(elements) for rows [begin, begin + rows), read where they lie if they have no gap.
template <class Body>
auto with_rows(const TensorView& x, int64_t begin, int64_t rows, std::vector<float>& scratch,
               const Body& body) {
  const auto count = static_cast<size_t>(rows * x.cols);
  if (x.stride == x.cols && x.dtype == DType::bf16) return body(std::span(x.row<const bf16>(begin), count));
  if (x.stride == x.cols) return body(std::span(x.row<const float>(begin), count));
  load_rows(x, begin, rows, scratch);
  return body(std::span<const float>(scratch));
}

ValueStats values_of(const TensorView& x, int64_t begin, int64_t rows, std::vector<float>& scratch) {
  const auto finite = with_rows(x, begin, rows, scratch, [](auto all) { return finite_values(all); });
  if (finite) return *finite;
  load_rows(x, begin, rows, scratch);
  return count_outside(scratch);
}

/// Codes of a piece [rows, cols] and what they decode to, beside their values: rows of `x` from `first` on.
struct Piece {
  QTensor q;
  TensorView x;
  int64_t first = 0;
  std::span<const float> decoded;

  [[nodiscard]] CodeLoss loss(int64_t begin, int64_t rows, std::vector<float>& scratch) const {
    const auto cols = static_cast<size_t>(q.cols);
    const auto held = decoded.subspan(static_cast<size_t>(begin) * cols, static_cast<size_t>(rows) * cols);
    std::vector<uint8_t> unpacked;
    const ChunkCodes codes = codes_of(begin, rows, unpacked);
    const auto finite =
        with_rows(x, first + begin, rows, scratch, [&](auto all) { return finite_codes(codes, all, held); });
    if (finite && !finite->may_overflow) return finite->loss;
    load_rows(x, first + begin, rows, scratch);
    CodeLoss s = finite ? finite->loss : loss_outside(scratch, held);
    s.saturated = 0;
    for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
      const std::span<const float> one(scratch.data() + r * cols, cols);
      const ops::Clipped clipped =
          ops::count_clipped(q, begin + static_cast<int64_t>(r), one, held.subspan(r * cols, cols));
      s.saturated += clipped.saturated;
      s.overflow += clipped.overflow;
    }
    return s;
  }

 private:
  /// Codes of rows without a gap: a row of an odd number of nibbles ends with half a byte of nothing, so that
  /// those are put into `unpacked`, a byte each.
  [[nodiscard]] ChunkCodes codes_of(int64_t begin, int64_t rows, std::vector<uint8_t>& unpacked) const {
    const Format& row = format(q.spec.format);
    const uint8_t* codes = q.codes + begin * q.code_stride();
    if (q.code_stride() * 8 == q.cols * row.bits) return chunk_codes(codes, row.element, row.bits == 4);
    for (int64_t r = 0; r < rows; ++r, codes += q.code_stride()) {
      for (int64_t c = 0; c < q.cols; ++c)
        unpacked.push_back(static_cast<uint8_t>(codes[c / 2] >> (c % 2 * 4) & 0xF));
    }
    return chunk_codes(unpacked.data(), row.element, false);
  }
};

/// Block scales lie without a gap; a tile's stand in the first of its rows and are repeated in the others.
void add_scales(const QTensor& q, CodeStats& s) {
  const int64_t step = q.spec.blocks == BlockShape::tile ? q.spec.block_size() : 1;
  const int64_t stride = q.scale_stride(), run = step == 1 ? q.rows * stride : stride;
  for (int64_t r = 0; r < (step == 1 ? 1 : q.rows); r += step) {
    for (const uint8_t byte : std::span(q.block_scales + r * stride, static_cast<size_t>(run)))
      ++s.histogram[byte];
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
  return over_chunks<ValueStats>(*ctx.pool, x.rows, x.cols,
                                 [&](int64_t begin, int64_t rows, std::vector<float>& scratch) {
                                   return values_of(x, begin, rows, scratch);
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
    const Piece piece{q.slice_rows(first, count), x, first, decoded};
    ops::dequantize(ctx, {piece.q, TensorView(decoded.data(), count, x.cols)});
    all.loss.merge(over_chunks<CodeLoss>(*ctx.pool, count, x.cols,
                                         [&](int64_t begin, int64_t rows, std::vector<float>& scratch) {
                                           return piece.loss(begin, rows, scratch);
                                         }));
  }
  add_scales(q, all);
  return all;
}

}  // namespace minite::diagnostics
