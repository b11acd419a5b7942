#pragma once
// A probe that stores everything a forward pass shows, by what each row is and not by when it came: rows may
// arrive in prefill, decode steps or micro-batches, and the files are the same.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/probe.h"
#include "diagnostics/capture_manifest.h"
#include "diagnostics/row_spill.h"
#include "io/safetensors.h"

namespace minite::diagnostics {

/// What is stored. Rows, tokens and log-probs always are.
struct CaptureSelection {
  /// Whether layer (-1: none), module and point ("input.codes") are wanted; null: all are.
  std::function<bool(int layer, std::string_view module, std::string_view point)> wanted;
  int64_t max_tokens = 0;  ///< positions of a sequence, from its start; 0: all
  bool logits = false;     ///< lm_head.output [R,V] too
  /// Experts are stored as if they lay on so many ranks, each with a run of the `experts` of the model.
  int64_t expert_ranks = 1, experts = 0;
};

/// How tokens were drawn, for what is computed of each row of logits.
struct DrawRules {
  double temperature = 1.0;
  int64_t top_k = 0;
  double top_p = 1.0;
};

/// A prompt with its response, as it was scored.
struct ScoredSequence {
  std::span<const int32_t> tokens;  ///< prompt, then response
  int64_t prompt = 0;
  std::span<const float> logp, entropy;  ///< one a response token
};

class CaptureSink : public Probe {
 public:
  /// Files go to `folder`, which exists. Sequence i of the run is sample i % samples of request i / samples.
  CaptureSink(std::filesystem::path folder, CaptureSelection selection, const DrawRules& rules,
              int64_t samples);

  void value(const Tap& at, const TensorView& value) override;
  void codes(const Tap& at, const QTensor& codes) override;
  void batch(const BatchRows& rows) override;
  void scored(std::span<const int32_t> rows) override;
  void experts(int layer, const ExpertRows& rows) override;

  /// What sequence `index` was; every sequence that had rows needs it before finish().
  void sequence(int64_t index, const ScoredSequence& sequence);
  /// Writes the tensors, sorted by request, sample and position, into files of at most `shard_bytes` (a
  /// larger tensor gets one of its own), one tensor in memory at a time; returns the list for the manifest.
  /// Error: internal when a tensor lacks rows or a row came twice.
  [[nodiscard]] std::vector<CapturedTensor> finish(int64_t shard_bytes = int64_t{256} << 20);

 private:
  struct Key {
    int64_t sequence;
    int32_t position, token;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Choice {
    int64_t row;  ///< in order of arrival
    int32_t choice, expert;
  };
  /// Packed rows of the experts of one layer.
  struct ExpertTable {
    std::vector<Choice> all;    ///< in order of arrival
    std::vector<int32_t> kept;  ///< rows of the running batch
    int64_t k = 0;
  };
  struct Recorded {
    CapturedTensor about;
    RowTable table = RowTable::none;
    io::StoredType type = io::StoredType::u8;
    int64_t cols = 0;            ///< elements of a row
    std::vector<int64_t> shape;  ///< of a weight
    int64_t next_expert = 0;     ///< of a weight: parts stored so far
    SpilledTensor data;
  };
  struct OwnSequence {
    std::vector<int32_t> tokens;
    int64_t prompt;
    std::vector<float> logp, entropy;
  };
  struct Output;
  /// Order of the packed rows of each layer and rank.
  using ExpertOrder = std::map<std::pair<int, int64_t>, std::vector<int64_t>>;

  [[nodiscard]] bool wants(const Tap& at, std::string_view point) const;
  Recorded& record(const Tap& at, std::string_view point, const QuantSpec* spec);
  [[nodiscard]] std::span<const int32_t> kept(const Tap& at) const;
  void add_rows(const Tap& at, std::string_view point, const QuantSpec* spec, io::StoredType type,
                int64_t cols, const void* data, int64_t stride_bytes);
  void add_weight(const Tap& at, std::string_view point, const QuantSpec& spec, io::StoredType type,
                  const std::vector<int64_t>& shape, const void* data);
  void add_logits(const TensorView& logits);

  [[nodiscard]] std::vector<int64_t> row_order() const;
  [[nodiscard]] std::vector<int64_t> scored_order() const;
  void add_row_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order) const;
  void add_scored_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order) const;
  void add_sequence_tables(std::vector<Output>& outputs) const;
  /// Experts of `rank`: [first, second).
  [[nodiscard]] std::pair<int32_t, int32_t> experts_of(int64_t rank) const;
  /// Adds the tables of `rank`.
  void add_expert_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order, int64_t rank,
                         ExpertOrder& expert_order) const;
  /// Adds one tensor, of experts the part of `rank`.
  void add_recorded(std::vector<Output>& outputs, const Recorded& recorded, int64_t rank,
                    const std::vector<int64_t>& order);
  void add_weight_part(std::vector<Output>& outputs, const Recorded& recorded, int64_t rank);
  [[nodiscard]] std::vector<CapturedTensor> write(std::vector<Output>& outputs, int64_t shard_bytes) const;

  std::filesystem::path folder_;
  CaptureSelection selection_;
  DrawRules rules_;
  int64_t samples_;
  RowSpill spill_;
  std::map<std::string, Recorded> tensors_;
  std::map<int64_t, OwnSequence> sequences_;
  std::vector<Key> rows_;             ///< of everything kept, in order of arrival
  std::vector<Key> batch_;            ///< of the running batch
  std::vector<int32_t> kept_;         ///< rows of the running batch that are stored
  std::vector<int64_t> arrival_;      ///< of each row of the running batch, -1 when it is not stored
  std::vector<Key> scored_;           ///< in order of arrival; position and token of what is read
  std::vector<int32_t> kept_scored_;  ///< of the running batch's scored rows
  std::vector<int64_t> digest_;       ///< of each row of logits
  std::vector<double> lse_, lse_1_, kept_mass_;
  int64_t next_logit_ = 0;           ///< scored row of the running batch that the next logits begin with
  std::vector<int32_t> logit_rows_;  ///< rows of the running piece of logits that are stored
  std::map<int, ExpertTable> experts_;
};

}  // namespace minite::diagnostics
