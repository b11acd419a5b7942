#pragma once
// What a rival of benchmarks is: a library of this machine, opened at run time; nothing needs it to build.
#include <memory>
#include <string>
#include <vector>

#include "minite/tensor.h"

namespace minite::cli {

/// Operands of one row, BF16 and contiguous, and the threads of both sides.
struct Problem {
  TensorView x;  ///< [m, k]
  TensorView w;  ///< [n, k]; no rows when x is only quantized
  int threads = 1;
};

/// A rival's call on one problem. What its users do once (converting, quantizing and packing of weights) is
/// done before.
class RivalCall {
 public:
  RivalCall() = default;
  RivalCall(const RivalCall&) = delete;
  RivalCall& operator=(const RivalCall&) = delete;
  virtual ~RivalCall() = default;
  virtual void run() = 0;
  /// x w^T of the last run, FP32 [m, n]; empty for a quantizer.
  [[nodiscard]] virtual std::vector<float> product() const = 0;
  /// Library, version and kernel: "oneDNN 2.6.3 bf16 brgemm:avx512_core_bf16".
  std::string name;
};

/// A thing that was found, or the sentence that says why not.
template <class T>
struct Found {
  std::unique_ptr<T> it;
  std::string absent;
};
template <class T>
Found<T> absent(std::string why) {
  return {nullptr, std::move(why)};
}

}  // namespace minite::cli
