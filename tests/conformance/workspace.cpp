#include "conformance/workspace.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "formats/codecs.h"
#include "minite/convention.h"

namespace minite::conformance {
namespace {

constexpr size_t kGuard = 256;  ///< poison before and after every buffer
constexpr auto kPoison = std::byte{0xFF};

/// Element i of a buffer as text, and whether it is a NaN of its type.
struct Shown {
  std::string text;
  bool nan;
};
template <class T>
T read(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof(T));
  return x;
}

Shown show(int kind_size, bool is_float, const std::byte* p) {
  if (!is_float) return {fmt::format("0x{:02x}", read<uint8_t>(p)), false};
  if (kind_size == 8) return {fmt::format("{:.17g}", read<double>(p)), std::isnan(read<double>(p))};
  const bool wide = kind_size == 4;
  const uint32_t u = wide ? read<uint32_t>(p) : uint32_t{read<uint16_t>(p)} << 16;
  const auto x = std::bit_cast<float>(u);
  return {fmt::format("{:.9g} (0x{:0{}x})", x, wide ? u : u >> 16, 2 * kind_size), std::isnan(x)};
}

float tie(uint64_t w) {
  static constexpr std::array<float, 16> kPoints = {0.25f,   0.75f, 1.25f,    1.75f,    2.5f,     3.5f,
                                                    5.0f,    6.0f,  0x1p-10f, 0x3p-10f, 0x5p-10f, 1.0625f,
                                                    1.1875f, 17.0f, 432.0f,   448.0f};
  const float x = std::ldexp(kPoints[w % 16], static_cast<int>(w >> 8 & 3) - 1);
  const float nudged = (w >> 16 & 7) == 0   ? std::nextafter(x, 0.0f)
                       : (w >> 16 & 7) == 1 ? std::nextafter(x, 1e9f)
                                            : x;
  return (w >> 32 & 1) != 0 ? -nudged : nudged;
}

}  // namespace

uint64_t Workspace::next() {  // SplitMix64
  uint64_t z = state_ += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

float Workspace::value(Fill fill) {
  const uint64_t w = next();
  const auto part = [&](int shift) { return static_cast<float>(w >> shift & 0xFFFF) / 65536.0f; };
  const float normal = (part(0) + part(16) + part(32) + part(48) - 2.0f) * 1.7f;
  const bool odd = (w & 1) != 0;
  switch (fill) {
    case Fill::normal:
      return normal;
    case Fill::positive:
      return std::fabs(normal) + 0x1p-10f;
    case Fill::ties:
      return tie(w);
    case Fill::wide:
      return std::ldexp(normal, static_cast<int>(w >> 20 & 255) - 130);
    case Fill::sparse:
      return w >> 60 == 0 ? normal : odd ? -0.0f : 0.0f;
    case Fill::finite:
    case Fill::special:
      break;
  }
  const auto limit = fill == Fill::special ? 64u : 0u;
  const auto dice = static_cast<uint32_t>(w >> 48 & 1023);
  if (dice < limit / 8) return std::numeric_limits<float>::infinity() * (odd ? 1.0f : -1.0f);
  if (dice < limit / 4) return std::numeric_limits<float>::quiet_NaN();
  if (dice < 200) return odd ? -0.0f : 0.0f;
  if (dice < 300)
    return std::bit_cast<float>(static_cast<uint32_t>(w >> 10 & 0x7FFFFF)) * (odd ? 1.0f : -1.0f);
  if (dice < 310) return odd ? 3.4e38f : 3.38e38f;
  return normal;
}

std::shared_ptr<std::byte> host_bytes(int64_t bytes) {
  return {new std::byte[static_cast<size_t>(bytes)], [](const std::byte* p) { delete[] p; }};
}

Workspace::Buffer Workspace::poisoned(const char* name, Kind kind, int64_t width, int64_t bytes) const {
  const size_t size = 2 * kGuard + 64 + static_cast<size_t>(bytes);
  Buffer buffer{name, kind, width, allocate_(static_cast<int64_t>(size)), size, 0};
  std::memset(buffer.bytes.get(), static_cast<int>(kPoison), size);
  // Data at a 64-byte boundary, as in the engine.
  const auto address = reinterpret_cast<uintptr_t>(buffer.bytes.get()) + kGuard;
  buffer.offset = kGuard + (64 - address % 64) % 64;
  return buffer;
}

std::byte* Workspace::add(const char* name, Kind kind, int64_t width, int64_t elements, int64_t size) {
  buffers_.push_back(poisoned(name, kind, width, elements * size));
  return buffers_.back().bytes.get() + buffers_.back().offset;
}

std::span<std::byte> Workspace::scratch(int64_t bytes) {
  scratch_.push_back(poisoned("scratch", Kind::bytes, 1, bytes));
  return {scratch_.back().bytes.get() + scratch_.back().offset, static_cast<size_t>(bytes)};
}

TensorView Workspace::output(const char* name, DType dtype, int64_t rows, int64_t cols, int64_t extra) {
  const Kind kind = dtype == DType::f64    ? Kind::f64
                    : dtype == DType::f32  ? Kind::f32
                    : dtype == DType::bf16 ? Kind::bf16
                                           : Kind::bytes;
  const int64_t stride = cols + extra;
  return {add(name, kind, stride, rows * stride, dtype_size(dtype)), dtype, rows, cols, stride};
}

TensorView Workspace::input(const char* name, DType dtype, int64_t rows, int64_t cols, Fill fill,
                            int64_t extra) {
  TensorView x = output(name, dtype, rows, cols, extra);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const float v = value(fill);
      if (dtype == DType::bf16) {
        x.row<bf16>(r)[c] = bf16(v);
      } else if (dtype == DType::f64) {
        x.row<double>(r)[c] = static_cast<double>(v);
      } else {
        x.row<float>(r)[c] = v;
      }
    }
  }
  return x;
}

QTensor Workspace::codes(const char* name, const QuantSpec& spec, int64_t rows, int64_t cols) {
  QTensor q;
  q.spec = spec;
  q.rows = rows;
  q.cols = cols;
  const std::string base = name;
  q.codes = reinterpret_cast<uint8_t*>(
      add((base + ".codes").c_str(), Kind::bytes, q.code_stride(), rows * q.code_stride(), 1));
  q.block_scales = reinterpret_cast<uint8_t*>(
      add((base + ".scales").c_str(), Kind::bytes, q.scale_stride(), rows * q.scale_stride(), 1));
  if (const int64_t n = q.outer_count(); n > 0) {
    q.outer = reinterpret_cast<float*>(add((base + ".outer").c_str(), Kind::f32, 1, n, 4));
    q.amax = reinterpret_cast<float*>(add((base + ".amax").c_str(), Kind::f32, 1, n, 4));
    const ConventionRow* convention = find_convention(spec.convention, spec.format);
    if (convention != nullptr && convention->global == StoredGlobal::reciprocal)
      q.reciprocal = reinterpret_cast<float*>(add((base + ".reciprocal").c_str(), Kind::f32, 1, n, 4));
  }
  return q;
}

std::span<int32_t> Workspace::ints(const char* name, std::vector<int32_t> values) {
  auto* p = reinterpret_cast<int32_t*>(add(name, Kind::bytes, 4, static_cast<int64_t>(values.size()), 4));
  if (!values.empty()) std::memcpy(p, values.data(), values.size() * 4);
  return {p, values.size()};
}
std::span<uint64_t> Workspace::words(const char* name, std::vector<uint64_t> values) {
  auto* p = reinterpret_cast<uint64_t*>(add(name, Kind::bytes, 8, static_cast<int64_t>(values.size()), 8));
  if (!values.empty()) std::memcpy(p, values.data(), values.size() * 8);
  return {p, values.size()};
}
double* Workspace::number(const char* name) {
  return reinterpret_cast<double*>(add(name, Kind::f64, 1, 1, 8));
}

std::string Workspace::difference(const Workspace& other) const {
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const Buffer& x = buffers_[b];
    const Buffer& y = other.buffers_[b];
    // The 64 spare bytes leave the same amount behind both.
    const size_t n = std::min(x.size - x.offset, y.size - y.offset);
    static constexpr std::array<int, 4> kSize = {8, 4, 2, 1};
    const int size = kSize[static_cast<size_t>(x.kind)];
    for (auto i = -static_cast<int64_t>(kGuard) / size; i < static_cast<int64_t>(n) / size; ++i) {
      const std::byte* p = x.data() + i * size;
      const std::byte* q = y.data() + i * size;
      if (std::memcmp(p, q, static_cast<size_t>(size)) == 0) continue;
      const Shown want = show(size, x.kind != Kind::bytes, p), got = show(size, x.kind != Kind::bytes, q);
      if (want.nan && got.nan) continue;
      const int64_t width = std::max<int64_t>(x.width, 1);
      return fmt::format("{} differs first at [{}, {}]: reference {}, candidate {}", x.name, i / width,
                         i % width, want.text, got.text);
    }
  }
  return {};
}

}  // namespace minite::conformance
