// y = epilogue(a b^T) for NVFP4 x NVFP4, by exact integer block dots (block_dot.h).
//
// Many rows: b is packed once a call, a slice of its rows at a time; tasks pack their own rows of a. Few rows
// (decode, experts): a task packs a short piece of a few panels and uses it while it is in L1, so b's packed
// bytes are read once from memory and nothing large is written.
#include "backends/simd/gemm_blocks.h"

#include "backends/simd/block_dot.h"
#include "backends/simd/gemm_epilogue.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

constexpr int64_t kFewRows = 48;          ///< of a product that is alone
constexpr int64_t kFewRowsOfMany = 192;   ///< of one among several
constexpr int64_t kTaskPanels = 8;        ///< most panels of a task of few rows
constexpr int64_t kPieceBlocks = 32;      ///< of a panel in L1: 20 KiB
constexpr int64_t kTileBlocks = 16384;    ///< blocks of a that a task packs at once: 384 KiB, in L2
constexpr int64_t kSliceBytes = 2 << 20;  ///< of panels packed at once ...
constexpr int64_t kLeastPanels = 8;       ///< ... and how many there are at least

template <int kRows>
struct KernelList {
  static constexpr void fill(BlockKernel* list) {
    list[kRows] = block_kernel<kRows>;
    if constexpr (kRows > 1) KernelList<kRows - 1>::fill(list);
  }
};
struct Kernels {
  BlockKernel list[kBlockRows + 1] = {};
  constexpr Kernels() { KernelList<kBlockRows>::fill(list); }
};
constexpr Kernels kKernels;

/// Sizes of a product of N columns and depth K.
struct Layout {
  int64_t blocks, panels, slice_panels;

  Layout(int64_t n, int64_t k) {
    blocks = ceil_div(k, 16);
    panels = ceil_div(n, kPanel);
    slice_panels = min64(panels, max64(kLeastPanels, kSliceBytes / max64(1, blocks * kPanelBlock)));
  }
  /// Bytes of the rows of a that a task packs.
  [[nodiscard]] int64_t tile_bytes() const {
    return round_up(max64(kTileBlocks, kBlockRows * blocks) * int64_t{sizeof(ABlock)}, 64);
  }
  /// Bytes of the largest slice; no less for a deeper product.
  [[nodiscard]] int64_t slice_bytes() const {
    return min64(panels * blocks * kPanelBlock, max64(kSliceBytes, kLeastPanels * blocks * kPanelBlock));
  }
};
constexpr int64_t kPieceBytes = kPieceBlocks * kPanelBlock;
constexpr int64_t kChainBytes = kTaskPanels * kFewRowsOfMany * kPanel * int64_t{sizeof(float)};
constexpr int64_t kFewBytes = kPieceBytes + kChainBytes;

/// Rows [0, rows) of a packed tile against one panel.
void multiply(const ABlock* a, int64_t a_stride, int64_t rows, const uint8_t* panel, int64_t blocks,
              bool resume, float* c) {
  for (int64_t r = 0; r < rows; r += kBlockRows) {
    kKernels.list[min64(kBlockRows, rows - r)](a + r * a_stride, a_stride, panel, blocks, resume,
                                               c + r * kPanel, kPanel);
  }
}

/// Panels [p0, p1) of a product of few rows; `tile` and `few` are memory of the task.
void compute_few(const GemmArgs& args, int64_t p0, int64_t p1, ABlock* tile, std::byte* few) {
  const int64_t m = args.y.rows, all = ceil_div(args.a.depth(), 16);
  if (all == 0 && p0 == 0) epilogue_of_zeros(args);
  const int64_t step = min64(all, kTileBlocks / m / kPieceBlocks * kPieceBlocks);
  auto* piece = reinterpret_cast<uint8_t*>(few);
  auto* chains = reinterpret_cast<float*>(few + kPieceBytes);
  for (int64_t b0 = 0; b0 < all; b0 += step) {
    const int64_t blocks = min64(step, all - b0);
    for (int64_t r = 0; r < m; ++r) pack_a_row(args.a.q, r, b0, blocks, tile + r * blocks);
    for (int64_t p = p0; p < p1; ++p) {
      float* c = chains + (p - p0) * m * kPanel;
      for (int64_t b = 0; b < blocks; b += kPieceBlocks) {
        const int64_t n = min64(kPieceBlocks, blocks - b);
        pack_b(args.b.q, p * kPanel, b0 + b, n, piece);
        multiply(tile + b, blocks, m, piece, n, b0 + b != 0, c);
      }
      if (b0 + blocks == all) epilogue(args, 0, m, p * kPanel, kPanel, c, kPanel);
    }
  }
}

/// Products of at most `most` rows, in one parallel region.
void compute_all_few(std::span<const GemmArgs> products, int64_t most, const Exec& exec) {
  int64_t count = 0, deepest = 0;
  for (const GemmArgs& each : products) {
    if (each.y.rows <= most) ++count;
    deepest = max64(deepest, each.a.depth());
  }
  if (count == 0) return;
  const Layout layout(products[0].y.cols, deepest);
  // A task takes as many panels as leave four tasks a thread.
  const int threads = threads_of(exec);
  const int64_t per_task = max64(1, min64(kTaskPanels, layout.panels * count / (4 * threads)));
  const int64_t tasks = ceil_div(layout.panels, per_task);
  const int64_t bytes = layout.tile_bytes() + kFewBytes;
  for_tasks(exec, static_cast<int64_t>(products.size()) * tasks, [&](int64_t task, int thread) {
    const GemmArgs& each = products[static_cast<size_t>(task / tasks)];
    if (each.y.rows > most || each.y.rows == 0) return;
    std::byte* memory = exec.scratch.data() + thread * bytes;
    const int64_t p0 = task % tasks * per_task;
    compute_few(each, p0, min64(p0 + per_task, layout.panels), reinterpret_cast<ABlock*>(memory),
                memory + layout.tile_bytes());
  });
}

/// A product of many rows, a slice of panels at a time.
void compute_many(const GemmArgs& args, const Exec& exec) {
  const Layout layout(args.y.cols, args.a.depth());
  if (layout.blocks == 0) return epilogue_of_zeros(args);
  const int threads = threads_of(exec);
  auto* panels = reinterpret_cast<uint8_t*>(exec.scratch.data());
  std::byte* tiles = exec.scratch.data() + layout.slice_bytes();
  const int64_t panel_bytes = layout.blocks * kPanelBlock, m = args.y.rows;
  const int64_t tile_rows = max64(1, kTileBlocks / layout.blocks / kBlockRows) * kBlockRows;
  const int64_t rows = min64(tile_rows, 96), row_tasks = ceil_div(m, rows);
  for (int64_t first = 0; first < layout.panels; first += layout.slice_panels) {
    const int64_t count = min64(layout.slice_panels, layout.panels - first);
    for_tasks(exec, count, [&](int64_t p, int) {
      pack_b(args.b.q, (first + p) * kPanel, 0, layout.blocks, panels + p * panel_bytes);
    });
    // Few tiles: split the panels too, so that every thread has work.
    const int64_t splits = min64(count, row_tasks >= 4 * threads ? 1 : ceil_div(4 * threads, row_tasks));
    const int64_t per_split = ceil_div(count, splits);
    for_tasks(exec, row_tasks * splits, [&](int64_t task, int thread) {
      const int64_t row = task / splits * rows, n = min64(rows, m - row);
      auto* tile = reinterpret_cast<ABlock*>(tiles + thread * layout.tile_bytes());
      for (int64_t r = 0; r < n; ++r)
        pack_a_row(args.a.q, row + r, 0, layout.blocks, tile + r * layout.blocks);
      alignas(64) float c[kBlockRows * kPanel];
      for (int64_t p = task % splits * per_split; p < min64(count, (task % splits + 1) * per_split); ++p) {
        for (int64_t r = 0; r < n; r += kBlockRows) {
          const int64_t group = min64(kBlockRows, n - r);
          multiply(tile + r * layout.blocks, layout.blocks, group, panels + p * panel_bytes, layout.blocks,
                   false, c);
          epilogue(args, row + r, group, (first + p) * kPanel, kPanel, c, kPanel);
        }
      }
    });
  }
}

}  // namespace

int64_t block_gemm_scratch(const GemmProblem& problem, int threads) {
  const Layout layout(problem.n, problem.k);
  const int64_t many = layout.slice_bytes() + threads * layout.tile_bytes();
  return max64(many, threads * (layout.tile_bytes() + kFewBytes));
}

void block_gemms(std::span<const GemmArgs> products, const Exec& exec) {
  const int64_t most = products.size() == 1 ? kFewRows : kFewRowsOfMany;
  compute_all_few(products, most, exec);
  for (const GemmArgs& each : products) {
    if (each.y.rows > most) compute_many(each, exec);
  }
}

}  // namespace minite::simd::MINITE_ISA
