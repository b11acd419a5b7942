#include "backends/cuda/prepare.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "backends/cuda/common/decode_any.h"
#include "backends/cuda/error.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/sm90/prepack.h"
#include "backends/cuda/sm90/tensor_map.h"

namespace minite::cuda {

int64_t copy_bytes(FormatId id, int64_t rows, int64_t k) {
  const bool dense = format(id).block == 0;
  if (dense && rows % 8 == 0 && k % 8 == 0) return 0;
  const int64_t by_rows = rows * round_up(k, 8), by_columns = dense ? k * round_up(rows, 8) : 0;
  return round_up(2 * std::max(by_rows, by_columns), 256);
}

namespace {

TensorView padded(std::string_view op, Scratch& scratch, int64_t rows, int64_t cols, std::string_view name,
                  const std::string& why) {
  const int64_t stride = round_up(cols, 8);
  std::byte* memory = scratch.take(2 * rows * stride);
  if (memory == nullptr)
    refuse(op, fmt::format("{}: {}, and the scratch is too small for a copy of {}x{} bf16", name, why, rows,
                           cols));
  return {memory, DType::bf16, rows, cols, stride};
}

}  // namespace

Prepared prepare(std::string_view op, const Operand& x, std::string_view name, Scratch& scratch,
                 const Exec& exec) {
  if (x.quantized()) {
    if (!x.decoded.empty() && sm90::tensor_map_problem(x.decoded).empty()) return {x.decoded};
    const TensorView to = padded(op, scratch, x.q.rows, x.q.cols, name, "codes are decoded first");
    x.q.spec.convention == Convention::ggml ? decode_any(x.q, to, exec)
                                            : dequantize({x.q, to, Multiplier::block}, exec);
    return {to};
  }
  const sm90::Major major = x.along == Orientation::rows ? sm90::Major::k : sm90::Major::rows;
  const std::string problem = sm90::tensor_map_problem(x.dense);
  if (problem.empty()) return {x.dense, major};
  const TensorView to = padded(op, scratch, x.dense.rows, x.dense.cols, name, problem);
  const auto width = [](const TensorView& t) { return static_cast<size_t>(t.stride) * 2; };
  const cudaError_t error = cudaMemcpy2DAsync(to.data, width(to), x.dense.data, width(x.dense),
                                              static_cast<size_t>(to.cols) * 2, static_cast<size_t>(to.rows),
                                              cudaMemcpyDefault, static_cast<cudaStream_t>(exec.stream));
  if (error != cudaSuccess)
    fail_cuda(false, "copy of an operand", cudaGetErrorName(error), cudaGetErrorString(error));
  return {to, major};
}

sm90::Fragments prepacked(std::string_view op, const Operand& w, Scratch& scratch, const Exec& exec) {
  const int64_t n = w.q.rows, k = w.q.cols;
  if (w.prepacked != nullptr) return sm90::fragments_at(w.prepacked, n, k);
  std::byte* memory = scratch.take(sm90::fragment_bytes(n, k));
  if (memory == nullptr)
    refuse(op, fmt::format("b is not prepacked, and the scratch is too small for that: {}x{}", n, k));
  sm90::prepack_fragments(w.q, memory, exec.stream);
  return sm90::fragments_at(memory, n, k);
}

}  // namespace minite::cuda
