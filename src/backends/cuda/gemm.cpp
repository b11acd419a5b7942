// Which kernel computes a product, and its operands in the form that the kernel reads.
#include "backends/cuda/sm90/gemm.h"

#include <fmt/format.h>

#include "backends/cuda/common/gemm_exact.h"
#include "backends/cuda/common/operand.h"
#include "backends/cuda/device.h"
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/prepare.h"
#include "backends/cuda/sm90/chunks.h"
#include "backends/cuda/sm90/gemm_few.h"
#include "backends/cuda/sm90/gemm_packed.h"
#include "backends/cuda/sm90/prepack.h"

namespace minite::cuda {
namespace {

/// Which kernel reads the operands of a product on the tensor cores.
enum class Path : uint8_t {
  few,     ///< prepacked weights, few rows: a warp a chunk
  packed,  ///< prepacked weights, many rows: decoded in the kernel
  many,    ///< both operands in BF16
};

/// The bits are the same on every path; what decides is time.
Path path_of(const GemmArgs& args) {
  const int64_t m = args.y.rows, n = args.y.cols, k = args.a.depth();
  if (args.b.format() != FormatId::nvfp4) return Path::many;
  if (!args.a.quantized() && args.a.along == Orientation::columns) return Path::many;
  if (args.b.prepacked == nullptr && !args.b.decoded.empty()) return Path::many;
  // Few columns make few tiles: then warps, which share a tile's chunks, are faster up to more rows.
  const int64_t most = n >= sm90::kWide ? sm90::kFewTokens / 4 : sm90::kFewTokens;
  if (m <= most && sm90::few_fits(m, n, k)) return Path::few;
  return m <= sm90::kPackedTokens && sm90::packed_fits(n, k) ? Path::packed : Path::many;
}

void run_packed(const GemmArgs& args, Path path, Scratch& scratch, const Exec& exec) {
  const Prepared a = prepare("qgemm", args.a, "a", scratch, exec);
  const sm90::Fragments w = prepacked("qgemm", args.b, scratch, exec);
  DeviceEpilogue epilogue = device_epilogue(args);
  epilogue.gain = sm90::kFragmentGain;
  if (path == Path::packed) return sm90::gemm_packed(w, a.view, args.y.cols, epilogue, exec.stream);
  sm90::gemm_few({w, a.view.as<const uint16_t>(), a.view.stride}, args.y.rows, args.y.cols, args.a.depth(),
                 epilogue, exec.stream);
}

void run_many(const GemmArgs& args, Scratch& scratch, const Exec& exec) {
  const Prepared a = prepare("qgemm", args.a, "a", scratch, exec),
                 b = prepare("qgemm", args.b, "b", scratch, exec);
  const int64_t n = args.y.cols, k = args.a.depth();
  const sm90::DenseProduct product{.a = a.view,
                                   .b = b.view,
                                   .y = args.y,
                                   .a_major = a.major,
                                   .b_major = b.major,
                                   .m = args.y.rows,
                                   .n = n,
                                   .k = k,
                                   .chunk = sm90::chunk_length(n, k)};
  const auto kernel = sm90::chunks(n, k) == 1 ? sm90::gemm_wide : sm90::gemm_chunked;
  kernel(product, device_epilogue(args), exec.stream);
}

Support supports_exact(const GemmProblem& p) {
  const bool by_block = p.a == FormatId::nvfp4 && p.b == FormatId::nvfp4;
  return {true,
          kExactKernel,
          by_block ? "canonical: one rounding a block of 16" : "canonical: fma, k ascending",
          true,
          {}};
}

std::string_view order_of(int64_t n, int64_t k) {
  return sm90::chunks(n, k) == 1 ? "tensor cores: k16 ascending, one chain"
                                 : "tensor cores: k16 ascending, chunks of 1024 added ascending";
}

bool exact(const GemmArgs& args) {
  return args.order == SumOrder::canonical || args.a.depth() == 0 || !on_tensor_cores(args.a.format()) ||
         !on_tensor_cores(args.b.format());
}

}  // namespace

Support supports_gemm(const GemmProblem& p) {
  if (p.y == DType::f64) return {false, {}, {}, false, "FP64 runs on ref"};
  for (const FormatId id : {p.a, p.b}) {
    if (std::string problem = operand_problem(id, Convention::te); !problem.empty())
      return {false, {}, {}, false, std::move(problem)};
  }
  if (p.order == SumOrder::canonical || !on_tensor_cores(p.a) || !on_tensor_cores(p.b))
    return supports_exact(p);
  return {true, "sm90_wgmma_bf16", order_of(p.n, p.k), true, {}};
}

int64_t gemm_scratch(const GemmProblem& p, int64_t m, int) {
  const int64_t prepacked = p.b == FormatId::nvfp4 ? round_up(sm90::fragment_bytes(p.n, p.k), 256) : 0;
  return copy_bytes(p.a, m, p.k) + std::max(copy_bytes(p.b, p.n, p.k), prepacked);
}

int64_t prepacked_bytes(const QuantSpec& spec, int64_t rows, int64_t cols) {
  return spec.format == FormatId::nvfp4 ? sm90::fragment_bytes(rows, cols) : 0;
}

void prepack(const PrepackArgs& args, const Exec& exec) {
  sm90::prepack_fragments(args.q, args.out.data(), exec.stream);
}

void gemm(const GemmArgs& args, const Exec& exec) {
  if (args.y.size() == 0) return;
  if (exact(args)) return gemm_exact(args, exec);
  (void)device_operand(args.a);  // refuses what has no device code
  (void)device_operand(args.b);
  Scratch scratch(exec.scratch);
  const Path path = path_of(args);
  path == Path::many ? run_many(args, scratch, exec) : run_packed(args, path, scratch, exec);
}

void gemms(std::span<const GemmArgs> products, const Exec& exec) {
  for (const GemmArgs& each : products) gemm(each, exec);
}

}  // namespace minite::cuda
