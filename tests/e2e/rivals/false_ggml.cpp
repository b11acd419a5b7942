// A ggml that is not what it says: FALSE_GGML_BLOCK elements in a block of type 40, and products of zeros.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace {

struct Tensor {
  int64_t cols, rows;
  std::vector<std::byte> data;
};

size_t bytes_of(int type, int64_t elements) {
  return type == 0 ? 4 * static_cast<size_t>(elements) : static_cast<size_t>(elements) / 64 * 36;
}

}  // namespace

extern "C" {

struct Params {
  size_t size;
  void* buffer;
  bool no_alloc;
};

const char* ggml_type_name(int) { return "nvfp4"; }
int64_t ggml_blck_size(int) { return FALSE_GGML_BLOCK; }
size_t ggml_type_size(int) { return 36; }
size_t ggml_row_size(int type, int64_t elements) { return bytes_of(type, elements); }
size_t ggml_quantize_chunk(int type, const float*, void*, int64_t, int64_t rows, int64_t cols, const float*) {
  return bytes_of(type, rows * cols);
}
void* ggml_init(Params) { return new int(0); }
void ggml_free(void* context) { delete static_cast<int*>(context); }
size_t ggml_graph_overhead() { return 0; }
size_t ggml_tensor_overhead() { return 0; }
void* ggml_new_tensor_2d(void*, int type, int64_t cols, int64_t rows) {
  static std::vector<std::unique_ptr<Tensor>> all;
  all.push_back(
      std::make_unique<Tensor>(Tensor{cols, rows, std::vector<std::byte>(bytes_of(type, cols * rows))}));
  return all.back().get();
}
void* ggml_get_data(void* tensor) { return static_cast<Tensor*>(tensor)->data.data(); }
void* ggml_mul_mat(void* context, void* w, void* x) {
  return ggml_new_tensor_2d(context, 0, static_cast<Tensor*>(w)->rows, static_cast<Tensor*>(x)->rows);
}
void* ggml_new_graph(void*) { return nullptr; }
void ggml_build_forward_expand(void*, void*) {}
int ggml_backend_graph_compute(void*, void*) { return 0; }
void ggml_backend_free(void*) {}
void* ggml_backend_cpu_init() { return nullptr; }
void ggml_backend_cpu_set_n_threads(void*, int) {}
}
