#pragma once
// OpenBLAS as a rival of benchmarks, opened at run time: nothing here needs it to build.
#include <cstdint>
#include <memory>
#include <string>

namespace minite::cli {

class OpenBlas {
 public:
  /// The library of this machine, or nullptr when none is installed.
  static std::unique_ptr<OpenBlas> open(int threads);

  /// y[m,n] = a[m,k] b[n,k]^T, all FP32 and contiguous.
  void sgemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y) const;
  /// "OpenBLAS 0.3.21 Cooperlake": version and the kernels that it chose.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Kernels that it chose, e.g. "Haswell".
  [[nodiscard]] const std::string& core() const { return core_; }

 private:
  using Sgemm = void (*)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
  Sgemm sgemm_ = nullptr;
  std::string name_, core_;
};

}  // namespace minite::cli
