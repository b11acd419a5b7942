// One thread owns 4 x 4 outputs of a 64 x 64 tile and walks k ascending. Elements are decoded into shared
// memory 16 k at a time: one NVFP4 block, so that the exact block sums of NVFP4 x NVFP4 fall on whole slices.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/common/gemm_exact.h"
#include "backends/cuda/common/launch.h"
#include "backends/cuda/common/operand.h"

namespace minite::cuda {
namespace {

constexpr int kTile = 64, kSlice = 16, kSide = 4, kThreads = 256;

/// NVFP4 x NVFP4 rounds once a block, everything else once a product.
enum class Chain : uint8_t { fma, blocks };

struct Slice {
  float value[kSlice][kTile + 4];
};

__device__ void load_slice(const DeviceOperand& x, int64_t first, int64_t rows, int64_t k0, int64_t depth,
                           Slice& to) {
  for (int i = threadIdx.x; i < kTile * kSlice; i += kThreads) {
    const int r = i / kSlice, k = i % kSlice;
    const bool inside = first + r < rows && k0 + k < depth;
    to.value[k][r] = inside ? element(x, first + r, k0 + k) : 0.0f;
  }
}

template <Chain kChain>
__global__ void __launch_bounds__(kThreads)
    exact_kernel(DeviceOperand a, DeviceOperand b, DeviceEpilogue epilogue, int64_t m, int64_t n,
                 int64_t depth) {
  __shared__ Slice sa, sb;
  const int64_t m0 = int64_t{blockIdx.y} * kTile, n0 = int64_t{blockIdx.x} * kTile;
  const int row = threadIdx.x / 16 * kSide, col = threadIdx.x % 16 * kSide;
  float acc[kSide][kSide] = {};
  for (int64_t k0 = 0; k0 < depth; k0 += kSlice) {
    load_slice(a, m0, m, k0, depth, sa);
    load_slice(b, n0, n, k0, depth, sb);
    __syncthreads();
    const int end = static_cast<int>(depth - k0 < kSlice ? depth - k0 : kSlice);
    float block[kSide][kSide] = {};
    for (int k = 0; k < end; ++k) {
      for (int i = 0; i < kSide; ++i) {
        for (int j = 0; j < kSide; ++j) {
          float& to = kChain == Chain::blocks ? block[i][j] : acc[i][j];
          to = fmaf(sa.value[k][row + i], sb.value[k][col + j], to);
        }
      }
    }
    if constexpr (kChain == Chain::blocks) {
      for (int i = 0; i < kSide; ++i) {
        for (int j = 0; j < kSide; ++j) acc[i][j] = acc[i][j] + block[i][j];
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kSide; ++i) {
    for (int j = 0; j < kSide; ++j) {
      if (m0 + row + i < m && n0 + col + j < n) store(epilogue, m0 + row + i, n0 + col + j, acc[i][j]);
    }
  }
}

}  // namespace

void gemm_exact(const GemmArgs& args, const Exec& exec) {
  if (args.y.size() == 0) return;
  const DeviceOperand a = device_operand(args.a), b = device_operand(args.b);
  const int64_t m = args.y.rows, n = args.y.cols;
  const bool by_block = args.a.format() == FormatId::nvfp4 && args.b.format() == FormatId::nvfp4;
  const auto kernel = by_block ? exact_kernel<Chain::blocks> : exact_kernel<Chain::fma>;
  const dim3 grid(blocks(static_cast<size_t>(n), kTile), blocks(static_cast<size_t>(m), kTile));
  kernel<<<grid, kThreads, 0, stream_of(exec)>>>(a, b, device_epilogue(args), m, n, args.a.depth());
  check(cudaGetLastError(), "qgemm");
}

}  // namespace minite::cuda
