#include "cli/tensor_quantizer.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "core/utf8.h"
#include "formats/hadamard.h"

namespace minite::cli {
namespace {

constexpr int64_t kRowsAtOnce = 64;  // of decoded FP32 values

std::vector<std::byte> gather(const std::vector<QTensor>& parts, auto&& span_of) {
  std::vector<std::byte> bytes;
  for (const QTensor& q : parts) {
    const std::span<const std::byte> part = std::as_bytes(span_of(q));
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

/// Each expert's transpose, one after the other.
io::FloatValues transposed(const io::FloatValues& x, const TensorShape3& shape) {
  const auto size = static_cast<size_t>(dtype_size(x.dtype));
  io::FloatValues t{Buffer(x.memory.size()), x.dtype, 0, x.stored};
  std::byte* to = t.memory.data();
  for (int64_t e = 0; e < shape.experts; ++e) {
    for (int64_t c = 0; c < shape.cols; ++c) {
      for (int64_t r = 0; r < shape.rows; ++r, to += size) {
        const int64_t from = (e * shape.rows + r) * shape.cols + c;
        std::memcpy(to, x.memory.data() + from * static_cast<int64_t>(size), size);
      }
    }
  }
  return t;
}

/// 64-bit FNV-1a.
uint64_t hash_of(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

/// Errors of a unit that would straddle experts: `rows` of each, seen along the codes.
void check_shared(const std::string& name, const TensorShape3& shape, const QuantSpec& spec,
                  Orientation along) {
  const int64_t block = format(spec.format).block;
  const int64_t rows = along == Orientation::rows ? shape.rows : shape.cols;
  const bool tiles = spec.blocks == BlockShape::tile;
  const bool searched_tiles = tiles && spec.search != ScaleSearch::amax && along == Orientation::columns;
  const char* why = tiles && rows % block != 0        ? "its tiles would straddle experts"
                    : spec.rotation != Rotation::none ? "its rotated columns have no common pass"
                    : searched_tiles                  ? "its tiles are searched expert by expert"
                                                      : nullptr;
  if (why == nullptr) return;
  fail(ErrorCode::unsupported,
       "tensor \"{}\" [{}, {}, {}]: {} cannot share one outer scale of the tensor among experts, because {}; "
       "use --outer expert",
       printable(name), shape.experts, shape.rows, shape.cols, to_string(spec), why);
}

/// The rotation undone, in place, for groups of 16: H is symmetric and 1/4 of it orthonormal.
void rotate_back(std::span<float> row) {
  for (size_t begin = 0; begin < row.size(); begin += 16) {
    float* v = row.data() + begin;
    for (size_t stride = 1; stride < 16; stride *= 2) {
      for (size_t i = 0; i < 16; ++i) {
        if ((i & stride) != 0) continue;
        const float a = v[i], b = v[i + stride];
        v[i] = a + b;
        v[i + stride] = a - b;
      }
    }
    for (size_t i = 0; i < 16; ++i) v[i] *= (kHadamardSigns >> i & 1u) != 0 ? -0.25f : 0.25f;
  }
}

/// Row `r` of expert `e` as the codes see it.
void read_row(const io::FloatValues& x, const TensorShape3& shape, Orientation along, int64_t e, int64_t r,
              std::span<float> to) {
  const bool rows = along == Orientation::rows;
  const int64_t begin = e * shape.rows * shape.cols + (rows ? r * shape.cols : r);
  const int64_t step = rows ? 1 : shape.cols;
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t at = begin + static_cast<int64_t>(i) * step;
    to[i] = x.dtype == DType::bf16 ? static_cast<float>(reinterpret_cast<const bf16*>(x.memory.data())[at])
                                   : reinterpret_cast<const float*>(x.memory.data())[at];
  }
}

}  // namespace

bool is_matrix(const std::vector<int64_t>& shape) { return shape.size() == 2 || shape.size() == 3; }

TensorShape3 matrix_shape(const std::vector<int64_t>& shape) {
  if (shape.size() == 2) return {1, shape[0], shape[1]};
  return {shape[0], shape[1], shape[2]};
}

std::vector<std::byte> QuantizedHalf::codes() const {
  return gather(parts, [](const QTensor& q) {
    return std::span<const uint8_t>(q.codes, static_cast<size_t>(q.rows * q.code_stride()));
  });
}
std::vector<std::byte> QuantizedHalf::block_scales() const {
  return gather(parts, [](const QTensor& q) {
    return std::span<const uint8_t>(q.block_scales, static_cast<size_t>(q.rows * q.scale_stride()));
  });
}
std::vector<std::byte> QuantizedHalf::outer() const {
  return gather(parts, [](const QTensor& q) {
    return std::span<const float>(q.outer, static_cast<size_t>(q.outer_count()));
  });
}
std::vector<std::byte> QuantizedHalf::amax() const {
  return gather(parts, [](const QTensor& q) {
    return std::span<const float>(q.amax, static_cast<size_t>(q.outer_count()));
  });
}
int64_t QuantizedHalf::outer_count() const {
  int64_t count = 0;
  for (const QTensor& q : parts) count += q.outer_count();
  return count;
}

void TensorQuantizer::add_part(QuantizedHalf& half, const TensorView& x, Orientation along,
                               const Noise& noise, DType stored) {
  const bool rows = along == Orientation::rows;
  const int64_t m = rows ? x.rows : x.cols, k = half.spec.stored_cols(rows ? x.cols : x.rows);
  half.memory.emplace_back(std::max<int64_t>(QTensor::bytes(half.spec, m, k), 1));
  const QTensor q = QTensor::place(half.spec, m, k, half.memory.back().data());
  half.parts.push_back(q);
  if (x.size() > 0) {
    ops::quantize(runner_->context(), {x, along, q, noise, stored});
  } else {
    std::fill_n(q.outer, q.outer_count(), 1.0f);  // the amax of nothing is 0
  }
}

QuantizedHalf TensorQuantizer::quantize(const std::string& name, const io::FloatValues& x,
                                        const TensorShape3& shape, const QuantSpec& spec, Orientation along) {
  const bool rows = along == Orientation::rows;
  QuantizedHalf half;
  half.spec = spec;
  half.along = along;
  half.shape = rows ? shape : TensorShape3{shape.experts, shape.cols, spec.stored_cols(shape.rows)};
  const uint64_t stream = hash_of(name) << 32 | uint64_t{rows ? 0u : 1u} << 31;
  if (spec.outer == OuterScale::tensor && shape.experts != 1) {
    if (shape.experts > 1) check_shared(name, shape, spec, along);
    if (rows) {
      add_part(half, x.view(shape.experts * shape.rows, shape.cols), Orientation::rows, {seed_, stream},
               x.stored);
    } else {
      const io::FloatValues t = transposed(x, shape);
      add_part(half, t.view(shape.experts * shape.cols, shape.rows), Orientation::rows, {seed_, stream},
               t.stored);
    }
    return half;
  }
  const TensorView all = x.view(shape.experts * shape.rows, shape.cols);
  for (int64_t e = 0; e < shape.experts; ++e) {
    add_part(half, all.slice_rows(e * shape.rows, shape.rows), along,
             {seed_, stream + static_cast<uint64_t>(e)}, x.stored);
  }
  return half;
}

Buffer TensorQuantizer::dequantize(const QuantizedHalf& half) {
  Buffer values(half.shape.count() * int64_t{sizeof(float)});
  auto* to = reinterpret_cast<float*>(values.data());
  for (const QTensor& q : half.parts) {
    if (q.rows * q.cols > 0) ops::dequantize(runner_->context(), {q, TensorView(to, q.rows, q.cols)});
    to += q.rows * q.cols;
  }
  return values;
}

HalfStats TensorQuantizer::stats(const QuantizedHalf& half, const io::FloatValues& x,
                                 const TensorShape3& shape) {
  HalfStats result;
  const bool rotated = half.spec.rotation != Rotation::none;
  const auto cols = static_cast<size_t>(half.along == Orientation::rows ? shape.cols : shape.rows);
  std::vector<float> row(cols), decoded(static_cast<size_t>(kRowsAtOnce * half.shape.cols));
  int64_t at = 0;  // row among those of all experts
  for (const QTensor& q : half.parts) {
    const ops::ScaleStats scales = ops::scale_stats(q);
    result.scales.blocks += scales.blocks;
    result.scales.zero += scales.zero;
    result.scales.nan += scales.nan;
    for (int64_t begin = 0; q.cols > 0 && begin < q.rows; begin += kRowsAtOnce) {
      const int64_t count = std::min(kRowsAtOnce, q.rows - begin);
      ops::dequantize(runner_->context(),
                      {q.slice_rows(begin, count), TensorView(decoded.data(), count, q.cols)});
      for (int64_t i = 0; i < count; ++i, ++at) {
        const std::span<float> values(decoded.data() + i * q.cols, static_cast<size_t>(q.cols));
        if (rotated) rotate_back(values);
        read_row(x, shape, half.along, at / half.shape.rows, at % half.shape.rows, row);
        result.error.add(row, values.first(cols));
        if (!rotated) result.saturated += ops::count_saturated(q, begin + i, row, values.first(cols));
      }
    }
  }
  return result;
}

}  // namespace minite::cli
