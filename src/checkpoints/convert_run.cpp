#include "checkpoints/convert_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/fail.h"
#include "formats/codecs.h"
#include "formats/element_codes.h"
#include "io/float_values.h"

namespace minite::checkpoints {
namespace {

constexpr size_t kPiece = size_t{64} << 20;  ///< bytes of a mapped file that are resident at a time

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}
std::span<const std::byte> bytes_of(const uint8_t* data, int64_t count) {
  return std::as_bytes(std::span(data, static_cast<size_t>(count)));
}

/// Calls body(piece) on `bytes` of a mapped file and gives each piece's memory back.
template <class Body>
void for_pieces(std::span<const std::byte> bytes, const Body& body) {
  size_t at = 0;
  do {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    body(piece);
    io::drop_mapped(piece);
    at += piece.size();
  } while (at < bytes.size());
}

/// Codes of 8 elements squared and summed, by pairs: sums of squares of a byte's two codes.
constexpr std::array<float, 256> kPairSquares = [] {
  std::array<float, 256> table{};
  for (uint32_t b = 0; b < 256; ++b) {
    const float low = E2M1::decode(static_cast<uint8_t>(b & 15u)),
                high = E2M1::decode(static_cast<uint8_t>(b >> 4));
    table[b] = low * low + high * high;
  }
  return table;
}();

/// A NaN scale makes 16 weights NaN and with them every token: nothing to pass on.
void refuse_nan_scales(const StoredModule& m) {
  const Element encoding = format(m.layout->format).block_scale;
  const int64_t blocks = m.rows == 0 ? 1 : std::max<int64_t>(1, m.scales->count() / m.rows);
  for (size_t i = 0; i < m.scales->bytes.size(); ++i) {
    if (!is_nan_scale(encoding, std::to_integer<uint8_t>(m.scales->bytes[i]))) continue;
    const auto at = static_cast<int64_t>(i);
    fail(ErrorCode::corrupt_data,
         "{} has a NaN scale byte 0x{:02X} at row {}, block {}; the file is damaged or was calibrated on "
         "NaN: make it again",
         m.tensor(m.layout->scales), std::to_integer<int>(m.scales->bytes[i]), at / blocks, at % blocks);
  }
}

/// Rows of a member's segment `s`.
struct BlockRange {
  int64_t begin, end;  ///< blocks
};
BlockRange blocks_of(const StoredModule& m, size_t s) {
  const int64_t blocks = m.rows == 0 ? 0 : m.scales->count() / m.rows;
  return {m.segments[s].begin * blocks, (m.segments[s].begin + m.segments[s].rows) * blocks};
}

}  // namespace

uint8_t rescaled_byte(uint8_t scale, double ratio) {
  const float d = E4M3::decode(scale);
  if (std::isnan(d)) return scale;
  return E4M3::encode(d * static_cast<float>(ratio));
}

StackedRows stack_rows(const std::vector<Member>& members) {
  const auto is_bf16 = [](const Member& m) { return m.dense->type == io::StoredType::bf16; };
  const int64_t cols = members.front().cols;
  int64_t rows = 0;
  for (const Member& m : members) rows += m.rows;
  StackedRows stack;
  if (members.size() == 1 && is_bf16(members.front()) && members.front().dense->is_aligned()) {
    auto* data = const_cast<std::byte*>(members.front().dense->bytes.data());
    stack.view = TensorView(data, DType::bf16, rows, cols);
    return stack;
  }
  const bool narrow = std::ranges::all_of(members, is_bf16);
  const DType dtype = narrow ? DType::bf16 : DType::f32;
  stack.memory = Buffer(rows * cols * dtype_size(dtype));
  stack.view = TensorView(stack.memory.data(), dtype, rows, cols);
  stack.stored = members.front().dense->type == io::StoredType::f16 ? DType::f16 : DType::f32;
  std::byte* to = stack.memory.data();
  for (const Member& m : members) {
    if (narrow) {
      for_pieces(m.dense->bytes, [&](std::span<const std::byte> piece) {
        if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
      });
      continue;
    }
    const io::FloatValues values = io::load_floats(*m.dense);
    for (int64_t i = 0; i < m.rows * cols; ++i, to += sizeof(float)) {
      const float x = values.dtype == DType::bf16
                          ? static_cast<float>(reinterpret_cast<const bf16*>(values.memory.data())[i])
                          : reinterpret_cast<const float*>(values.memory.data())[i];
      std::memcpy(to, &x, sizeof(float));
    }
  }
  return stack;
}

void UnitMaker::quantize(const ConvertUnit& unit, const TensorSink& sink) {
  const Layout& layout = *plan_->layout;
  const StackedRows x = stack_rows(unit.members);
  const QuantSpec& spec = plan_->options.spec;
  const Buffer memory(QTensor::bytes(spec, x.view.rows, x.view.cols));
  const QTensor q = QTensor::place(spec, x.view.rows, x.view.cols, memory.data());
  if (x.view.size() > 0) ops::quantize(*ctx_, {x.view, Orientation::rows, q, {}, x.stored});
  int64_t row = 0;
  for (const Member& member : unit.members) {
    io::drop_mapped(member.dense->bytes);
    const QTensor part = q.slice_rows(row, member.rows);
    row += member.rows;
    sink(member.name + std::string(layout.codes), bytes_of(part.codes, part.rows * part.code_stride()));
    sink(member.name + std::string(layout.scales),
         bytes_of(part.block_scales, part.rows * part.scale_stride()));
    if (layout.stored == StoredGlobal::none) continue;
    std::vector<float> global;
    for (int64_t r = 0; r < part.outer_count(); ++r) {
      const bool own = layout.stored == StoredGlobal::reciprocal;
      global.push_back(!own                         ? part.outer[r]
                       : part.reciprocal != nullptr ? part.reciprocal[r]
                                                    : 1.0f / part.outer[r]);
    }
    sink(member.name + std::string(layout.global), bytes_of(global));
    if (!member.input.empty()) sink(member.name + std::string(layout.input_global), bytes_of(member.input));
  }
}

void UnitMaker::transfer(const Member& member, const TensorSink& sink) const {
  const Layout& layout = *plan_->layout;
  const StoredModule& m = *member.stored;
  refuse_nan_scales(m);
  for_pieces(m.codes->bytes,
             [&](std::span<const std::byte> piece) { sink(member.name + std::string(layout.codes), piece); });
  const std::string scales = member.name + std::string(layout.scales);
  if (member.ratio.empty()) {
    for_pieces(m.scales->bytes, [&](std::span<const std::byte> piece) { sink(scales, piece); });
  } else {
    std::vector<std::byte> bytes(m.scales->bytes.begin(), m.scales->bytes.end());
    for (size_t s = 0; s < m.segments.size(); ++s) {
      const auto [begin, end] = blocks_of(m, s);
      for (int64_t b = begin; b < end; ++b) {
        auto& byte = bytes[static_cast<size_t>(b)];
        byte = std::byte{rescaled_byte(std::to_integer<uint8_t>(byte), member.ratio[s])};
      }
    }
    sink(scales, bytes);
  }
  if (layout.stored == StoredGlobal::none) return;
  sink(member.name + std::string(layout.global), bytes_of(member.global));
  if (!member.input.empty()) sink(member.name + std::string(layout.input_global), bytes_of(member.input));
}

void UnitMaker::decode(const Member& member, const TensorSink& sink) const {
  const StoredModule& m = *member.stored;
  refuse_nan_scales(m);
  const int64_t rows_at_once =
      std::max<int64_t>(1, static_cast<int64_t>(kPiece) / std::max<int64_t>(1, 2 * m.cols));
  Buffer memory(std::min(rows_at_once, m.rows) * m.cols * 2);
  int64_t row = 0;
  do {
    const int64_t rows = std::min(rows_at_once, m.rows - row);
    const TensorView y(memory.data(), DType::bf16, rows, m.cols);
    if (y.size() > 0) decode_rows(*ctx_, m, row, y);
    sink(member.out, {memory.data(), static_cast<size_t>(y.size() * 2)});
    row += rows;
  } while (row < m.rows);
  io::drop_mapped(m.codes->bytes);
  io::drop_mapped(m.scales->bytes);
}

void UnitMaker::make(const ConvertUnit& unit, const TensorSink& sink) {
  if (unit.making == Making::quantize) return quantize(unit, sink);
  for (const Member& member : unit.members) {
    switch (unit.making) {
      case Making::copy:
        for_pieces(member.dense->bytes, [&](std::span<const std::byte> piece) { sink(member.out, piece); });
        break;
      case Making::transfer:
        transfer(member, sink);
        break;
      default:
        decode(member, sink);
    }
  }
}

double RescaleLoss::relative_l2() const { return signal > 0 ? std::sqrt(noise / signal) : 0; }

std::vector<RescaleLoss> UnitMaker::losses(const ConvertUnit& unit) {
  std::vector<RescaleLoss> losses;
  for (const Member& member : unit.members) {
    if (member.ratio.empty()) continue;
    const StoredModule& m = *member.stored;
    RescaleLoss loss{member.name, 1, 0, 0, 0, 0};
    for (size_t s = 0; s < m.segments.size(); ++s) {
      const auto [begin, end] = blocks_of(m, s);
      const double ratio = member.ratio[s];
      loss.ratio = std::min(loss.ratio, ratio);
      for (int64_t b = begin; b < end; ++b) {
        const auto byte = std::to_integer<uint8_t>(m.scales->bytes[static_cast<size_t>(b)]);
        const uint8_t after = rescaled_byte(byte, ratio);
        loss.underflows += (byte & 0x7Fu) != 0 && (after & 0x7Fu) == 0 ? 1 : 0;
        double squares = 0;
        for (int64_t i = 0; i < 8; ++i)
          squares +=
              double{kPairSquares[std::to_integer<uint8_t>(m.codes->bytes[static_cast<size_t>(8 * b + i)])]};
        // In units of the shared outer scale.
        const double before = E4M3::decode(byte) * ratio, change = E4M3::decode(after) - before;
        loss.signal += squares * before * before;
        loss.noise += squares * change * change;
      }
      loss.blocks += end - begin;
    }
    io::drop_mapped(m.codes->bytes);
    losses.push_back(std::move(loss));
  }
  return losses;
}

}  // namespace minite::checkpoints
