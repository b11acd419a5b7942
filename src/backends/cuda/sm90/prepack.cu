// A warp makes one fragment: 32 bytes of codes of each of its 16 rows through shared memory, then every lane
// gathers the 8 codes of its four steps.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/operand.h"
#include "backends/cuda/sm90/fragments.h"
#include "backends/cuda/sm90/prepack.h"

namespace minite::cuda::sm90 {
namespace {

constexpr int kWarps = 8, kPitch = 36;  ///< bytes between rows: words of 8 rows fall on different banks

struct Source {
  const uint8_t *codes, *scales;
  int64_t code_stride, scale_stride;
  int rows, cols;
  Stored stored;
};

/// Block scale of (row, block) as its value; 0 outside the matrix.
__device__ float scale_at(const Source& q, int row, int block) {
  if (row >= q.rows || block >= (q.cols + 15) / 16) return 0.0f;
  return decode_scale(q.scales[row * q.scale_stride + block], q.stored);
}
/// Its byte in a fragment: five bits of exponent, 30 for 2^8, three of mantissa.
__device__ uint32_t scale_byte(float scale) {
  if (isnan(scale)) return 0xFF;
  const uint32_t bits = __float_as_uint(fabsf(scale));
  return bits == 0 ? 0 : ((bits >> 20) - ((127u + 8u - 30u) << 3)) & 0xFFu;
}
/// Four bits of a code under its block's scale: the sign of the scale moves here, zero wins over any code.
__device__ uint32_t code_under(uint32_t code, float scale) {
  if (scale == 0.0f) return 0;
  return scale < 0.0f ? code ^ 8u : code;
}
/// Codes of even and odd k of a byte at their places for register `i`, one half each.
__device__ uint32_t spread(uint32_t byte, float scale, int i) {
  constexpr int kSignAt[4] = {15, 12, 14, 13}, kMagnitudeAt[4] = {6, 3, 0, 9};
  uint32_t word = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t code = code_under(byte >> (4 * half) & 15u, scale);
    word |= ((code >> 3) << kSignAt[i] | (code & 7u) << kMagnitudeAt[i]) << (16 * half);
  }
  return word;
}

/// Bytes 16 half .. 16 half + 15 of the fragment's codes of a row, zeros outside the matrix. An odd last
/// column leaves its byte's upper code alone.
__device__ void copy_codes(uint8_t* to, const Source& q, int row, int first, bool whole) {
  const uint8_t* from = q.codes + row * q.code_stride;
  if (whole && row < q.rows && 2 * first + 32 <= q.cols) {
    const uint4 x = *reinterpret_cast<const uint4*>(from + first);
    auto* words = reinterpret_cast<uint32_t*>(to);
    words[0] = x.x, words[1] = x.y, words[2] = x.z, words[3] = x.w;
    return;
  }
  for (int i = 0; i < 16; ++i) {
    const int k = 2 * (first + i);
    const uint32_t byte = row < q.rows && k < q.cols ? from[first + i] : 0u;
    to[i] = static_cast<uint8_t>(k + 1 < q.cols ? byte : byte & 15u);
  }
}

__global__ void prepack_kernel(Source q, bool whole, int row_tiles, int count, std::byte* out) {
  __shared__ uint32_t room[kWarps][kFragmentRows * kPitch / 4];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (at >= static_cast<int64_t>(row_tiles) * count) return;
  const int tile = static_cast<int>(at / count), fragment = static_cast<int>(at % count);
  auto* bytes = reinterpret_cast<uint8_t*>(room[warp]);
  copy_codes(bytes + lane / 2 * kPitch + lane % 2 * 16, q, tile * kFragmentRows + lane / 2,
             fragment * (kFragmentDepth / 2) + lane % 2 * 16, whole);
  __syncwarp();
  const int g = lane / 4, t = lane % 4, row = tile * kFragmentRows + g;
  uint32_t word[4];
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    word[step] = 0;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const float scale = scale_at(q, row + 8 * lower, fragment * 4 + step);
      const uint8_t* from = bytes + (g + 8 * lower) * kPitch + step * 8 + t;
      word[step] |= spread(from[0], scale, lower) | spread(from[4], scale, 2 + lower);
    }
  }
  std::byte* place = out + (static_cast<int64_t>(tile) * (count / 2) + fragment / 2) * kPairBytes;
  reinterpret_cast<uint4*>(place + fragment % 2 * 512)[lane] = make_uint4(word[0], word[1], word[2], word[3]);
  // Lane (g, t) writes the two bytes of step t.
  const uint32_t pair = scale_byte(scale_at(q, row, fragment * 4 + t)) |
                        scale_byte(scale_at(q, row + 8, fragment * 4 + t)) << 8;
  reinterpret_cast<uint16_t*>(place + kPairCodeBytes)[g * 8 + fragment % 2 * 4 + t] =
      static_cast<uint16_t>(pair);
}

}  // namespace

void prepack_fragments(const QTensor& q, std::byte* out, void* stream) {
  const bool ggml = q.spec.convention == Convention::ggml;
  const Source source{.codes = q.codes,
                      .scales = q.block_scales,
                      .code_stride = q.code_stride(),
                      .scale_stride = q.scale_stride(),
                      .rows = static_cast<int>(q.rows),
                      .cols = static_cast<int>(q.cols),
                      .stored = ggml ? Stored::nvfp4_unsigned_scale : Stored::nvfp4};
  const bool whole = reinterpret_cast<uintptr_t>(q.codes) % 16 == 0 && q.code_stride() % 16 == 0;
  const int64_t tiles = fragment_row_tiles(q.rows), count = 2 * fragment_pairs(q.cols);
  prepack_kernel<<<blocks(static_cast<size_t>(tiles * count), kWarps), 32 * kWarps, 0,
                   static_cast<cudaStream_t>(stream)>>>(source, whole, static_cast<int>(tiles),
                                                        static_cast<int>(count), out);
  check(cudaGetLastError(), "prepack");
}

}  // namespace minite::cuda::sm90
