// y = epilogue(a b^T) by panels: b is decoded once into FP32 panels, a in tiles of kTileRows rows a task, and
// the register kernels keep the canonical order (backends/ref/gemm.h). When the depth exceeds kDepth, partial
// chains wait in FP32 between depth steps: storing and loading an FP32 accumulator does not change it.
//
// A product of few rows spends as long on decoding b and on waking threads as on its sums. There a task
// decodes a few panels for itself and uses them at once, and all such products of a call share one parallel
// region.
#include "backends/simd/gemm_kernel.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

constexpr int64_t kTileRows = 48;     ///< rows of a task: a multiple of every kernel's rows
constexpr int64_t kSuperRows = 3072;  ///< rows whose partial chains are kept at once when the depth is split
constexpr int64_t kFewRows = 4 * kTileRows;  ///< of several products; one alone has few up to kTileRows
constexpr int64_t kTaskPanels = 8;           ///< panels of a task of few rows: half a megabyte, in L2

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

template <int kRows>
struct KernelList {
  static constexpr void fill(Kernel* chain, Kernel* block) {
    chain[kRows] = chain_kernel<kRows>;
    if constexpr (kRows <= kBlockRows) block[kRows] = block_kernel<kRows>;
    if constexpr (kRows > 1) KernelList<kRows - 1>::fill(chain, block);
  }
};
struct Kernels {
  Kernel chain[kChainRows + 1] = {};
  Kernel block[kBlockRows + 1] = {};
  constexpr Kernels() { KernelList<kChainRows>::fill(chain, block); }
};
constexpr Kernels kKernels;

bool by_block(FormatId a, FormatId b) { return a == FormatId::nvfp4 && b == FormatId::nvfp4; }

/// Sizes of one call; all pieces in floats.
struct Layout {
  int64_t panels, depth_step, panel_floats, thread_floats, partial_stride, partial_rows;

  Layout(int64_t m, int64_t n, int64_t k) {
    panels = ceil_div(n, kPanel);
    depth_step = smaller(k, kDepth);
    panel_floats = panels * depth_step * kPanel;
    thread_floats = kTileRows * kTileStride;
    const bool split = k > kDepth;
    partial_stride = split ? panels * kPanel : 0;
    partial_rows = split ? smaller(ceil_div(m, kTileRows) * kTileRows, kSuperRows) : 0;
  }
  [[nodiscard]] int64_t floats(int threads) const {
    return panel_floats + threads * thread_floats + partial_rows * partial_stride;
  }
};

/// The same for products of few rows: memory of one task.
struct FewLayout {
  int64_t depth_step, panel_floats, partial_stride, floats;

  FewLayout(int64_t n, int64_t k) {
    const int64_t panels = smaller(ceil_div(n, kPanel), kTaskPanels);
    depth_step = smaller(k, kDepth);
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

/// Multipliers of the accumulators of columns [col, col + count) under Epilogue::te.
vf te_alphas(const GemmArgs& args, int64_t row, int64_t col, int64_t count) {
  const QTensor &a = args.a.q, &b = args.b.q;
  const vf ours(a.amax_of(row)), range(ref::nvfp4_range(a.spec) * ref::nvfp4_range(b.spec));
  return ours * (b.spec.outer == OuterScale::row ? load_n(b.amax + col, count) : vf(b.amax[0])) / range;
}

template <class T>
void epilogue_row(const GemmArgs& args, int64_t row, int64_t col, int64_t n, const float* c) {
  const Operand &a = args.a, &b = args.b;
  const vf s_row(a.quantized() ? a.q.outer_of(row) : 1.0f);
  const float* s_cols = b.quantized() && b.q.spec.outer == OuterScale::row ? b.q.outer + col : nullptr;
  const vf s_all(b.quantized() && s_cols == nullptr ? b.q.outer_of(0) : 1.0f);
  const float* bias = args.bias.empty() ? nullptr : args.bias.as<const float>() + col;
  T* y = args.y.row<T>(row) + col;
  for_lanes(n, [&](int64_t i, int64_t count) {
    vf v = load(c + i);
    if (args.epilogue == Epilogue::te) {
      v = v * te_alphas(args, row, col + i, count);
    } else {
      v = v * s_row * (s_cols != nullptr ? load_n(s_cols + i, count) : s_all);
    }
    if (bias != nullptr) v = v + load_n(bias + i, count);
    if (args.output == Output::accumulate) v = v + load_n(y + i, count);
    store_n(y + i, v, count);
  });
}

void epilogue(const GemmArgs& args, int64_t row, int64_t rows, int64_t col, const float* c, int64_t ldc) {
  const int64_t n = smaller(kPanel, args.y.cols - col);
  for (int64_t r = 0; r < rows; ++r) {
    if (args.y.dtype == DType::bf16) {
      epilogue_row<bf16>(args, row + r, col, n, c + r * ldc);
    } else {
      epilogue_row<float>(args, row + r, col, n, c + r * ldc);
    }
  }
}

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
  const bool blocks = by_block(args.a.format(), args.b.format());
  const Kernel* kernels = blocks ? kKernels.block : kKernels.chain;
  const int64_t step = blocks ? kBlockRows : kChainRows;
  const bool last = t.k0 + t.depth == args.a.depth();
  for (int64_t p = t.p0; p < t.p1; ++p) {
    const float* panel = t.panels + (p - t.p0) * t.panel_floats;
    for (int64_t r = 0; r < t.rows; r += step) {
      const int64_t count = smaller(step, t.rows - r);
      alignas(64) float local[kChainRows * kPanel];
      float* c = local;
      int64_t ldc = kPanel;
      if (t.partial_stride != 0) {
        ldc = t.partial_stride;
        c = t.partial + r * ldc + (p - t.p0) * kPanel;
      }
      kernels[count](packed + r * kTileStride, panel, t.depth, t.k0 != 0, c, ldc);
      if (last) epilogue(args, t.row + r, count, p * kPanel, c, ldc);
    }
  }
}

/// Rows [super, super + rows) over the whole depth.
void compute_super(const Run& run, int64_t super, int64_t rows) {
  const int64_t tiles = ceil_div(rows, kTileRows);
  const int threads = run.exec.pool->threads();
  // Few tiles: split the panels too, so that every thread has work.
  const int64_t splits = smaller(run.layout.panels, tiles >= 2 * threads ? 1 : ceil_div(2 * threads, tiles));
  const int64_t per_split = ceil_div(run.layout.panels, splits);
  for (int64_t k0 = 0; k0 < run.k; k0 += kDepth) {
    const int64_t depth = smaller(kDepth, run.k - k0);
    if (super == 0 || run.k > kDepth) {
      run.exec.pool->parallel_for(run.layout.panels, [&](int64_t p, int thread) {
        pack_panel(run.args.b, p * kPanel, run.n, k0, depth, run.thread_scratch(thread),
                   run.panels + p * run.layout.depth_step * kPanel);
      });
    }
    run.exec.pool->parallel_for(tiles * splits, [&](int64_t task, int thread) {
      const int64_t row = super + task / splits * kTileRows;
      const int64_t p0 = task % splits * per_split;
      const int64_t p1 = smaller(p0 + per_split, run.layout.panels);
      if (p0 >= p1) return;
      const int64_t panel_floats = run.layout.depth_step * kPanel, stride = run.layout.partial_stride;
      compute_tile(
          run.args,
          {row, smaller(kTileRows, super + rows - row), p0, p1, k0, depth, run.panels + p0 * panel_floats,
           panel_floats, run.partial + (row - super) * stride + p0 * kPanel, stride},
          run.thread_scratch(thread));
    });
  }
}

/// K = 0: the sum is empty.
void compute_empty(const GemmArgs& args) {
  alignas(64) const float none[kPanel] = {};
  for (int64_t row = 0; row < args.y.rows; ++row) {
    for (int64_t col = 0; col < args.y.cols; col += kPanel) epilogue(args, row, 1, col, none, 0);
  }
}

/// Panels [p0, p1) of a product of few rows, in memory of one task.
void compute_few(const GemmArgs& args, int64_t p0, int64_t p1, float* memory) {
  const int64_t n = args.y.cols, k = args.a.depth(), m = args.y.rows;
  if (k == 0 && p0 == 0) compute_empty(args);
  const FewLayout layout(n, k);
  const int64_t panel_floats = layout.depth_step * kPanel;
  float* tile = memory;
  float* panels = tile + kTileRows * kTileStride;
  float* partial = panels + layout.panel_floats;
  for (int64_t k0 = 0; k0 < k; k0 += kDepth) {
    const int64_t depth = smaller(kDepth, k - k0);
    for (int64_t p = p0; p < p1; ++p)
      pack_panel(args.b, p * kPanel, n, k0, depth, tile, panels + (p - p0) * panel_floats);
    for (int64_t row = 0; row < m; row += kTileRows) {
      compute_tile(args,
                   {row, smaller(kTileRows, m - row), p0, p1, k0, depth, panels, panel_floats,
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
  const int64_t share = smaller(kTaskPanels, panels * count / (2 * threads));
  const int64_t per_task = share < 1 ? 1 : share;
  const int64_t tasks = ceil_div(panels, per_task);
  int64_t deepest = 0;
  for (const GemmArgs& each : products) deepest = each.a.depth() > deepest ? each.a.depth() : deepest;
  const int64_t floats = FewLayout(products[0].y.cols, deepest).floats;
  float* memory = reinterpret_cast<float*>(exec.scratch.data());
  exec.pool->parallel_for(static_cast<int64_t>(products.size()) * tasks, [&](int64_t task, int thread) {
    const GemmArgs& each = products[static_cast<size_t>(task / tasks)];
    const int64_t p0 = task % tasks * per_task;
    if (each.y.rows <= most) compute_few(each, p0, smaller(p0 + per_task, panels), memory + thread * floats);
  });
  return count;
}

}  // namespace

Support supports_gemm(const GemmProblem& problem) {
  if (problem.y == DType::f64) return {false, {}, {}, false, "simd computes in FP32; FP64 runs on ref"};
  const bool blocks = by_block(problem.a, problem.b);
  return {true,
          blocks ? "panel_nvfp4_block_dot" : "panel_fma_chain",
          blocks ? "canonical: one rounding a block of 16" : "canonical: fma, k ascending",
          true,
          {}};
}

int64_t gemm_scratch(const GemmProblem& problem, int64_t m, int threads) {
  const int64_t many = Layout(m, problem.n, problem.k).floats(threads);
  const int64_t few = threads * FewLayout(problem.n, problem.k).floats;
  return (many > few ? many : few) * int64_t{sizeof(float)};
}

void gemm(const GemmArgs& args, const Exec& exec) {
  if (args.a.depth() == 0) return compute_empty(args);
  if (compute_all_few({&args, 1}, kTileRows, exec) != 0) return;
  const Run run(args, exec);
  for (int64_t super = 0; super < run.m; super += kSuperRows) {
    compute_super(run, super, smaller(kSuperRows, run.m - super));
  }
}

void gemms(std::span<const GemmArgs> products, const Exec& exec) {
  (void)compute_all_few(products, kFewRows, exec);
  for (const GemmArgs& each : products) {
    if (each.y.rows > kFewRows) gemm(each, exec);
  }
}

}  // namespace minite::simd::MINITE_ISA
