#include "diagnostics/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

namespace minite::diagnostics {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The complete format summary below Table 2-3. The report gives one line, with "~", for three formats.
constexpr std::array<PublishedRow, 14> kReal = {{
    {"e2m1", "e4m3", 19.88, 19.53, 0.058788, 0.10140},
    {"e3m1", "e4m3", 21.50, 17.81, 0.045411, 0.08478},
    {"e4m1", "e4m3", 14.39, 0.71, 0.067209, 0.28937},
    {"e5m1", "e4m3", 0.03, 0.00, 0.577118, 0.99698},
    {"e2m2", "e4m3", 26.23, 25.03, 0.027865, 0.04885},
    {"e2m3", "e4m3", 31.19, 28.12, 0.014404, 0.02767},
    {"e2m4", "e4m3", 34.96, 29.58, 0.007589, 0.01807},
    {"e2m1", "e8m0", 17.11, 16.66, 0.077184, 0.13950},
    {"e3m1", "e8m0", 19.7, 19.3, 0.051, 0.103},
    {"e4m1", "e8m0", 19.7, 19.3, 0.051, 0.103},
    {"e5m1", "e8m0", 19.7, 19.3, 0.051, 0.103},
    {"e2m2", "e8m0", 23.98, 23.64, 0.034200, 0.06322},
    {"e2m3", "e8m0", 30.31, 29.73, 0.016283, 0.03051},
    {"e2m4", "e8m0", 36.41, 35.87, 0.007954, 0.01513},
}};

constexpr PublishedRow simulated(std::string_view element, std::string_view scale, double mae, double snr) {
  return {element, scale, snr, kNone, mae, kNone};
}
constexpr std::array<PublishedRow, 8> kExponents = {{
    simulated("e5m1", "e4m3", 1.485030, 0.00),
    simulated("e4m1", "e4m3", 0.132963, 20.48),
    simulated("e3m1", "e4m3", 0.127780, 20.63),
    simulated("e2m1", "e4m3", 0.154619, 19.62),
    simulated("e5m1", "e8m0", 0.128281, 20.18),
    simulated("e4m1", "e8m0", 0.128281, 20.18),
    simulated("e3m1", "e8m0", 0.128515, 20.18),
    simulated("e2m1", "e8m0", 0.176643, 17.97),
}};
constexpr std::array<PublishedRow, 8> kMantissas = {{
    simulated("e2m4", "e4m3", 0.017888, 36.91),
    simulated("e2m3", "e4m3", 0.034627, 31.58),
    simulated("e2m2", "e4m3", 0.070138, 26.04),
    simulated("e2m1", "e4m3", 0.142116, 20.17),
    simulated("e2m4", "e8m0", 0.018970, 37.03),
    simulated("e2m3", "e8m0", 0.038432, 30.93),
    simulated("e2m2", "e8m0", 0.079777, 24.93),
    simulated("e2m1", "e8m0", 0.176643, 17.97),
}};

constexpr PublishedTable kRealTable = {"real inputs", "Tables 2-1 and 2-3, summary", kReal};
constexpr std::array<PublishedTable, 2> kBatches = {{
    {"exponent widths, simulated", "Table 2-3, first batch", kExponents},
    {"mantissa widths, simulated", "Table 2-3, second batch", kMantissas},
}};

std::string name_of(const RankedFormat& format) {
  std::string text = format.element + "+" + format.scale;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// NaN is worse than every number.
double worth(const RankedFormat& format) {
  return std::isnan(format.snr_db) ? -std::numeric_limits<double>::infinity() : format.snr_db;
}

}  // namespace

const PublishedRow* PublishedTable::find(std::string_view element, std::string_view scale) const {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const PublishedRow& row) {
    return row.element == element && row.scale == scale;
  });
  return it == rows.end() ? nullptr : &*it;
}

const PublishedTable& published_real_inputs() { return kRealTable; }
std::span<const PublishedTable> published_batches() { return kBatches; }

std::vector<RankedFormat> ranked(std::vector<RankedFormat> formats) {
  std::stable_sort(formats.begin(), formats.end(),
                   [](const RankedFormat& a, const RankedFormat& b) { return worth(a) > worth(b); });
  return formats;
}

std::string order_text(const std::vector<RankedFormat>& best_first) {
  std::string text;
  for (size_t i = 0; i < best_first.size(); ++i) {
    if (i > 0) text += worth(best_first[i]) == worth(best_first[i - 1]) ? " = " : " > ";
    text += name_of(best_first[i]) + (std::isnan(best_first[i].snr_db) ? " (NaN)" : "");
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> pairs_in_another_order(
    const std::vector<RankedFormat>& ours, const std::vector<RankedFormat>& theirs) {
  const auto of_theirs = [&](const RankedFormat& format) -> const RankedFormat* {
    for (const RankedFormat& other : theirs) {
      if (other.element == format.element && other.scale == format.scale) return &other;
    }
    return nullptr;
  };
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const RankedFormat& a : ours) {
    for (const RankedFormat& b : ours) {
      const RankedFormat* x = of_theirs(a);
      const RankedFormat* y = of_theirs(b);
      if (x == nullptr || y == nullptr || worth(a) <= worth(b) || worth(*x) >= worth(*y)) continue;
      pairs.emplace_back(name_of(a), name_of(b));
    }
  }
  return pairs;
}

}  // namespace minite::diagnostics
