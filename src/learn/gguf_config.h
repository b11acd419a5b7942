#pragma once
// The configuration of the model in a GGUF file.
#include "io/gguf.h"
#include "minite/model.h"

namespace minite::learn {

/// A value of general.architecture.
struct GgufArchitecture {
  std::string_view name;
  std::string_view family;
  bool interleaved;     ///< whether rows of q and k are interleaved for ggml's rotation of neighbours
  bool norm_topk_prob;  ///< with experts: what llama.cpp's graph does
};
[[nodiscard]] const GgufArchitecture& gguf_architecture(const io::GgufFile& file);

/// Errors as GgufModel.
[[nodiscard]] ModelConfig gguf_config(const io::GgufFile& file);

}  // namespace minite::learn
