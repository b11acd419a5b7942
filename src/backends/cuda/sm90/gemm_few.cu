// Products of few rows with NVFP4 weights, straight from the packed codes. A weight row is a row of the
// matrix instruction, a token a column, so that the 16 rows of an instruction are always full.
//
// A warp owns 16 weight rows; the warps of a block walk the same chunk of K and share the tokens' values, 128
// k at a time, through a ring of stages. The blocks of a cluster have the chunks of the same rows: each a
// chain of its own, as in the kernels for many rows, and at the end every block adds the sums of some
// outputs, chunks ascending, from the shared memory of all.
//
// Decoding, for rows g and g + 8 and the block of one k16 step: lane t takes bytes t and t + 4 of the block,
// so a register pairs k and k + 8, and the tokens' values are paired in the same way. (Which of the 16 k of
// an instruction is which changes no bit of its sum.)
#include <algorithm>

#include "backends/cuda/common/launch.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/decode.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/mma.h"
#include "backends/cuda/sm90/pipeline.h"

namespace minite::cuda::sm90 {
namespace {

constexpr int kRows = 16, kWindow = 256;
constexpr int kCodePitch =
    80;  ///< bytes between rows of codes: 16-byte reads of 8 rows fall on all banks once
constexpr int kValuePitch = 528;  ///< bytes between tokens: the same for ldmatrix
constexpr int kMostBlocks = 8;    ///< of a cluster

struct FewShape {
  int tokens, rows, depth;      ///< M, N, K
  int chunk, chunks;            ///< k of a chunk; their number
  int chunks_of_block, blocks;  ///< of a cluster
};

/// One window of one warp: kRowTiles times 16 rows.
template <int kRowTiles>
struct Weights {
  uint8_t codes[kRowTiles][kRows * kCodePitch];
  uint8_t scales[kRowTiles][kRows * 16];
};
/// Block scales of the window in work, as BF16 pairs.
template <int kRowTiles>
struct Factors {
  uint32_t of[kRowTiles][kRows][16];
};

/// Shared memory of a block: the ring of weights and values, factors, sums [chunk][row][token].
template <int kTiles, int kRowTiles>
struct FewMemory {
  using W = Weights<kRowTiles>;
  using F = Factors<kRowTiles>;
  static constexpr int kTokens = 8 * kTiles, kValueBytes = kTokens * kValuePitch;
  static constexpr int kStages = kTiles == 8 ? 3 : 4;  // 64 tokens fill the block's memory
  uint8_t* base;
  int warps;

  static constexpr int bytes(int warps, int chunks_of_block) {
    return kStages * (warps * static_cast<int>(sizeof(W)) + kValueBytes) +
           warps * static_cast<int>(sizeof(F)) + chunks_of_block * warps * kRowTiles * kRows * kTokens * 4;
  }
  [[nodiscard]] __device__ W& weights(int stage, int warp) const {
    return reinterpret_cast<W*>(base)[stage * warps + warp];
  }
  [[nodiscard]] __device__ uint8_t* values(int stage) const {
    return base + kStages * warps * sizeof(W) + stage * kValueBytes;
  }
  [[nodiscard]] __device__ F& factors(int warp) const { return reinterpret_cast<F*>(values(kStages))[warp]; }
  [[nodiscard]] __device__ float* sums(int chunk) const {
    return reinterpret_cast<float*>(&factors(warps)) + chunk * warps * kRowTiles * kRows * kTokens;
  }
};

/// Four 8 x 8 tiles of BF16; the address is that of row lane % 8 of tile lane / 8.
__device__ inline void load_tiles(uint32_t (&x)[4], const void* address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(shared_address(address))
               : "memory");
}

template <int kTiles, int kRowTiles, bool kUnsigned>
class Worker {
  using Memory = FewMemory<kTiles, kRowTiles>;
  static constexpr int kStages = Memory::kStages;

 public:
  /// Rows from row0 on are this warp's; k0 is the first k of the chunk.
  __device__ Worker(const FewOperands& in, const FewShape& shape, const Memory& memory, int row0, int k0)
      : memory_(memory), warp_(threadIdx.x / 32), lane_(threadIdx.x % 32) {
    const auto row = [&](int r) { return static_cast<int64_t>(min(row0 + r, shape.rows - 1)); };
#pragma unroll
    for (int i = 0; i < 4 * kRowTiles; ++i)
      codes_[i] = in.codes + row(4 * i + lane_ / 8) * in.code_stride + k0 / 2 + lane_ % 8 * 16;
    scales_ = in.scales + row(lane_ % (16 * kRowTiles)) * in.scale_stride + k0 / 16;
    values_ = in.x + k0;
    x_stride_ = in.x_stride;
    blocks_ = shape.tokens * (kWindow / 16);
    windows_ = min(shape.chunk, shape.depth - k0) / kWindow;
  }

  /// The chain of this warp's rows by 8 kTiles tokens over the chunk.
  __device__ void run(float (&d)[kRowTiles][kTiles][4]) {
    for (int w = 0; w < kStages - 1; ++w) fetch(w);
    wait_for_groups<kStages - 2>();
    pair_values(0);
    for (int w = 0; w < windows_; ++w) {
      wait_for_groups<kStages - 3>();
      __syncthreads();  // window w is there for all, paired; nobody reads the stage of window w - 1
      fetch(w + kStages - 1);
      pair_values(w + 1);
      convert_scales(memory_.weights(w % kStages, warp_));
      __syncwarp();
      multiply(w % kStages, d);
    }
    wait_for_groups<0>();
    __syncthreads();
  }

 private:
  /// Starts the copy of window w, if there is one; an empty group otherwise.
  __device__ void fetch(int w) {
    if (w < windows_) {
      auto& to = memory_.weights(w % kStages, warp_);
      uint8_t* codes = to.codes[0] + lane_ / 8 * kCodePitch + lane_ % 8 * 16;
#pragma unroll
      for (int i = 0; i < 4 * kRowTiles; ++i)
        copy_async(codes + i * 4 * kCodePitch, codes_[i] + w * (kWindow / 2));
      if (lane_ < 16 * kRowTiles) copy_async(to.scales[0] + lane_ * 16, scales_ + w * (kWindow / 16));
      uint8_t* values = memory_.values(w % kStages);
      for (int i = static_cast<int>(threadIdx.x); i < blocks_; i += static_cast<int>(blockDim.x)) {
        const int token = i / (kWindow / 16), block = i % (kWindow / 16);
        uint8_t* place = values + token * kValuePitch + block * 32;
        const uint16_t* from = values_ + token * x_stride_ + w * kWindow + block * 16;
        copy_async(place, from);
        copy_async(place + 16, from + 8);
      }
    }
    commit_copies();
  }

  /// Pairs x[k] with x[k + 8] in the blocks that this thread copied: the even k's pairs first, then the odd
  /// k's.
  __device__ void pair_values(int w) {
    if (w >= windows_) return;
    uint8_t* values = memory_.values(w % kStages);
    for (int i = static_cast<int>(threadIdx.x); i < blocks_; i += static_cast<int>(blockDim.x)) {
      auto* place =
          reinterpret_cast<uint4*>(values + i / (kWindow / 16) * kValuePitch + i % (kWindow / 16) * 32);
      const uint4 a = place[0], b = place[1];
      place[0] = {__byte_perm(a.x, b.x, 0x5410), __byte_perm(a.y, b.y, 0x5410), __byte_perm(a.z, b.z, 0x5410),
                  __byte_perm(a.w, b.w, 0x5410)};
      place[1] = {__byte_perm(a.x, b.x, 0x7632), __byte_perm(a.y, b.y, 0x7632), __byte_perm(a.z, b.z, 0x7632),
                  __byte_perm(a.w, b.w, 0x7632)};
    }
  }

  /// Lane l turns 8 scales of row l / 2 of each tile into factors.
  __device__ void convert_scales(const Weights<kRowTiles>& from) {
    const int r = lane_ / 2, first = lane_ % 2 * 8;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(from.scales[i] + r * 16 + first);
      uint32_t* to = &memory_.factors(warp_).of[i][r][first];
      put_factors(to, bytes.x);
      put_factors(to + 4, bytes.y);
    }
  }
  static __device__ void put_factors(uint32_t* to, uint32_t bytes) {
    const float2 low = scale_pair(bytes & 0xFFFFu, kUnsigned), high = scale_pair(bytes >> 16, kUnsigned);
    *reinterpret_cast<uint4*>(to) = {pair_of(low.x * kScaleGain), pair_of(low.y * kScaleGain),
                                     pair_of(high.x * kScaleGain), pair_of(high.y * kScaleGain)};
  }

  /// The fragments of two steps: 16 bytes of codes of rows g and g + 8.
  static __device__ void decode(uint32_t (&a)[2][4], const uint4& top, const uint4& bottom, uint2 upper,
                                uint2 lower, uint32_t pick) {
    decode_pairs(__byte_perm(top.x, top.y, pick), upper.x, a[0][0], a[0][2]);
    decode_pairs(__byte_perm(bottom.x, bottom.y, pick), lower.x, a[0][1], a[0][3]);
    decode_pairs(__byte_perm(top.z, top.w, pick), upper.y, a[1][0], a[1][2]);
    decode_pairs(__byte_perm(bottom.z, bottom.w, pick), lower.y, a[1][1], a[1][3]);
  }

  __device__ void multiply(int stage, float (&d)[kRowTiles][kTiles][4]) {
    const auto& from = memory_.weights(stage, warp_);
    const auto& factors = memory_.factors(warp_);
    const int g = lane_ / 4;
    const uint32_t pick = pick_of(lane_ % 4);
    const uint8_t* values = memory_.values(stage) + lane_ % 8 * kValuePitch + lane_ / 8 * 16;
#pragma unroll
    for (int pair = 0; pair < kWindow / 32; ++pair) {
      uint32_t a[kRowTiles][2][4];
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const uint8_t* codes = from.codes[i] + g * kCodePitch + pair * 16;
        decode(a[i], *reinterpret_cast<const uint4*>(codes),
               *reinterpret_cast<const uint4*>(codes + 8 * kCodePitch),
               *reinterpret_cast<const uint2*>(&factors.of[i][g][2 * pair]),
               *reinterpret_cast<const uint2*>(&factors.of[i][g + 8][2 * pair]), pick);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint32_t x[4];
        load_tiles(x, values + tile * 8 * kValuePitch + pair * 64);
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
          mma(d[i][tile], a[i][0], x[0], x[1]);
          mma(d[i][tile], a[i][1], x[2], x[3]);
        }
      }
    }
  }

  const Memory& memory_;
  int warp_, lane_;
  const uint8_t *codes_[4 * kRowTiles], *scales_;
  const uint16_t* values_;
  int64_t x_stride_;
  int blocks_, windows_;
};

/// Sums of 16 rows: [row][token].
template <int kTiles>
__device__ void put_sums(float* to, const float (&d)[kTiles][4]) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int c = 8 * tile + 2 * t;
    *reinterpret_cast<float2*>(to + g * 8 * kTiles + c) = {d[tile][0], d[tile][1]};
    *reinterpret_cast<float2*>(to + (g + 8) * 8 * kTiles + c) = {d[tile][2], d[tile][3]};
  }
}

/// What lies at `p` in block `rank` of the cluster.
__device__ inline float load_from(const float* p, int rank) {
  float x = 0;
  asm volatile(
      "{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2; ld.shared::cluster.f32 %0, [there]; }"
      : "=f"(x)
      : "r"(shared_address(p)), "r"(rank)
      : "memory");
  return x;
}

template <int kTiles, int kRowTiles, bool kUnsigned>
__global__ void few_kernel(FewOperands in, FewShape shape, DeviceEpilogue epilogue) {
  extern __shared__ uint4 raw[];
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32;
  const FewMemory<kTiles, kRowTiles> memory{reinterpret_cast<uint8_t*>(raw), warps};
  constexpr int kWarpRows = kRowTiles * kRows;
  const int rank = static_cast<int>(blockIdx.x) % shape.blocks;
  const int row0 = static_cast<int>(blockIdx.x) / shape.blocks * warps * kWarpRows;
  for (int c = 0; c < shape.chunks_of_block; ++c) {
    const int chunk = rank * shape.chunks_of_block + c;
    if (chunk >= shape.chunks) break;
    float d[kRowTiles][kTiles][4] = {};
    Worker<kTiles, kRowTiles, kUnsigned>(in, shape, memory, row0 + warp * kWarpRows, chunk * shape.chunk)
        .run(d);
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
      put_sums<kTiles>(memory.sums(c) + (warp * kWarpRows + i * kRows) * 8 * kTiles, d[i]);
  }
  shape.blocks == 1 ? __syncthreads() : cluster_sync();
  const int rows = warps * kWarpRows, step = static_cast<int>(blockDim.x) * shape.blocks;
  for (int i = rank * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x); i < rows * shape.tokens;
       i += step) {
    const int row = i % rows, token = i / rows, at = row * 8 * kTiles + token;
    if (row0 + row >= shape.rows) continue;
    float sum = 0;
    for (int c = 0; c < shape.chunks; ++c) {
      const float* from = memory.sums(c % shape.chunks_of_block) + at;
      const float part = shape.blocks == 1 ? *from : load_from(from, c / shape.chunks_of_block);
      sum = c == 0 ? part : sum + part;
    }
    store(epilogue, token, row0 + row, sum);
  }
  if (shape.blocks > 1) cluster_sync();  // nobody leaves whose sums are still read
}

/// Where rows abound more warps share the values.
constexpr int warps_of(const FewShape& shape) { return shape.chunks == 1 ? 8 : 4; }

template <int kTiles, bool kUnsigned>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  constexpr auto kKernel = few_kernel<kTiles, 1, kUnsigned>;
  static const cudaError_t kAllowed =
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  check(kAllowed, "shared memory of qgemm");
  const int warps = warps_of(shape), rows = warps * kRows;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(shape.blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>((shape.rows + rows - 1) / rows * shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(32 * warps));
  config.dynamicSmemBytes = static_cast<size_t>(FewMemory<kTiles, 1>::bytes(warps, shape.chunks_of_block));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = shape.blocks == 1 ? 0 : 1;
  check(cudaLaunchKernelEx(&config, kKernel, in, shape, epilogue), "qgemm");
}

template <bool kUnsigned>
void launch(const FewOperands& in, const FewShape& shape, const DeviceEpilogue& epilogue,
            cudaStream_t stream) {
  if (shape.tokens <= 8) return launch<1, kUnsigned>(in, shape, epilogue, stream);
  if (shape.tokens <= 16) return launch<2, kUnsigned>(in, shape, epilogue, stream);
  if (shape.tokens <= 32) return launch<4, kUnsigned>(in, shape, epilogue, stream);
  launch<8, kUnsigned>(in, shape, epilogue, stream);
}

FewShape shape_of(int64_t tokens, int64_t rows, int64_t depth) {
  FewShape shape{};
  shape.tokens = static_cast<int>(tokens);
  shape.rows = static_cast<int>(rows);
  shape.depth = static_cast<int>(depth);
  shape.chunk = static_cast<int>(chunk_length(rows, depth));
  shape.chunks = static_cast<int>(chunks(rows, depth));
  shape.chunks_of_block = (shape.chunks + kMostBlocks - 1) / kMostBlocks;
  shape.blocks = (shape.chunks + shape.chunks_of_block - 1) / shape.chunks_of_block;
  return shape;
}

}  // namespace

int64_t few_memory(int64_t tokens, int64_t rows, int64_t depth) {
  const FewShape shape = shape_of(tokens, rows, depth);
  const int warps = warps_of(shape), chunks = shape.chunks_of_block;
  if (tokens <= 8) return FewMemory<1, 1>::bytes(warps, chunks);
  if (tokens <= 16) return FewMemory<2, 1>::bytes(warps, chunks);
  if (tokens <= 32) return FewMemory<4, 1>::bytes(warps, chunks);
  return FewMemory<8, 1>::bytes(warps, chunks);
}

void gemm_few(const FewOperands& in, int64_t tokens, int64_t rows, int64_t depth,
              const DeviceEpilogue& epilogue, void* on) {
  const auto stream = static_cast<cudaStream_t>(on);
  const FewShape shape = shape_of(tokens, rows, depth);
  in.unsigned_scales ? launch<true>(in, shape, epilogue, stream) : launch<false>(in, shape, epilogue, stream);
}

}  // namespace minite::cuda::sm90
