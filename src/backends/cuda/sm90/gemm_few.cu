// Products of few rows with NVFP4 weights, straight from the packed codes. A weight row is a row of the
// matrix instruction, a token a column, so that the 16 rows of an instruction are always full.
//
// A warp owns 16 weight rows and one chunk of K: a chain of its own, as in the kernels for many rows. It
// copies 128 k at a time (64 bytes of codes and 8 scales of each row) into a ring of its own; nothing waits
// for another warp. Decoding, for rows g and g + 8 and the block of one k16 step: lane t takes bytes b and b
// + 2 (b = t % 2) of word t / 2 of the block, so a pair of codes in one register lies 4 apart, and the
// tokens' values are paired in the same way. (Which of the 16 k of an instruction is which changes no bit of
// its sum.) A code becomes BF16 by moving its sign to bit 15 and its other bits to 8..6, which makes it code
// * 2^-126; the block scale comes as d * 2^118. Their product is exact and 2^-8 too small, the epilogue
// multiplies the sum by 2^8. So the bits are those of the other kernels as long as no product of a weight and
// a token's value is below 2^-118.
#include "backends/cuda/common/launch.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/mma.h"
#include "formats/codecs.h"

namespace minite::cuda::sm90 {
namespace {

constexpr int kRows = 16, kWindow = 128, kStages = 4;
constexpr int kPitch = 80;  ///< bytes between rows of codes: 16-byte reads of 8 rows fall on all banks once
constexpr float kGain = 256.0f, kScaleGain = 0x1p118f;

/// One window of one warp.
struct Stage {
  uint8_t codes[kRows * kPitch];
  uint8_t scales[kRows * 8];
};
/// All that a warp keeps in shared memory; `factor` holds the window's block scales as BF16 pairs.
struct WarpRing {
  Stage stage[kStages];
  uint32_t factor[kRows][8];
};

struct FewShape {
  int tokens, rows, depth;  ///< M, N, K
  int chunk, chunks;
  int tiles;  ///< row tiles of a block; 1 where a block holds all chunks of a tile
};

/// Two FP32 of two E4M3 bytes by the processor's own conversion; NaN stays NaN.
__device__ inline float2 scales_of(uint32_t bytes) {
  uint32_t halves = 0;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(bytes)));
  float low = 0, high = 0;
  asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
      : "=f"(low), "=f"(high)
      : "r"(halves));
  return {low, high};
}
/// ggml's bytes have no sign, and 0x7F is 0.
__device__ inline uint32_t without_sign(uint32_t bytes) {
  const uint32_t plain = bytes & 0x7F7F7F7Fu;
  return plain & ~__vcmpeq4(plain, 0x7F7F7F7Fu);
}

template <int kTiles>
class Worker {
 public:
  __device__ Worker(const FewOperands& in, const FewShape& shape, WarpRing& ring, int row0, int k0, int k1)
      : in_(in), shape_(shape), ring_(ring), row0_(row0), begin_(k0), windows_((k1 - k0) / kWindow) {}

  /// The chain of this warp's 16 rows by 8 kTiles tokens.
  __device__ void run(float (&d)[kTiles][4]) {
    for (int w = 0; w < kStages - 1; ++w) fetch(w);
    for (int w = 0; w < windows_; ++w) {
      copy_wait<kStages - 2>();
      __syncwarp();
      convert_scales(ring_.stage[w % kStages]);
      fetch(w + kStages - 1);
      __syncwarp();
      multiply(ring_.stage[w % kStages], begin_ + w * kWindow, d);
      __syncwarp();
    }
    copy_wait<0>();
  }

 private:
  /// Starts the copy of window w, if there is one; an empty group otherwise.
  __device__ void fetch(int w) {
    if (w < windows_) {
      Stage& to = ring_.stage[w % kStages];
      const int64_t k = begin_ + w * kWindow;
      for (int i = lane_; i < kRows * 4; i += 32) {
        const int r = i / 4, piece = i % 4 * 16;
        if (row0_ + r < shape_.rows)
          copy_async<16>(to.codes + r * kPitch + piece,
                         in_.codes + (row0_ + r) * in_.code_stride + k / 2 + piece);
      }
      if (lane_ < kRows && row0_ + lane_ < shape_.rows)
        copy_async<8>(to.scales + lane_ * 8, in_.scales + (row0_ + lane_) * in_.scale_stride + k / 16);
    }
    copy_commit();
  }

  /// Lane l turns 4 scales of row l / 2 into factors.
  __device__ void convert_scales(const Stage& from) {
    const int r = lane_ / 2, first = lane_ % 2 * 4;
    uint32_t bytes = *reinterpret_cast<const uint32_t*>(from.scales + r * 8 + first);
    if (in_.unsigned_scales) bytes = without_sign(bytes);
    const float2 low = scales_of(bytes & 0xFFFFu), high = scales_of(bytes >> 16);
    *reinterpret_cast<uint4*>(&ring_.factor[r][first]) = {
        pair_of(low.x * kScaleGain), pair_of(low.y * kScaleGain), pair_of(high.x * kScaleGain),
        pair_of(high.y * kScaleGain)};
  }

  /// Codes whose bytes are in r[15:8] and r[31:24], times the factor: low nibbles to `low`, high to `high`.
  static __device__ void decode(uint32_t r, uint32_t factor, uint32_t& low, uint32_t& high) {
    constexpr uint32_t kSign = 0x80008000u, kMagnitude = 0x01C001C0u;
    high = multiply_pairs((r & kSign) | (r >> 6 & kMagnitude), factor);
    low = multiply_pairs((r << 4 & kSign) | (r >> 2 & kMagnitude), factor);
  }

  __device__ void multiply(const Stage& from, int k, float (&d)[kTiles][4]) {
    const int g = lane_ / 4, t = lane_ % 4;
    // Bytes b and b + 2 of word t / 2 go to bytes 1 and 3.
    const uint32_t pick = t / 2 * 0x4040u + t % 2 * 0x1010u + 0x2000u;
    const int column = 8 * (t / 2) + 2 * (t % 2);
    uint32_t upper[8], lower[8];
    load_factors(g, upper);
    load_factors(g + 8, lower);
#pragma unroll
    for (int pair = 0; pair < kWindow / 32; ++pair) {
      const uint4 top = *reinterpret_cast<const uint4*>(from.codes + g * kPitch + pair * 16);
      const uint4 bottom = *reinterpret_cast<const uint4*>(from.codes + (g + 8) * kPitch + pair * 16);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int step = 2 * pair + half;
        uint32_t a[4];
        decode(__byte_perm(half == 0 ? top.x : top.z, half == 0 ? top.y : top.w, pick), upper[step], a[0],
               a[2]);
        decode(__byte_perm(half == 0 ? bottom.x : bottom.z, half == 0 ? bottom.y : bottom.w, pick),
               lower[step], a[1], a[3]);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const int token = 8 * tile + g;
          uint32_t first = 0, second = 0;
          if (token < shape_.tokens) {
            const auto* x =
                reinterpret_cast<const uint32_t*>(in_.x + token * in_.x_stride + k + 16 * step + column);
            first = __ldg(x);
            second = __ldg(x + 2);
          }
          mma(d[tile], a, __byte_perm(first, second, 0x5410), __byte_perm(first, second, 0x7632));
        }
      }
    }
  }

  __device__ void load_factors(int r, uint32_t (&to)[8]) const {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(&ring_.factor[r][0]);
    *reinterpret_cast<uint4*>(to + 4) = *reinterpret_cast<const uint4*>(&ring_.factor[r][4]);
  }

  const FewOperands& in_;
  const FewShape& shape_;
  WarpRing& ring_;
  int row0_, begin_, windows_;
  int lane_ = threadIdx.x % 32;
};

/// Sums of one chunk: [16 rows][8 kTiles tokens].
template <int kTiles>
__device__ void put_sums(float* to, const float (&d)[kTiles][4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int c = 8 * tile + 2 * t;
    to[g * 8 * kTiles + c] = d[tile][0];
    to[g * 8 * kTiles + c + 1] = d[tile][1];
    to[(g + 8) * 8 * kTiles + c] = d[tile][2];
    to[(g + 8) * 8 * kTiles + c + 1] = d[tile][3];
  }
}

/// Blocks hold `tiles` row tiles with one chunk each, or one row tile with all its chunks.
template <int kTiles>
__global__ void few_kernel(FewOperands in, FewShape shape, DeviceEpilogue epilogue) {
  extern __shared__ uint4 memory[];
  auto* rings = reinterpret_cast<WarpRing*>(memory);
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  auto* sums = reinterpret_cast<float*>(rings + warps);
  constexpr int kSums = kRows * 8 * kTiles;
  const int chunks = shape.chunks;
  for (int unit = warp; unit < shape.tiles * chunks; unit += warps) {
    const int tile = unit / chunks, chunk = unit % chunks;
    const int row0 = (static_cast<int>(blockIdx.x) * shape.tiles + tile) * kRows;
    float d[kTiles][4] = {};
    if (row0 < shape.rows) {
      const int k0 = chunk * shape.chunk, k1 = min(shape.depth, k0 + shape.chunk);
      Worker<kTiles>(in, shape, rings[warp], row0, k0, k1).run(d);
    }
    put_sums<kTiles>(sums + unit * kSums, d);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < shape.tiles * kSums; i += blockDim.x) {
    const int row = i % kRows, tile = i / kRows % shape.tiles, token = i / (kRows * shape.tiles);
    const int n = (static_cast<int>(blockIdx.x) * shape.tiles + tile) * kRows + row;
    if (token >= shape.tokens || n >= shape.rows) continue;
    const float* from = sums + tile * chunks * kSums + row * 8 * kTiles + token;
    float sum = from[0];
    for (int c = 1; c < chunks; ++c) sum = sum + from[c * kSums];
    store(epilogue, token, n, sum * kGain);
  }
}

constexpr int kMostWarps = 8;

template <int kTiles>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  const int units = shape.tiles * shape.chunks, warps = units < kMostWarps ? units : kMostWarps;
  const int bytes = warps * static_cast<int>(sizeof(WarpRing)) + units * kRows * 8 * kTiles * 4;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(few_kernel<kTiles>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
  check(kAllowed, "shared memory of qgemm");
  const int rows = kRows * shape.tiles;
  few_kernel<kTiles><<<(shape.rows + rows - 1) / rows, 32 * warps, bytes, stream>>>(in, shape, epilogue);
  check(cudaGetLastError(), "qgemm");
}

}  // namespace

void gemm_few(const FewOperands& in, int64_t tokens, int64_t rows, int64_t depth,
              const DeviceEpilogue& epilogue, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  FewShape shape{};
  shape.tokens = static_cast<int>(tokens);
  shape.rows = static_cast<int>(rows);
  shape.depth = static_cast<int>(depth);
  shape.chunk = static_cast<int>(chunk_length(rows, depth));
  shape.chunks = static_cast<int>(chunks(rows, depth));
  shape.tiles = shape.chunks == 1 ? 4 : 1;
  if (tokens <= 8) return launch<1>(in, shape, epilogue, stream);
  if (tokens <= 16) return launch<2>(in, shape, epilogue, stream);
  if (tokens <= 32) return launch<4>(in, shape, epilogue, stream);
  launch<8>(in, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
