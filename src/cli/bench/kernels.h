#pragma once
// Kernels of this processor beside their rivals, in one process on the same data.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/rivals.h"
#include "cli/bench/timing.h"
#include "core/median.h"

namespace minite::cli {

/// What pairs of calls that follow one another say of a ratio.
struct Paired {
  MedianInterval ratio;  ///< of the time that `clock` gives
  MedianInterval wall;   ///< of wall time
  int64_t pairs = 0;
  std::string_view clock;  ///< "cpu" or "wall"
};

/// One comparison of a kernel; rates are per second. A kernel with several rivals has as many rows, of the
/// same rounds.
struct BenchRow {
  std::string name, problem, unit;
  RivalId rival = RivalId::none;  ///< what the row is to be compared with
  std::string against;            ///< the rival's own name; "absent" when there is none
  Spread ours, theirs;            ///< in the same unit; theirs is 0 without a rival
  Spread ratio;                   ///< ours / theirs of the same round; 0 without a rival
  std::optional<Paired> paired;   ///< of rows that are timed pair by pair; `ratio` is its median and range
  double ceiling = 0;        ///< share of the read bandwidth that the compulsory bytes take; 0: not bound
  double must = 0, aim = 0;  ///< of `judged`; 0: not stated

  [[nodiscard]] bool absent() const { return against == "absent"; }
  [[nodiscard]] bool compared() const { return rival != RivalId::none && !absent(); }
  /// What `must` and `aim` are compared with: the ratio, or of an absolute figure our rate.
  [[nodiscard]] double judged() const { return rival == RivalId::none ? ours.median : ratio.median; }
  /// Of paired rows: only when the whole interval is below.
  [[nodiscard]] bool below_must() const {
    return !absent() && (paired && paired->ratio.known ? paired->ratio.high : judged()) < must;
  }
  /// "absent", "-" (nothing stated), "below must", "unsure" (the interval holds `must`), "must" or "aim".
  [[nodiscard]] std::string_view verdict() const;
};

struct BenchOptions {
  std::string filter = ".*";  ///< regular expression that a row's name contains
  int threads = 0;            ///< of both sides; 0: one a hardware thread
  int rounds = 5;
  RivalOptions rivals;
};

struct BenchTable {
  std::vector<BenchRow> rows;
  Spread bandwidth_gbs;                 ///< of memory, measured beside the rows, GB/s
  std::string_view bandwidth = "read";  ///< what it is of: "read", or "copy" (bytes read and written)
  int threads = 0;                      ///< 0: of a device
  std::string backend;
  std::vector<std::string> rivals;  ///< names of the libraries that were opened
  std::vector<std::string> notes;   ///< what is absent or makes a figure doubtful
};

/// Runs the rows that the filter names; `progress` hears each name. Throws invalid_argument for a filter that
/// is no expression or names nothing, and for a folder of ggml that holds none.
[[nodiscard]] BenchTable bench_kernels(const BenchOptions& options,
                                       const std::function<void(const std::string&)>& progress);

}  // namespace minite::cli
