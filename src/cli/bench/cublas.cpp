#include "cli/bench/cublas.h"

#include <fmt/format.h>

#include "backends/cuda/memory.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

constexpr int64_t kWorkspace = 64 << 20;  ///< bytes; cuBLAS asks for 32 MiB on Hopper

// As cublas_api.h and library_types.h number them: nothing of cuBLAS is needed to build.
constexpr int kSuccess = 0, kAsIs = 0, kTransposed = 1, kBf16 = 14, kFp32 = 0, kComputeFp32 = 68,
              kDefaultAlgorithm = -1;

void check(int status, std::string_view what) {
  if (status != kSuccess) fail(ErrorCode::internal, "cuBLAS: {}: status {}", what, status);
}

}  // namespace

Found<Cublas> Cublas::open(const std::string& file) {
  std::vector<std::string> files = {"libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.13",
                                    "libcublas.so.12"};
  if (!file.empty()) files.insert(files.begin(), file);
  const Library library(files);
  if (!library.found()) return absent<Cublas>("cuBLAS is absent: " + library.error());
  std::unique_ptr<Cublas> it(new Cublas(library));
  if (!it->bind()) return absent<Cublas>("cuBLAS is absent: it lacks " + it->library_.missing());
  check(it->create_(&it->handle_), "create");
  it->workspace_ = cuda::kMemory.allocate(kWorkspace);
  int version = 0;
  check(it->version_(it->handle_, &version), "version");
  it->name_ = fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  return {std::move(it), {}};
}

bool Cublas::bind() {
  library_.bind(create_, "cublasCreate_v2");
  library_.bind(destroy_, "cublasDestroy_v2");
  library_.bind(set_stream_, "cublasSetStream_v2");
  library_.bind(set_workspace_, "cublasSetWorkspace_v2");
  library_.bind(version_, "cublasGetVersion_v2");
  library_.bind(gemm_, "cublasGemmEx");
  return library_.missing().empty();
}

Cublas::~Cublas() {
  if (handle_ != nullptr) (void)destroy_(handle_);
  if (workspace_ != nullptr) cuda::kMemory.release(workspace_);
}

void Cublas::prepare(void* stream) {
  check(set_stream_(handle_, stream), "stream");
  check(set_workspace_(handle_, workspace_, kWorkspace), "workspace");
}

void Cublas::multiply(const TensorView& x, const TensorView& w, const TensorView& y, void* stream,
                      Orientation turned) {
  const float one = 1, zero = 0;
  prepare(stream);
  // Columns first: y^T [n,m] = w [n,k] x^T.
  check(gemm_(handle_, turned == Orientation::rows ? kTransposed : kAsIs, kAsIs, static_cast<int>(y.cols),
              static_cast<int>(x.rows), static_cast<int>(x.cols), &one, w.data, kBf16,
              static_cast<int>(w.stride), x.data, kBf16, static_cast<int>(x.stride), &zero, y.data, kBf16,
              static_cast<int>(y.stride), kComputeFp32, kDefaultAlgorithm),
        "gemm");
}

void Cublas::multiply_turned(const TensorView& dy, const TensorView& x, const TensorView& y, void* stream) {
  const float one = 1, zero = 0;
  prepare(stream);
  // Columns first: y^T [k,n] = x^T dy.
  check(gemm_(handle_, kAsIs, kTransposed, static_cast<int>(x.cols), static_cast<int>(dy.cols),
              static_cast<int>(dy.rows), &one, x.data, kBf16, static_cast<int>(x.stride), dy.data, kBf16,
              static_cast<int>(dy.stride), &zero, y.data, kFp32, static_cast<int>(y.stride), kComputeFp32,
              kDefaultAlgorithm),
        "gemm");
}

}  // namespace minite::cli
