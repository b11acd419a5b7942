#pragma once
// What rows are compared with, and the libraries behind it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/bench/ggml.h"
#include "cli/bench/onednn.h"
#include "cli/bench/openblas.h"

namespace minite::cli {

/// What a row's figure is compared with; from openblas_f32 on, a library whose call is timed.
enum class RivalId : uint8_t {
  none,
  read_bandwidth,
  bare_step,  ///< the same step with nobody looking
  copy,       ///< of the same bytes within a device
  parts,      ///< of a fused op, one after the other
  openblas_f32,
  onednn_f32,
  onednn_bf16,
  ggml_nvfp4,
  cublas_bf16
};
/// "-", "read bandwidth", "bare step", "copy", "its parts", "OpenBLAS f32", "oneDNN f32", "oneDNN bf16",
/// "ggml NVFP4", "cuBLAS BF16".
[[nodiscard]] std::string_view rival_name(RivalId id);
[[nodiscard]] constexpr bool is_library(RivalId id) { return id >= RivalId::openblas_f32; }

struct RivalOptions {
  bool none = false;        ///< open no library
  std::string ggml_folder;  ///< where ggml's libraries are; empty: where the loader looks
  std::string cublas_file;  ///< cuBLAS; empty: where the loader looks
};

/// Opens each library when a row first asks for it.
class Rivals {
 public:
  /// Opens ggml at once when the options name its folder; throws invalid_argument when it cannot be measured.
  explicit Rivals(RivalOptions options);

  /// The call of a library, or nullptr and a note that says why.
  [[nodiscard]] std::unique_ptr<RivalCall> prepare(RivalId id, const Problem& problem);
  /// Names of the libraries that were opened.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// What is absent or makes a figure doubtful.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// Adds a note, once.
  void note(const std::string& text);

 private:
  [[nodiscard]] Found<RivalCall> call(RivalId id, const Problem& problem);
  const OpenBlas* openblas();
  const OneDnn* onednn();
  const Ggml* ggml();

  RivalOptions options_;
  std::vector<std::string> names_, notes_;
  std::optional<Found<OpenBlas>> openblas_;  ///< nullopt: not asked for yet
  std::optional<Found<OneDnn>> onednn_;
  std::optional<Found<Ggml>> ggml_;
};

}  // namespace minite::cli
