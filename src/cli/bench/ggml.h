#pragma once
// ggml's NVFP4 as a rival: what llama.cpp's users run. The products go through ggml_mul_mat in a graph on the
// CPU backend, so that ggml chooses threads, chunks and kernel itself; the activations' quantization to Q8_0
// is a part of the call.
#include <cstdint>

#include "cli/bench/library.h"
#include "cli/bench/rival.h"

namespace minite::cli {

/// The functions that are called, as ggml.h, ggml-backend.h and ggml-cpu.h declare them. Contexts, tensors,
/// graphs and backends are handles.
struct GgmlApi {
  using Handle = void*;
  struct InitParams {
    size_t mem_size;
    void* mem_buffer;
    bool no_alloc;
  };

  const char* (*type_name)(int type);
  int64_t (*block_size)(int type);
  size_t (*type_size)(int type);
  size_t (*row_size)(int type, int64_t elements);
  size_t (*quantize)(int type, const float* x, void* out, int64_t start, int64_t rows, int64_t cols,
                     const float* importance);
  Handle (*init)(InitParams);
  void (*free)(Handle context);
  size_t (*graph_overhead)();
  size_t (*tensor_overhead)();
  Handle (*new_tensor)(Handle context, int type, int64_t cols, int64_t rows);
  void* (*data)(Handle tensor);
  Handle (*mul_mat)(Handle context, Handle weights, Handle x);
  Handle (*new_graph)(Handle context);
  void (*expand)(Handle graph, Handle tensor);
  int (*compute)(Handle backend, Handle graph);
  void (*backend_free)(Handle backend);
  Handle (*backend_init)();
  void (*set_threads)(Handle backend, int threads);

  void bind(Library& base, Library& cpu);
};

class Ggml {
 public:
  /// libggml-base and libggml-cpu in `folder`, or where the loader looks when it is empty.
  [[nodiscard]] static Found<Ggml> open(const std::string& folder);

  /// x w^T with w in NVFP4; without w, x quantized to NVFP4 on one thread.
  [[nodiscard]] Found<RivalCall> call(const Problem& problem) const;
  /// "ggml 0.21.0 avx512": version and what it was built for.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// What makes its figures doubtful, or "".
  [[nodiscard]] const std::string& doubt() const { return doubt_; }

 private:
  void describe(const Library& base, const Library& cpu);

  GgmlApi api_{};
  std::string name_, doubt_;
};

}  // namespace minite::cli
