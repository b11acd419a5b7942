// ggml's reference row quantizers for NVFP4 and MXFP4: scale bytes, codes and decoded values, byte for byte.
// The file's layout is in tests/golden/README.md; `test_golden --ggml=FILE` checks another one.
#include "backends/registry.h"
#include "golden/golden.h"
#include "io/mapped_file.h"
#include "ops/ops.h"

namespace minite {
namespace {

constexpr uint32_t kMagic = 0x524F4747;  // "GGOR"
constexpr uint32_t kMxfp4 = 39, kNvfp4 = 40;

struct Section {
  uint32_t type = 0, kind = 0;
  int64_t rows = 0, cols = 0;
  const std::byte *input = nullptr, *blocks = nullptr, *decoded = nullptr;
};

template <class T>
T read(const std::byte*& p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  p += sizeof(T);
  return value;
}

std::vector<Section> sections_of(std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  EXPECT_EQ(read<uint32_t>(p), kMagic);
  EXPECT_EQ(read<uint32_t>(p), 1u);
  std::vector<Section> sections(read<uint32_t>(p));
  p += 4;
  for (Section& s : sections) {
    s.type = read<uint32_t>(p);
    s.kind = read<uint32_t>(p);
    s.rows = read<uint32_t>(p);
    s.cols = read<uint32_t>(p);
    const auto input = read<uint64_t>(p), blocks = read<uint64_t>(p), decoded = read<uint64_t>(p);
    s.input = p;
    s.blocks = p + input;
    s.decoded = s.blocks + blocks;
    p = s.decoded + decoded;
  }
  EXPECT_EQ(p, bytes.data() + bytes.size());
  return sections;
}

/// A GGUF payload's scale bytes and codes, taken apart. NVFP4: 64 elements are 4 scale bytes and 32 bytes of
/// codes, MXFP4: 32 elements are 1 and 16; of each run of 16 (32) elements the first half is in low nibbles.
void take_apart(const Section& s, const QTensor& q) {
  const int64_t run = s.type == kNvfp4 ? 16 : 32, runs = s.type == kNvfp4 ? 4 : 1;
  const auto* p = reinterpret_cast<const uint8_t*>(s.blocks);
  std::memset(q.codes, 0, static_cast<size_t>(q.rows * q.code_stride()));
  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t b = 0; b < s.cols / run; b += runs) {
      std::memcpy(q.block_scales + r * q.scale_stride() + b, p, static_cast<size_t>(runs));
      p += runs;
      for (int64_t c = b * run; c < (b + runs) * run; ++c) {
        const int64_t i = c % run, half = run / 2;
        const uint8_t byte = p[(c / run - b) * half + i % half];
        const int code = i < half ? byte & 15 : byte >> 4;
        q.codes[r * q.code_stride() + c / 2] |= static_cast<uint8_t>(code << (c % 2 * 4));
      }
      p += runs * run / 2;
    }
  }
}

TEST(Ggml, EveryByteOnEveryBackend) {
  const io::MappedFile file(golden::files.ggml);
  ThreadPool pool(2);
  int quantized = 0, swept = 0;
  for (const Section& s : sections_of(file.bytes())) {
    if (s.type != kNvfp4 && s.type != kMxfp4) continue;
    const QuantSpec spec = {.format = s.type == kNvfp4 ? FormatId::nvfp4 : FormatId::mxfp4,
                            .convention = Convention::ggml};
    Buffer want_memory(QTensor::bytes(spec, s.rows, s.cols)),
        got_memory(QTensor::bytes(spec, s.rows, s.cols));
    const QTensor want = QTensor::place(spec, s.rows, s.cols, want_memory.data());
    const QTensor got = QTensor::place(spec, s.rows, s.cols, got_memory.data());
    take_apart(s, want);
    for (const Backend& backend : backends()) {
      if (backend.table == nullptr) continue;
      SCOPED_TRACE(std::string(backend.name) + " type " + std::to_string(s.type) + " " +
                   std::to_string(s.rows) + "x" + std::to_string(s.cols));
      const Context ctx{backend.table, &pool, nullptr, {}};
      if (s.kind == 0) {
        Buffer x(s.rows * s.cols * 4);
        std::memcpy(x.data(), s.input, static_cast<size_t>(s.rows * s.cols * 4));
        ops::quantize(ctx, {{x.data(), DType::f32, s.rows, s.cols}, Orientation::rows, got, {}});
        EXPECT_EQ(golden::first_difference(want.codes, got.codes, got.rows * got.code_stride()), "");
        EXPECT_EQ(
            golden::first_difference(want.block_scales, got.block_scales, got.rows * got.scale_stride()), "");
        ++quantized;
      } else {
        ++swept;
      }
      std::vector<float> y(static_cast<size_t>(s.rows * s.cols)), decoded(y.size());
      std::memcpy(decoded.data(), s.decoded, decoded.size() * 4);
      ops::dequantize(ctx, {want, TensorView(y.data(), s.rows, s.cols)});
      EXPECT_EQ(golden::first_float_difference(decoded.data(), y.data(), s.rows * s.cols), "");
    }
  }
  EXPECT_GT(quantized, 0);
  EXPECT_GT(swept, 0);
}

}  // namespace
}  // namespace minite
