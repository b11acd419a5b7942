// y = epilogue(a b^T) by panels: b is decoded once into FP32 panels, a in tiles of kTileRows rows a task, and
// the register kernels keep the canonical order (backends/ref/gemm.h). When the depth exceeds kDepth, partial
// chains wait in FP32 between depth steps: storing and loading an FP32 accumulator does not change it.
#include "backends/simd/gemm_kernel.h"
#include "backends/simd/kernels.h"

namespace minite::simd::MINITE_ISA {
namespace {

constexpr int64_t kTileRows = 48;     ///< rows of a task: a multiple of every kernel's rows
constexpr int64_t kSuperRows = 3072;  ///< rows whose partial chains are kept at once when the depth is split

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

template <class T>
void epilogue_row(const GemmArgs& args, int64_t row, int64_t col, int64_t n, const float* c) {
  const Operand &a = args.a, &b = args.b;
  const vf s_row(a.quantized() ? a.q.outer_of(row) : 1.0f);
  const float* s_cols = b.quantized() && b.q.spec.outer == OuterScale::row ? b.q.outer + col : nullptr;
  const vf s_all(b.quantized() && s_cols == nullptr ? b.q.outer_of(0) : 1.0f);
  const float* bias = args.bias.empty() ? nullptr : args.bias.as<const float>() + col;
  T* y = args.y.row<T>(row) + col;
  for_lanes(n, [&](int64_t i, int64_t count) {
    vf v = load(c + i) * s_row * (s_cols != nullptr ? load_n(s_cols + i, count) : s_all);
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

/// One depth step of rows [row, row + rows), panels [p0, p1).
void compute_tile(const Run& run, int64_t super, int64_t row, int64_t rows, int64_t p0, int64_t p1,
                  int64_t k0, int64_t depth, int thread) {
  float* tile = run.thread_scratch(thread);
  pack_tile(run.args.a, row, rows, k0, depth, tile);
  const bool blocks = by_block(run.args.a.format(), run.args.b.format());
  const Kernel* kernels = blocks ? kKernels.block : kKernels.chain;
  const int64_t step = blocks ? kBlockRows : kChainRows;
  const bool last = k0 + depth == run.k;
  for (int64_t p = p0; p < p1; ++p) {
    const float* panel = run.panels + p * run.layout.depth_step * kPanel;
    for (int64_t r = 0; r < rows; r += step) {
      const int64_t count = smaller(step, rows - r);
      alignas(64) float local[kChainRows * kPanel];
      float* c = local;
      int64_t ldc = kPanel;
      if (run.layout.partial_stride != 0) {
        ldc = run.layout.partial_stride;
        c = run.partial + (row - super + r) * ldc + p * kPanel;
      }
      kernels[count](tile + r * kTileStride, panel, depth, k0 != 0, c, ldc);
      if (last) epilogue(run.args, row + r, count, p * kPanel, c, ldc);
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
      compute_tile(run, super, row, smaller(kTileRows, super + rows - row), p0, p1, k0, depth, thread);
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
  return Layout(m, problem.n, problem.k).floats(threads) * int64_t{sizeof(float)};
}

void gemm(const GemmArgs& args, const Exec& exec) {
  const Run run(args, exec);
  if (run.k == 0) return compute_empty(args);
  for (int64_t super = 0; super < run.m; super += kSuperRows) {
    compute_super(run, super, smaller(kSuperRows, run.m - super));
  }
}

}  // namespace minite::simd::MINITE_ISA
