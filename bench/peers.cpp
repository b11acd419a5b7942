// A C interface to a few ops on device pointers and a stream, for bench/peers.py, which times them in one
// process with torch. Every function returns 0, or 1 with a sentence in minite_peers_error().
#include <cstring>
#include <string>

#include "backends/cuda/cuda.h"
#include "backends/cuda/device.h"

namespace {

using namespace minite;

thread_local std::string error;

const OpTable& table() {
  static const Backend backend = cuda::backend();
  if (backend.table == nullptr) throw std::runtime_error(backend.reason);
  return *backend.table;
}
template <class Body>
int guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& e) {
    error = e.what();
    return 1;
  }
}
TensorView bf16_matrix(void* data, int64_t rows, int64_t cols) { return {data, DType::bf16, rows, cols}; }
constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row};
GemmProblem problem(int64_t n, int64_t k) { return {FormatId::bf16, FormatId::bf16, DType::bf16, n, k}; }

}  // namespace

#define MINITE_PEER extern "C" __attribute__((visibility("default")))

MINITE_PEER const char* minite_peers_error() { return error.c_str(); }

/// Bytes of the place for NVFP4 codes of [rows, cols] with a scale a row, from a 16-byte boundary.
MINITE_PEER int64_t minite_nvfp4_bytes(int64_t rows, int64_t cols) {
  return QTensor::bytes(kRow, rows, cols);
}

/// place = codes of x [rows, cols] bf16.
MINITE_PEER int minite_quantize_nvfp4(void* x, void* place, int64_t rows, int64_t cols, void* stream) {
  return guarded([&] {
    table().quantize({bf16_matrix(x, rows, cols), Orientation::rows, QTensor::place(kRow, rows, cols, place)},
                     {nullptr, {}, stream});
  });
}

/// y = RMSNorm(x) * weight, bf16 [rows, cols], and its codes.
MINITE_PEER int minite_rmsnorm_nvfp4(void* x, void* weight, void* y, void* place, int64_t rows, int64_t cols,
                                     float eps, void* stream) {
  return guarded([&] {
    NormArgs norm;
    norm.x = bf16_matrix(x, rows, cols);
    norm.weight = bf16_matrix(weight, 1, cols);
    norm.eps = eps;
    norm.y = bf16_matrix(y, rows, cols);
    table().norm_quantize({norm, QTensor::place(kRow, rows, cols, place)}, {nullptr, {}, stream});
  });
}

/// y [m, n] = a [m, k] b [n, k]^T, bf16. Scratch of minite_gemm_scratch() bytes.
MINITE_PEER int64_t minite_gemm_scratch(int64_t m, int64_t n, int64_t k) {
  int64_t bytes = -1;
  (void)guarded([&] { bytes = table().gemm_scratch(problem(n, k), m, 1); });
  return bytes;
}
MINITE_PEER int minite_gemm_bf16(void* a, void* b, void* y, int64_t m, int64_t n, int64_t k, void* scratch,
                                 void* stream) {
  return guarded([&] {
    const auto bytes = static_cast<size_t>(table().gemm_scratch(problem(n, k), m, 1));
    table().gemm(
        {Operand::of(bf16_matrix(a, m, k)), Operand::of(bf16_matrix(b, n, k)), {}, bf16_matrix(y, m, n)},
        {nullptr, {static_cast<std::byte*>(scratch), bytes}, stream});
  });
}

/// Rows of expert e, [offset[e], offset[e + 1]) of a [rows, k]: y [rows, n] = a b_e^T with b [experts * n,
/// k], bf16. `offset`: [experts + 1] int32 on the device. Scratch of minite_grouped_scratch() bytes.
MINITE_PEER int64_t minite_grouped_scratch(int64_t rows, int64_t experts, int64_t n, int64_t k) {
  int64_t bytes = -1;
  (void)guarded([&] { bytes = table().grouped_scratch(problem(n, k), rows, experts, 1); });
  return bytes;
}
MINITE_PEER int minite_grouped_gemm_bf16(void* a, void* offset, void* b, void* y, int64_t rows,
                                         int64_t experts, int64_t n, int64_t k, void* scratch, void* stream) {
  return guarded([&] {
    const auto bytes = static_cast<size_t>(table().grouped_scratch(problem(n, k), rows, experts, 1));
    GroupedGemmArgs args;
    args.a = Operand::of(bf16_matrix(a, rows, k));
    args.groups = {static_cast<const int32_t*>(offset), experts};
    args.b = Operand::of(bf16_matrix(b, experts * n, k));
    args.y = bf16_matrix(y, rows, n);
    table().grouped_gemm(args, {nullptr, {static_cast<std::byte*>(scratch), bytes}, stream});
  });
}
