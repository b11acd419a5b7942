#pragma once
// A capture that was opened and checked.
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diagnostics/capture_ranks.h"
#include "io/safetensors.h"

namespace minite::diagnostics {

/// What a row is.
struct RowId {
  int64_t request = 0;  ///< -1: padding
  int32_t sample = 0, position = 0, token = 0;
  friend auto operator<=>(const RowId&, const RowId&) = default;
};
/// "request 3 sample 0 position 17 (token 42)".
[[nodiscard]] std::string to_string(const RowId& row);

/// A sequence whose response was scored.
struct CapturedSequence {
  int64_t request = 0;
  int32_t sample = 0;
  int64_t prompt = 0;
  std::vector<int32_t> tokens;
};

class Capture {
 public:
  /// Opens folder/manifest.json and every file it names. Errors name file and tensor: not_found (a file or a
  /// tensor is missing), corrupt_data (cut short, a tensor without one entry a row, ranks that contradict
  /// each other), unsupported (another version; something else than experts on several ranks).
  explicit Capture(std::filesystem::path folder);

  [[nodiscard]] const CaptureManifest& manifest() const { return manifest_; }
  [[nodiscard]] std::string name() const { return folder_.string(); }
  /// What the manifest says of a tensor, on its lowest rank; null without it.
  [[nodiscard]] const CapturedTensor* find(const std::string& tensor) const;
  /// The tensor; experts of several ranks as one, their weights by rising number.
  [[nodiscard]] const io::TensorInfo& tensor(const std::string& name) const;
  [[nodiscard]] const std::vector<RowId>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<RowId>& scored() const { return scored_; }
  /// The packed rows of `layer`; null without experts.
  [[nodiscard]] const ExpertTable* expert_table(int layer) const;
  /// Expert and slot of each packed row of `layer`; both empty without experts.
  [[nodiscard]] std::vector<int32_t> experts(int layer) const;
  [[nodiscard]] std::vector<int32_t> slots(int layer) const;
  /// The experts that a weight stacks, rising.
  [[nodiscard]] std::vector<int32_t> stacked_experts(const std::string& weight) const;
  /// Ranks that hold experts, at least 1.
  [[nodiscard]] int64_t ranks() const;
  [[nodiscard]] std::vector<CapturedSequence> sequences() const;
  /// The elements of a tensor. Error: corrupt_data for another dtype, not_found.
  template <class T>
  [[nodiscard]] std::vector<T> values(const std::string& name, io::StoredType type) const {
    const io::TensorInfo& info = typed(name, type);
    std::vector<T> all(info.bytes.size() / sizeof(T));
    if (!all.empty()) std::memcpy(all.data(), info.bytes.data(), info.bytes.size());
    return all;
  }

 private:
  [[nodiscard]] const io::TensorInfo& typed(const std::string& name, io::StoredType type) const;
  [[nodiscard]] std::vector<RowId> read_rows(const std::string& table) const;
  [[nodiscard]] const RankParts& parts(const std::string& tensor) const;
  void open_files();
  void read_expert_tables();
  void check_parts() const;
  void check_rows() const;

  std::filesystem::path folder_;
  CaptureManifest manifest_;
  std::map<std::string, RankParts> parts_;
  std::map<std::string, std::unique_ptr<io::SafetensorsFile>> files_;
  std::vector<RowId> rows_, scored_;
  std::map<int, ExpertTable> tables_;
  mutable std::map<std::string, UnitedTensor> united_;  ///< made when they are asked for first
};

}  // namespace minite::diagnostics
