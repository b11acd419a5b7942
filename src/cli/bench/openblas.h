#pragma once
// OpenBLAS as a rival.
#include "cli/bench/rival.h"

namespace minite::cli {

class OpenBlas {
 public:
  [[nodiscard]] static Found<OpenBlas> open();

  /// x w^T in FP32.
  [[nodiscard]] Found<RivalCall> sgemm(const Problem& problem) const;
  /// "OpenBLAS 0.3.21 Cooperlake": version and the kernels that it chose.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What makes its figures doubtful, or "".
  [[nodiscard]] std::string doubt() const;

  /// cblas_sgemm and openblas_set_num_threads of cblas.h.
  using Sgemm = void(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                     int lda, const float* b, int ldb, float beta, float* c, int ldc);
  using SetThreads = void(int);

 private:
  Sgemm* sgemm_ = nullptr;
  SetThreads* set_threads_ = nullptr;
  std::string name_, core_;
};

}  // namespace minite::cli
