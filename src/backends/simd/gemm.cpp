// y = epilogue(a b^T) by panels: b is decoded once into FP32 panels, a in tiles of kTileRows rows a task, and
// the register kernels keep the canonical order (backends/ref/gemm.h). When the depth exceeds kDepth, partial
// chains wait in FP32 between depth steps: storing and loading an FP32 accumulator does not change it.
//
// A product of few rows spends as long on decoding b and on waking threads as on its sums. There a task
// decodes a few panels for itself and uses them at once, and all such products of a call share one parallel
// region.
//
// NVFP4 x NVFP4 goes its own way (gemm_blocks.cpp).
#include "backends/simd/gemm_blocks.h"
#include "backends/simd/gemm_epilogue.h"
#include "backends/simd/gemm_kernel.h"
#include "backends/simd/gemv.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

constexpr int64_t kTileRows = 48;     ///< rows of a task: a multiple of every kernel's rows
constexpr int64_t kSuperRows = 3072;  ///< rows whose partial chains are kept at once when the depth is split
constexpr int64_t kFewRows = 4 * kTileRows;  ///< of several products; one alone has few up to kTileRows
constexpr int64_t kTaskPanels = 8;           ///< panels of a task of few rows: half a megabyte, in L2

template <int kRows>
struct KernelList {
  static constexpr void fill(Kernel* list) {
    list[kRows] = chain_kernel<kRows>;
    if constexpr (kRows > 1) KernelList<kRows - 1>::fill(list);
  }
};
struct Kernels {
  Kernel list[kChainRows + 1] = {};
  constexpr Kernels() { KernelList<kChainRows>::fill(list); }
};
constexpr Kernels kKernels;

bool by_block(FormatId a, FormatId b) { return a == FormatId::nvfp4 && b == FormatId::nvfp4; }

/// Sizes of one call; all pieces in floats.
struct Layout {
  int64_t panels, depth_step, panel_floats, thread_floats, partial_stride, partial_rows;

  Layout(int64_t m, int64_t n, int64_t k) {
    panels = ceil_div(n, kPanel);
    depth_step = min64(k, kDepth);
    panel_floats = panels * depth_step * kPanel;
    thread_floats = kTileRows * kTileStride;
    const bool split = k > kDepth;
    partial_stride = split ? panels * kPanel : 0;
    partial_rows = split ? min64(ceil_div(m, kTileRows) * kTileRows, kSuperRows) : 0;
  }
  [[nodiscard]] int64_t floats(int threads) const {
    return panel_floats + threads * thread_floats + partial_rows * partial_stride;
  }
};

/// The same for products of few rows: memory of one task.
struct FewLayout {
  int64_t depth_step, panel_floats, partial_stride, floats;

  FewLayout(int64_t n, int64_t k) {
    const int64_t panels = min64(ceil_div(n, kPanel), kTaskPanels);
    depth_step = min64(k, kDepth);
    panel_floats = panels * depth_step * kPanel;
    partial_stride = k > kDepth ? panels * kPanel : 0;
    floats = kTileRows * kTileStride + panel_floats + kFewRows * partial_stride;
  }
};

/// One product in flight.
struct Run {
  const GemmArgs& args;
  const Exec& exec;
  Layout layout;
  int64_t m, n, k;
  float* panels;
  float* threads;
  float* partial;

  Run(const GemmArgs& a, const Exec& e)
      : args(a), exec(e), layout(a.y.rows, a.y.cols, a.a.depth()), m(a.y.rows), n(a.y.cols), k(a.a.depth()) {
    panels = reinterpret_cast<float*>(e.scratch.data());
    threads = panels + layout.panel_floats;
    partial = threads + e.pool->threads() * layout.thread_floats;
  }
  [[nodiscard]] float* thread_scratch(int thread) const { return threads + thread * layout.thread_floats; }
};

/// One depth step of a tile.
struct Tile {
  int64_t row, rows, p0, p1, k0, depth;
  const float* panels;  ///< of p0, then one every panel_floats
  int64_t panel_floats;
  float* partial;  ///< chains of (row, p0), rows partial_stride apart; stride 0 when the depth is not split
  int64_t partial_stride;
};
void compute_tile(const GemmArgs& args, const Tile& t, float* packed) {
  pack_tile(args.a, t.row, t.rows, t.k0, t.depth, packed);
  const bool last = t.k0 + t.depth == args.a.depth();
  for (int64_t p = t.p0; p < t.p1; ++p) {
    const float* panel = t.panels + (p - t.p0) * t.panel_floats;
    for (int64_t r = 0; r < t.rows; r += kChainRows) {
      const int64_t count = min64(kChainRows, t.rows - r);
      alignas(64) float local[kChainRows * kPanel];
      float* c = local;
      int64_t ldc = kPanel;
      if (t.partial_stride != 0) {
        ldc = t.partial_stride;
        c = t.partial + r * ldc + (p - t.p0) * kPanel;
      }
      kKernels.list[count](packed + r * kTileStride, panel, t.depth, t.k0 != 0, c, ldc);
      if (last) epilogue(args, t.row + r, count, p * kPanel, kPanel, c, ldc);
    }
  }
}

/// Rows [super, super + rows) over the whole depth.
void compute_super(const Run& run, int64_t super, int64_t rows) {
  const int64_t tiles = ceil_div(rows, kTileRows);
  const int threads = run.exec.pool->threads();
  // Few tiles: split the panels too, so that every thread has work.
  const int64_t splits = min64(run.layout.panels, tiles >= 2 * threads ? 1 : ceil_div(2 * threads, tiles));
  const int64_t per_split = ceil_div(run.layout.panels, splits);
  for (int64_t k0 = 0; k0 < run.k; k0 += kDepth) {
    const int64_t depth = min64(kDepth, run.k - k0);
    if (super == 0 || run.k > kDepth) {
      run.exec.pool->parallel_for(run.layout.panels, [&](int64_t p, int thread) {
        pack_panel(run.args.b, p * kPanel, run.n, k0, depth, run.thread_scratch(thread),
                   run.panels + p * run.layout.depth_step * kPanel);
      });
    }
    run.exec.pool->parallel_for(tiles * splits, [&](int64_t task, int thread) {
      const int64_t row = super + task / splits * kTileRows;
      const int64_t p0 = task % splits * per_split;
      const int64_t p1 = min64(p0 + per_split, run.layout.panels);
      if (p0 >= p1) return;
      const int64_t panel_floats = run.layout.depth_step * kPanel, stride = run.layout.partial_stride;
      compute_tile(
          run.args,
          {row, min64(kTileRows, super + rows - row), p0, p1, k0, depth, run.panels + p0 * panel_floats,
           panel_floats, run.partial + (row - super) * stride + p0 * kPanel, stride},
          run.thread_scratch(thread));
    });
  }
}

/// Whether packed weights can be used as they come from memory.
bool is_gemv(const GemmArgs& args) {
  return args.y.rows <= kGemvRows && args.b.format() == FormatId::nvfp4 && args.b.along == Orientation::rows;
}

using Gemv = void (*)(const Operand& a, const QTensor& b, int64_t col, float* tile, float* c);
template <int kRows>
constexpr void fill_gemv(Gemv* list) {
  list[kRows] = gemv_columns<kRows>;
  if constexpr (kRows > 1) fill_gemv<kRows - 1>(list);
}
struct Gemvs {
  Gemv list[kGemvRows + 1] = {};
  constexpr Gemvs() { fill_gemv<kGemvRows>(list); }
};
constexpr Gemvs kGemvs;

/// Columns [begin, end) of a product of very few rows.
void compute_gemv(const GemmArgs& args, int64_t begin, int64_t end, float* tile) {
  for (int64_t col = begin; col < end; col += kGemvColumns) {
    alignas(64) float c[kGemvRows * kGemvColumns];
    kGemvs.list[args.y.rows](args.a, args.b.q, col, tile, c);
    epilogue(args, 0, args.y.rows, col, min64(kGemvColumns, end - col), c, kGemvColumns);
  }
}

/// Panels [p0, p1) of a product of few rows, in memory of one task.
void compute_few(const GemmArgs& args, int64_t p0, int64_t p1, float* memory) {
  const int64_t n = args.y.cols, k = args.a.depth(), m = args.y.rows;
  if (k == 0 && p0 == 0) epilogue_of_zeros(args);
  if (k != 0 && m != 0 && is_gemv(args))
    return compute_gemv(args, p0 * kPanel, min64(p1 * kPanel, n), memory);
  const FewLayout layout(n, k);
  const int64_t panel_floats = layout.depth_step * kPanel;
  float* tile = memory;
  float* panels = tile + kTileRows * kTileStride;
  float* partial = panels + layout.panel_floats;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = min64(kDepth, k - k0);
    for (int64_t p = p0; p < p1; ++p)
      pack_panel(args.b, p * kPanel, n, k0, depth, tile, panels + (p - p0) * panel_floats);
    for (int64_t row = 0; row < m; row += kTileRows) {
      compute_tile(args,
                   {row, min64(kTileRows, m - row), p0, p1, k0, depth, panels, panel_floats,
                    partial + row * layout.partial_stride, layout.partial_stride},
                   tile);
    }
  }
}

/// Products of at most `most` rows, in one parallel region; returns how many there were.
int64_t compute_all_few(std::span<const GemmArgs> products, int64_t most, const Exec& exec) {
  int64_t count = 0;
  for (const GemmArgs& each : products) count += each.y.rows <= most ? 1 : 0;
  if (count == 0) return 0;
  const int64_t panels = ceil_div(products[0].y.cols, kPanel);
  const int threads = exec.pool->threads();
  // A task takes as many panels as leave two tasks a thread.
  const int64_t share = min64(kTaskPanels, panels * count / (2 * threads));
  const int64_t per_task = share < 1 ? 1 : share;
  const int64_t tasks = ceil_div(panels, per_task);
  int64_t deepest = 0;
  for (const GemmArgs& each : products) deepest = each.a.depth() > deepest ? each.a.depth() : deepest;
  const int64_t floats = FewLayout(products[0].y.cols, deepest).floats;
  float* memory = reinterpret_cast<float*>(exec.scratch.data());
  exec.pool->parallel_for(static_cast<int64_t>(products.size()) * tasks, [&](int64_t task, int thread) {
    const GemmArgs& each = products[static_cast<size_t>(task / tasks)];
    const int64_t p0 = task % tasks * per_task;
    if (each.y.rows <= most) compute_few(each, p0, min64(p0 + per_task, panels), memory + thread * floats);
  });
  return count;
}

}  // namespace

Support supports_gemm(const GemmProblem& problem) {
  if (problem.y == DType::f64) return {false, {}, {}, false, "simd computes in FP32; FP64 runs on ref"};
  const bool blocks = by_block(problem.a, problem.b);
  return {true,
          blocks ? "int8_nvfp4_block_dot" : "panel_fma_chain",
          blocks ? "canonical: one rounding a block of 16" : "canonical: fma, k ascending",
          true,
          {}};
}

int64_t gemm_scratch(const GemmProblem& problem, int64_t m, int threads) {
  if (by_block(problem.a, problem.b)) return block_gemm_scratch(problem, threads);
  const int64_t many = Layout(m, problem.n, problem.k).floats(threads);
  const int64_t few = threads * FewLayout(problem.n, problem.k).floats;
  return (many > few ? many : few) * int64_t{sizeof(float)};
}

void gemm(const GemmArgs& args, const Exec& exec) {
  if (by_block(args.a.format(), args.b.format())) return block_gemms({&args, 1}, exec);
  if (args.a.depth() == 0) return epilogue_of_zeros(args);
  if (compute_all_few({&args, 1}, kTileRows, exec) != 0) return;
  const Run run(args, exec);
  for (int64_t super = 0; super < run.m; super += kSuperRows) {
    compute_super(run, super, min64(kSuperRows, run.m - super));
  }
}

void gemms(std::span<const GemmArgs> products, const Exec& exec) {
  if (products.empty()) return;
  if (by_block(products[0].a.format(), products[0].b.format())) return block_gemms(products, exec);
  (void)compute_all_few(products, kFewRows, exec);
  for (const GemmArgs& each : products) {
    if (each.y.rows > kFewRows) gemm(each, exec);
  }
}

}  // namespace minite::simd::MINITE_ISA
