#pragma once
// cuBLAS as a rival: BF16 operands, FP32 sums, BF16 output, opened at run time.
#include "cli/bench/library.h"
#include "cli/bench/rival.h"
#include "ops/args.h"

namespace minite::cli {

class Cublas {
 public:
  /// libcublas.so.13 or .12 where the loader looks, in the toolkit's folder, or as `file`.
  [[nodiscard]] static Found<Cublas> open(const std::string& file);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// y [m,n] = x [m,k] w [n,k]^T on `stream`, pointers of the device. Throws internal with cuBLAS's status.
  /// With `turned` columns w is [k,n].
  void multiply(const TensorView& x, const TensorView& w, const TensorView& y, void* stream,
                Orientation turned = Orientation::rows);
  /// y [n,k] f32 = dy [r,n]^T x [r,k]: a weight gradient.
  void multiply_turned(const TensorView& dy, const TensorView& x, const TensorView& y, void* stream);
  /// "cuBLAS 13.1.0".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  explicit Cublas(const Library& library) : library_(library) {}
  bool bind();
  void prepare(void* stream);

  using Handle = void*;
  Library library_;
  int (*create_)(Handle*) = nullptr;
  int (*destroy_)(Handle) = nullptr;
  int (*set_stream_)(Handle, void*) = nullptr;
  int (*set_workspace_)(Handle, void*, size_t) = nullptr;
  int (*version_)(Handle, int*) = nullptr;
  int (*gemm_)(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int,
               const void*, void*, int, int, int, int) = nullptr;
  Handle handle_ = nullptr;
  void* workspace_ = nullptr;
  std::string name_;
};

}  // namespace minite::cli
