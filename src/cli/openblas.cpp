#include "cli/openblas.h"

#include <dlfcn.h>

#include <string_view>

namespace minite::cli {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // values of cblas.h

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

std::unique_ptr<OpenBlas> OpenBlas::open(int threads) {
  void* library = nullptr;
  for (const char* file : {"libopenblas.so.0", "libopenblas.so"}) {
    if (library == nullptr) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return nullptr;  // stays open until the process ends: it owns threads
  auto blas = std::make_unique<OpenBlas>();
  blas->sgemm_ = symbol<Sgemm>(library, "cblas_sgemm");
  const auto set_threads = symbol<void (*)(int)>(library, "openblas_set_num_threads");
  if (blas->sgemm_ == nullptr || set_threads == nullptr) return nullptr;
  set_threads(threads);
  blas->name_ = "OpenBLAS";
  if (const auto config = symbol<const char* (*)()>(library, "openblas_get_config")) {
    const std::string_view text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
    blas->name_ = text.substr(0, text.find(' ', text.find(' ') + 1));
  }
  if (const auto core = symbol<const char* (*)()>(library, "openblas_get_corename")) {
    blas->core_ = core();
    blas->name_ += " " + blas->core_;
  }
  return blas;
}

void OpenBlas::sgemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* y) const {
  const auto size = [](int64_t v) { return static_cast<int>(v); };
  sgemm_(kRowMajor, kNoTrans, kTrans, size(m), size(n), size(k), 1.0f, a, size(k), b, size(k), 0.0f, y,
         size(n));
}

}  // namespace minite::cli
