#include "diagnostics/statistics.h"

#include <cmath>

namespace minite::diagnostics {
namespace {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}
double finite_or_nan(const ValueStats& s, double value) {
  return s.finite() == 0 ? std::numeric_limits<double>::quiet_NaN() : value;
}
int64_t finite(const ErrorStats& e) { return e.count - e.nonfinite; }

using S = TensorStats;

// F: finite elements. v: an element's decoded value. d: a block scale.
constexpr Statistic kStatistics[] = {
    {"min", "", false, true, "", "smallest x in F",
     [](const S& s) { return finite_or_nan(s.values, s.values.min); }},
    {"max", "", false, true, "", "largest x in F",
     [](const S& s) { return finite_or_nan(s.values, s.values.max); }},
    {"mean", "", false, true, "", "sum of x over F / |F|",
     [](const S& s) { return finite_or_nan(s.values, s.values.mean); }},
    {"std", "", false, true, "", "sqrt(sum of (x - mean)^2 over F / |F|)",
     [](const S& s) { return s.values.std(); }},
    {"l1_norm", "", false, false, "", "sum of |x| over F", [](const S& s) { return s.values.l1; }},
    {"l2_norm", "", false, true, "", "sqrt(sum of x^2 over F)", [](const S& s) { return s.values.l2(); }},
    {"cur_amax", "amax", false, true, "", "largest |x| in F", [](const S& s) { return s.values.amax(); }},
    {"dynamic_range", "", false, true, "bits",
     "log2(largest |x|) - log2(smallest |x| > 0); 0 when all x are 0",
     [](const S& s) { return s.values.dynamic_range(); }},
    {"zeros%", "", false, false, "%", "elements that are 0 or -0",
     [](const S& s) { return share(s.values.zero, s.values.count); }},
    {"nonfinite", "", false, true, "elements", "NaN and infinite elements",
     [](const S& s) { return static_cast<double>(s.values.nan + s.values.inf); }},
    {"underflows%", "underflow", true, true, "%", "x != 0 in F with v = 0",
     [](const S& s) { return share(s.codes.loss.underflow, s.codes.loss.error.count); }},
    {"saturated%", "saturation", true, true, "%", "x in F with the largest code and |v| < |x|",
     [](const S& s) { return share(s.codes.loss.saturated, s.codes.loss.error.count); }},
    {"overflows%", "overflow", true, true, "%",
     "of the saturated those more than half a step above the largest value of their block",
     [](const S& s) { return share(s.codes.loss.overflow, s.codes.loss.error.count); }},
    {"zero_scale_blocks", "", true, true, "blocks", "blocks with d = 0: every v is 0",
     [](const S& s) { return static_cast<double>(s.codes.zero_scales); }},
    {"nan_scale_blocks", "", true, true, "blocks", "blocks with d = NaN",
     [](const S& s) { return static_cast<double>(s.codes.nan_scales); }},
    {"mse", "", true, false, "", "mean of (v - x)^2 over F",
     [](const S& s) {
       const int64_t n = finite(s.codes.loss.error);
       return n == 0 ? 0 : s.codes.loss.error.noise / static_cast<double>(n);
     }},
    {"relative_l2", "", true, true, "", "|v - x|_2 / |x|_2 over F",
     [](const S& s) { return s.codes.loss.error.relative_l2(); }},
    {"snr_db", "snr", true, true, "dB", "20 log10(|x|_2 / |v - x|_2) over F",
     [](const S& s) { return s.codes.loss.error.snr_db(); }},
    {kScaleHistogram, "", true, true, "", "[byte, blocks] of every block scale byte that occurs", nullptr},
};

constexpr Sign kSigns[] = {
    {"nonfinite", 0, "NaN or infinity"},
    {"nan_scale_blocks", 0, "blocks that decode to NaN"},
    {"zero_scale_blocks", 0, "blocks that decode to 0"},
    {"underflows%", 1, "values that codes make 0"},
    {"overflows%", 0, "values beyond the range of their block"},
};

}  // namespace

std::span<const Statistic> statistics() { return kStatistics; }
std::span<const Sign> signs() { return kSigns; }

const Statistic* find_statistic(std::string_view name) {
  for (const Statistic& s : kStatistics) {
    if (s.name == name || (!s.alias.empty() && s.alias == name)) return &s;
  }
  return nullptr;
}

std::vector<std::string_view> statistic_names() {
  std::vector<std::string_view> names;
  for (const Statistic& s : kStatistics) names.push_back(s.name);
  return names;
}

}  // namespace minite::diagnostics
