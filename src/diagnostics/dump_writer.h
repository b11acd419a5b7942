#pragma once
// Tensors of a step as safetensors, one file a forward pass, and a manifest that says what they are.
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/probe.h"
#include "io/safetensors.h"

namespace minite::diagnostics {

/// A file is written when the next pass of its side begins or the step ends. Tensors: NAME for values in
/// their own dtype; NAME.codes and NAME.block_scales (U8), NAME.outer_scale and NAME.amax (F32) for codes, as
/// `minite quantize` names them; rows.token, rows.pos (I32) and rows.request (I64) for the rows of the pass.
class DumpWriter {
 public:
  /// Nothing is created before the first tensor.
  explicit DumpWriter(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// A pass of `side` begins.
  void begin_pass(const std::string& side, const BatchRows& rows);
  /// Copies a tensor of the pass of `side`. `about` goes into the manifest. Values that come in parts
  /// (logits) are NAME, NAME.2, ...
  void values(const std::string& side, const std::string& name, const TensorView& x, nlohmann::json about);
  void codes(const std::string& side, const std::string& name, const QTensor& q, nlohmann::json about);
  /// Writes what is left, and manifest.json.
  void finish(int64_t step);

 private:
  struct Held {
    io::StoredType type;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  struct Pass {
    int64_t number = -1;
    std::map<std::string, Held> tensors;
    nlohmann::json entries = nlohmann::json::array();
    bool rows_only = true;  ///< nothing but the rows is held
  };
  void add(Pass& pass, const std::string& name, io::StoredType type, std::vector<int64_t> shape,
           const void* bytes);
  void write(const std::string& side, Pass& pass);

  std::filesystem::path folder_;
  std::map<std::string, Pass> passes_;
  nlohmann::json files_ = nlohmann::json::array();
};

}  // namespace minite::diagnostics
