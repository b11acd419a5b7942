#pragma once
// Run folders written by hand, and what a page offers for download.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_folder.h"
#include "support/xml_check.h"

namespace minite::diagnostics::test {
using minite::test_support::spill;

inline constexpr int kSteps = 60;

struct Shape {
  double rl_gap = 0;
  double contrast_gap = 0;  // 0: no contrast stage
  double gate = 1;
};

inline std::string rl_line(int global, int step, const char* stage, double gap, double gate) {
  return fmt::format(
      R"({{"global_step":{},"step":{},"stage":"{}","entropy_loss":1.5,"gap_max":{},)"
      R"("grad_norm":0.5,"pg_clipfrac":0,)"
      R"("response_length_mean":12,"reward":{},"tis":1,"tis_clipfrac":0,"tokens":900,"train_rollout_logprob_abs_diff":{},)"
      R"("triage_gate_weight_mean":{},"triage_repair_active_segment_fraction":0,"triage_repair_loss":0,)"
      R"("triage_token_weight_mean":{}}})"
      "\n",
      global, step, stage, gap * 8, step / 100.0, gap, gate, gate);
}

// A run folder as a finished demo leaves it.
inline void write_run(const std::filesystem::path& run, const Shape& shape) {
  std::string metrics, timings;
  int global = 0;
  const auto time = [&](int step, const char* stage) {
    timings += fmt::format(R"({{"global_step":{},"step":{},"stage":"{}",)"
                           R"("seconds":{{"backward":0.5,"rollout":1.5,"tokens":900}}}})"
                           "\n",
                           global, step, stage);
  };
  for (int i = 1; i <= 10; ++i, ++global) {
    metrics += fmt::format(R"({{"global_step":{},"step":{},"stage":"sft","accuracy":0.5,"loss":{}}})"
                           "\n",
                           global, i, 3.0 / i);
    time(i, "sft");
  }
  for (int i = 1; i <= kSteps; ++i, ++global) {
    metrics += rl_line(global, i, "rl", shape.rl_gap, shape.gate);
    time(i, "rl");
  }
  for (int i = 1; i <= kSteps && shape.contrast_gap > 0; ++i, ++global) {
    metrics += rl_line(global, i, "contrast", shape.contrast_gap, 0.9);
  }
  spill(run / "metrics.jsonl", metrics);
  spill(run / "timings.jsonl", timings);
  spill(run / "config.yaml",
        "seed: 17\nlearner:\n  recipe: nvfp4_per_token\nsampler:\n  recipe: bf16\n"
        "note: \"<script>alert(1)</script>\"\n");
  spill(run / "plans.json",
        R"({"rl":["learner layers.0.o fprop: simd/avx2 chain: bf16 x bf16 -> bf16, N=8 K=16, fma",)"
        R"("learner layers.1.o fprop: simd/avx2 chain: bf16 x bf16 -> bf16, N=4 K=16, fma"]})");
  spill(run / "summary.json", R"({"reward_first":0.105,"reward_last":0.505,"gap_max":0.0,"steps":60,)"
                              R"("tokens_per_s":15234.0,"version":"9.8.7","backend":"simd"})");
}

inline std::string decoded(const std::string& base64_text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : base64_text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(c));
    held += 6;
    if (held >= 8) out += static_cast<char>((bits >> (held -= 8)) & 0xFF);
  }
  return out;
}

/// What the download links of a page hold.
inline std::vector<std::string> links(const std::string& page, const std::string& type) {
  std::vector<std::string> found;
  const std::string start = "href=\"data:" + type + ";base64,";
  for (size_t i = page.find(start); i != std::string::npos; i = page.find(start, i + 1)) {
    const size_t begin = i + start.size();
    found.push_back(decoded(page.substr(begin, page.find('"', begin) - begin)));
  }
  return found;
}

}  // namespace minite::diagnostics::test
