#pragma once
// manifest.json of a capture (docs/capture.md): what was run, and what each tensor is.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/contract.h"

namespace minite::diagnostics {

inline constexpr std::string_view kCaptureFormat = "minite-capture/1";

/// Where a value was taken.
enum class Provenance : uint8_t {
  kernel,  ///< what the production kernel wrote
  hook,    ///< at a module's boundary, by a framework's hook
  replay,  ///< computed again by a reference: says nothing about what was executed
};
[[nodiscard]] std::string_view to_string(Provenance provenance);

/// What the rows of a tensor are.
enum class RowTable : uint8_t {
  none,     ///< of a weight
  rows,     ///< tokens read: rows.request, .sample, .position, .token
  scored,   ///< tokens scored: scored.request, .sample, .position, .token
  experts,  ///< choices of a layer: rows.L.expert, rows.L.slot
};
/// The table of the tensors of `module` at `point`.
[[nodiscard]] RowTable row_table(std::string_view module, std::string_view point);

struct CapturedTensor {
  std::string name;           ///< "layers.0.qkv.input.codes", "embed.output", "logprob", "rows.token"
  std::string file;           ///< "tensors-00000.safetensors"
  int layer = -1;             ///< -1 outside the layers
  std::string module, point;  ///< "qkv", "input.codes"; empty for tables of rows
  int64_t step = 0, rank = 0;
  Provenance provenance = Provenance::kernel;
  std::string format;        ///< "bf16", "f32", "nvfp4"; of codes and scales: of the tensor they belong to
  std::string scale_domain;  ///< none, tensor, expert or row; empty where there is no scale
  /// Experts of the rank, in the order in which a weight stacks them; empty: all, from 0 on. Of the tables
  /// rows.L.expert and of weights of experts.
  std::vector<int32_t> experts;
  std::string spec;  ///< the whole quantization, "nvfp4[te,outer=row]", or empty
};

/// Weights as they were in memory when the side ran, whatever its contract says.
struct WeightsInUse {
  int64_t version = 0;
  std::map<std::string, std::vector<std::string>> digests;  ///< XXH64 by parameter, one an expert
};

struct CaptureManifest {
  std::string role, producer;  ///< "learner" or "sampler"; the program and its version
  io::Contract contract;
  std::string injected;  ///< the fault of --inject, or empty
  std::vector<std::string> plans;
  nlohmann::json model;  ///< config.json
  WeightsInUse weights;
  nlohmann::json selection;  ///< what was asked for: points, layers, max_tokens, logits
  std::vector<CapturedTensor> tensors;

  /// An integer of config.json, `otherwise` when it has none.
  [[nodiscard]] int64_t model_number(const char* field, int64_t otherwise) const;
};

/// Writes folder/manifest.json.
void write_capture_manifest(const std::filesystem::path& folder, const CaptureManifest& manifest);
/// Reads folder/manifest.json. Errors name the file: not_found, corrupt_data (no JSON, a field that is
/// missing), unsupported (another version of the format).
[[nodiscard]] CaptureManifest read_capture_manifest(const std::filesystem::path& folder);

}  // namespace minite::diagnostics
