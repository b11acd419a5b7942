#pragma once
// Kernels of this processor beside their rivals, in one process on the same data.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace minite::cli {

/// A quantity over the rounds.
struct Spread {
  double median = 0, least = 0, most = 0;
};

/// One line of the table; rates are per second.
struct BenchRow {
  std::string name, problem, unit;
  Spread ours, theirs;  ///< theirs: of the rival, 0 when it is absent
  std::string against;  ///< the rival's name, "read bandwidth", "-" for an absolute figure, or "absent"
  Spread ratio;         ///< ours / theirs of the same round; of an absolute figure ours alone
  double ceiling = 0;   ///< share of the measured read bandwidth that the compulsory bytes take; 0: not bound
  double must = 0, aim = 0;  ///< of `ratio`; 0: none stated
  [[nodiscard]] bool measured() const { return against != "absent"; }
  [[nodiscard]] bool pass() const { return measured() && ratio.median >= must; }
};

struct BenchOptions {
  std::string filter = ".*";  ///< regular expression that a row's name contains
  int threads = 0;            ///< of both sides; 0: one a hardware thread
  int rounds = 5;
};

struct BenchTable {
  std::vector<BenchRow> rows;
  Spread read_gbs;  ///< read bandwidth of memory, measured in every round, GB/s
  int threads = 0;
  std::string backend;
  std::string rival;               ///< OpenBLAS's name, or "absent"
  std::vector<std::string> notes;  ///< what makes a figure doubtful
};

/// Runs the rows that the filter names; `progress` hears each name. Throws invalid_argument for a filter that
/// is no expression or names nothing.
[[nodiscard]] BenchTable bench_kernels(const BenchOptions& options,
                                       const std::function<void(const std::string&)>& progress);

}  // namespace minite::cli
