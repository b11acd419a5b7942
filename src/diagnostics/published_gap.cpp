#include "diagnostics/published_gap.h"

#include <array>
#include <limits>

namespace minite::diagnostics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Which models a figure is about.
enum class Of : unsigned char { dense, experts, any };

struct Row {
  std::string_view learner_weights, learner_activations, sampler_weights, sampler_activations, sampler_kv;
  Of of;
  double value;
  std::string_view source;
  std::string_view learner_kv = "bf16";
};

constexpr Row both(std::string_view learner, std::string_view sampler, Of of, double value) {
  return {learner, learner, sampler, sampler, "bf16", of, value, "Table 1"};
}
constexpr Row activations(std::string_view format, Of of, double value) {
  return {"nvfp4", "bf16", "nvfp4", format, "bf16", of, value, "Table 2"};
}
constexpr Row kv(std::string_view format, double value) {
  return {"nvfp4", "nvfp4", "nvfp4", "nvfp4", format, Of::any, value, "section 2.3"};
}
constexpr Row simulated(std::string_view format, double value) {
  return {"nvfp4", "bf16", "nvfp4", format, "bf16", Of::any, value, "Table 2-2"};
}

// Dense is Qwen3-4B, the mixture of experts Qwen3-30B-A3B.
constexpr std::array kRows = {
    both("bf16", "bf16", Of::dense, 0.0110),
    both("bf16", "bf16", Of::experts, 0.0172),
    both("nvfp4", "nvfp4", Of::dense, 0.1142),
    both("nvfp4", "nvfp4", Of::experts, 0.0668),
    both("nvfp4", "bf16", Of::dense, 0.1376),
    both("nvfp4", "bf16", Of::experts, 0.0621),
    both("bf16", "nvfp4", Of::dense, 0.1690),
    both("bf16", "nvfp4", Of::experts, 0.0747),
    activations("bf16", Of::dense, 0.0139),
    activations("bf16", Of::experts, 0.0166),
    activations("mxfp8", Of::dense, 0.0363),
    activations("mxfp8", Of::experts, 0.0227),
    activations("nvfp4", Of::dense, 0.0903),
    activations("nvfp4", Of::experts, 0.0445),
    kv("fp8", 0.0721),
    kv("bf16", 0.0583),
    simulated("sim_e2m1", 0.05800700932741165),
    simulated("sim_e3m1", 0.11516289412975311),
    simulated("sim_e4m1", 3.412203073501587),
    simulated("sim_e5m1", kNone),
    simulated("sim_e2m2", 0.042353976517915726),
    simulated("sim_e2m3", 0.03562581539154053),
    simulated("sim_e2m4", 0.031815189868211746),
};

bool same(std::string_view weights, std::string_view activations, const GapOperands& side) {
  return weights == side.weights && activations == side.activations;
}

}  // namespace

std::vector<PublishedGap> published_gaps(const GapSetting& setting) {
  std::vector<PublishedGap> found;
  for (const Row& row : kRows) {
    if (row.of == (setting.experts ? Of::dense : Of::experts)) continue;
    if (row.sampler_kv == setting.sampler_kv && row.learner_kv == setting.learner_kv &&
        same(row.learner_weights, row.learner_activations, setting.learner) &&
        same(row.sampler_weights, row.sampler_activations, setting.sampler))
      found.push_back({row.value, row.source});
  }
  return found;
}

}  // namespace minite::diagnostics
