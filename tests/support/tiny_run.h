#pragma once
// A run of the command that goes through all stages in a fraction of a second: 8 SFT steps, 6 of RL, 3 of the
// contrast, a checkpoint every 2, several micro-batches an update and a sampler with fewer slots than
// requests.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/event_file.h"
#include "support/child.h"

namespace minite::test_support {

inline constexpr int64_t kTinySft = 8, kTinyRl = 6, kTinyContrast = 3;
inline constexpr int64_t kTinySteps = kTinySft + kTinyRl + kTinyContrast;

inline std::string tiny_yaml() {
  return R"(model: {hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 2,
        num_key_value_heads: 1, head_dim: 16}
max_length: 32
micro_tokens: 256
sampler_sequences: 8
checkpoint_every: 2
data: {generator: addition, options: "digits=1,steps=0", problems: 90}
sft: {steps: 8, batch_size: 64, lr: 1e-2, warmup_steps: 2}
rl: {steps: 6, train_batch_size: 4, n: 16, lr: 1e-3, warmup_steps: 1}
contrast: {steps: 3}
)";
}

/// Settings that make the tiny model a mixture of experts.
inline std::vector<std::string> tiny_expert_settings() {
  return {"--set", "model.num_experts=4",           "--set", "model.num_experts_per_tok=2",
          "--set", "model.moe_intermediate_size=32"};
}

/// A folder with tiny.yaml, and runs beside it.
class TinyRuns {
 public:
  TinyRuns() { spill(folder_ / "tiny.yaml", tiny_yaml()); }

  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  [[nodiscard]] std::string text(const std::string& name) const { return (folder_ / name).string(); }

  /// Arguments of a new run in `name`: the tiny configuration, then `more`.
  [[nodiscard]] std::vector<std::string> start(const std::string& name,
                                               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"rl", "--config", text("tiny.yaml"), "-o", text(name)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] std::vector<std::string> resume(const std::string& name,
                                                const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"rl", "--resume", text(name)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  /// Runs to the end, which must be a good one.
  CommandResult finish(const std::vector<std::string>& arguments) const {
    CommandResult result = run_minite(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  /// Whole lines of metrics.jsonl.
  [[nodiscard]] int64_t lines(const std::string& name) const {
    const std::string log = slurp(folder_ / (name + "/metrics.jsonl"));
    return std::count(log.begin(), log.end(), '\n');
  }
  [[nodiscard]] std::filesystem::path checkpoint(const std::string& name, int64_t step) const {
    std::string number = std::to_string(step);
    number.insert(0, 6 - number.size(), '0');
    return folder_ / (name + "/checkpoints/step_" + number);
  }

 private:
  TempFolder folder_;
};

/// Every file below `folder` with its bytes.
inline std::map<std::string, std::string> bytes_below(const std::filesystem::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file())
      files[entry.path().lexically_relative(folder).string()] = slurp(entry.path());
  }
  return files;
}

/// Whether two folders hold the same files; says which differ.
inline testing::AssertionResult same_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto left = bytes_below(a), right = bytes_below(b);
  auto names = left;
  names.insert(right.begin(), right.end());
  std::string differing;
  for (const auto& [name, bytes] : names) {
    const auto l = left.find(name), r = right.find(name);
    if (l == left.end() || r == right.end() || l->second != r->second) differing += " " + name;
  }
  if (differing.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << a << " and " << b << " differ in" << differing;
}

/// The TensorBoard events of a run with every wall time 0, which is all that may differ between runs; fails
/// on a file that is cut or damaged.
inline std::string timeless_events(const std::filesystem::path& run) {
  io::EventFile file = io::parse_events(slurp(run / "tensorboard/events.out.tfevents.0.minite"));
  EXPECT_EQ(file.fault, "") << run;
  std::string bytes;
  for (io::Event& event : file.events) {
    event.wall_time = 0;
    bytes += io::event_record(event);
  }
  return bytes;
}

/// The lines of a JSONL file.
inline std::vector<nlohmann::json> json_lines(const std::filesystem::path& file) {
  std::vector<nlohmann::json> rows;
  const std::string text = slurp(file);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    rows.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return rows;
}

}  // namespace minite::test_support
