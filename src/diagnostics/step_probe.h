#pragma once
// Statistics and dumps of the steps that rules choose, for both sides of a run. It reads and changes nothing.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diagnostics/operand_stats.h"
#include "diagnostics/probe_rules.h"
#include "diagnostics/statistics.h"

namespace minite::diagnostics {

/// One tensor of a side, summed up over a step.
struct StatKey {
  Side side = Side::learner;
  int layer = -1;
  std::string module;  ///< without "layers.N."
  TensorKind tensor = TensorKind::output;
  int64_t expert = -1;
  friend auto operator<=>(const StatKey&, const StatKey&) = default;

  /// "layers.3.qkv", or the module outside the layers.
  [[nodiscard]] std::string name() const;
};

class DumpWriter;

class StepProbe {
 public:
  /// `context` has the backend that decodes codes and the threads that count; its probe is not used.
  StepProbe(std::vector<ProbeRule> rules, const Context& context);
  ~StepProbe();
  StepProbe(const StepProbe&) = delete;
  StepProbe& operator=(const StepProbe&) = delete;

  /// A step begins; what an unfinished one gathered is dropped. Dumps go into `dumps`/step_NNNNNN.
  void begin(int64_t step, const std::filesystem::path& dumps);
  /// Who listens to a side in this step; nullptr when no rule wants it.
  [[nodiscard]] Probe* side(Side side);
  /// The main gradient of the parameter `name` ("layers.3.qkv"), before clipping; its rows are `units` equal
  /// parts, one an expert.
  void gradient(const std::string& name, const TensorView& grad, int64_t units);
  /// The step is over: one line of JSON members for each tensor, sorted by StatKey; dumps are on disk.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  class Listener;
  struct Wanted {
    std::set<std::string_view> stats;
    bool codes = false;  ///< a statistic of codes is wanted
    bool dump_values = false, dump_codes = false;
  };
  struct Gathered {
    const Wanted* wanted = nullptr;
    TensorStats stats;
  };
  void clear();
  [[nodiscard]] const Wanted& wanted(const StatKey& key);
  void add_values(const StatKey& key, const TensorView& x);
  void add_codes(const StatKey& key, const QTensor& q, const TensorView& x);
  void add_columns(const StatKey& key, const TensorView& x, const QTensor& q);

  std::vector<ProbeRule> rules_;
  Context context_;
  int64_t step_ = 0;
  std::vector<const ProbeRule*> active_;  ///< rules of this step
  std::map<StatKey, Wanted> wanted_;      ///< by key without its expert
  std::map<StatKey, Gathered> gathered_;
  std::vector<float> decoded_;  ///< working memory
  OperandScratch columns_;
  std::unique_ptr<Listener> sides_[2];
  std::unique_ptr<DumpWriter> dumps_;
};

}  // namespace minite::diagnostics
