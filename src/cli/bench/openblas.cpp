#include "cli/bench/openblas.h"

#include <fmt/format.h>

#include <string_view>

#include "cli/bench/data.h"
#include "cli/bench/library.h"
#include "core/cpu.h"

namespace minite::cli {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // values of cblas.h

class SgemmCall : public RivalCall {
 public:
  SgemmCall(const Problem& problem, OpenBlas::Sgemm* sgemm)
      : sgemm_(sgemm),
        m_(static_cast<int>(problem.x.rows)),
        n_(static_cast<int>(problem.w.rows)),
        k_(static_cast<int>(problem.x.cols)),
        x_(widened(problem.x)),
        w_(widened(problem.w)),
        y_(static_cast<size_t>(problem.x.rows * problem.w.rows)) {}
  void run() override {
    sgemm_(kRowMajor, kNoTrans, kTrans, m_, n_, k_, 1.0f, x_.data(), k_, w_.data(), k_, 0.0f, y_.data(), n_);
  }
  [[nodiscard]] std::vector<float> product() const override { return y_; }

 private:
  OpenBlas::Sgemm* sgemm_;
  int m_, n_, k_;
  std::vector<float> x_, w_, y_;
};

}  // namespace

Found<OpenBlas> OpenBlas::open() {
  Library library({"libopenblas.so.0", "libopenblas.so"});
  if (!library.found()) return absent<OpenBlas>("OpenBLAS is not installed (Debian: libopenblas0)");
  auto blas = std::make_unique<OpenBlas>();
  library.bind(blas->sgemm_, "cblas_sgemm");
  library.bind(blas->set_threads_, "openblas_set_num_threads");
  if (!library.missing().empty())
    return absent<OpenBlas>(fmt::format("OpenBLAS without {} is not measured", library.missing()));
  blas->name_ = "OpenBLAS";
  if (auto* config = library.optional<const char*()>("openblas_get_config")) {
    const std::string_view text = config();  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
    blas->name_ = text.substr(0, text.find(' ', text.find(' ') + 1));
  }
  if (auto* core = library.optional<const char*()>("openblas_get_corename")) {
    blas->core_ = core();
    blas->name_ += " " + blas->core_;
  }
  return {std::move(blas), ""};
}

Found<RivalCall> OpenBlas::sgemm(const Problem& problem) const {
  set_threads_(problem.threads);
  auto call = std::make_unique<SgemmCall>(problem, sgemm_);
  call->name = name_ + " sgemm";
  return {std::move(call), ""};
}

std::string OpenBlas::doubt() const {
  if (core_ != "Haswell" || !has_simd(cpu_info(), SimdLevel::avx512)) return "";
  return "OpenBLAS runs its Haswell kernels on a processor with AVX-512; unset OPENBLAS_CORETYPE";
}

}  // namespace minite::cli
