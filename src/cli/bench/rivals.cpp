#include "cli/bench/rivals.h"

#include <algorithm>
#include <array>

#include "core/fail.h"

namespace minite::cli {

std::string_view rival_name(RivalId id) {
  constexpr std::array<std::string_view, 10> kNames = {
      "-",          "read bandwidth", "bare step",  "copy",       "its parts", "OpenBLAS f32",
      "oneDNN f32", "oneDNN bf16",    "ggml NVFP4", "cuBLAS BF16"};
  return kNames[static_cast<size_t>(id)];
}

Rivals::Rivals(RivalOptions options) : options_(std::move(options)) {
  if (options_.ggml_folder.empty() || ggml() != nullptr) return;
  fail(ErrorCode::invalid_argument, "--ggml {}: {}", options_.ggml_folder, ggml_->absent);
}

void Rivals::note(const std::string& text) {
  if (text.empty() || std::find(notes_.begin(), notes_.end(), text) != notes_.end()) return;
  notes_.push_back(text);
}

const OpenBlas* Rivals::openblas() {
  if (!openblas_) {
    openblas_ = OpenBlas::open();
    note(openblas_->it ? openblas_->it->doubt() : openblas_->absent);
    if (openblas_->it) names_.push_back(openblas_->it->name());
  }
  return openblas_->it.get();
}

const OneDnn* Rivals::onednn() {
  if (!onednn_) {
    onednn_ = OneDnn::open();
    note(onednn_->absent);
    if (onednn_->it) names_.push_back(onednn_->it->name());
  }
  return onednn_->it.get();
}

const Ggml* Rivals::ggml() {
  if (!ggml_) {
    ggml_ = Ggml::open(options_.ggml_folder);
    note(ggml_->it ? ggml_->it->doubt() : ggml_->absent);
    if (ggml_->it) names_.push_back(ggml_->it->name());
  }
  return ggml_->it.get();
}

Found<RivalCall> Rivals::call(RivalId id, const Problem& problem) {
  switch (id) {
    case RivalId::openblas_f32:
      return openblas() != nullptr ? openblas()->sgemm(problem) : Found<RivalCall>{};
    case RivalId::onednn_f32:
      return onednn() != nullptr ? onednn()->matmul(problem, DType::f32) : Found<RivalCall>{};
    case RivalId::onednn_bf16:
      return onednn() != nullptr ? onednn()->matmul(problem, DType::bf16) : Found<RivalCall>{};
    case RivalId::ggml_nvfp4:
      return ggml() != nullptr ? ggml()->call(problem) : Found<RivalCall>{};
    case RivalId::none:
    case RivalId::read_bandwidth:
    case RivalId::bare_step:
    case RivalId::copy:
    case RivalId::parts:
    case RivalId::cublas_bf16:  // the device bench opens it itself
      break;
  }
  fail(ErrorCode::internal, "rival '{}' is no library", rival_name(id));
}

std::unique_ptr<RivalCall> Rivals::prepare(RivalId id, const Problem& problem) {
  if (options_.none) {
    note("--no-rivals: no library was opened");
    return nullptr;
  }
  Found<RivalCall> found = call(id, problem);
  note(found.absent);
  return std::move(found.it);
}

}  // namespace minite::cli
