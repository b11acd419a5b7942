#pragma once
// Replays of a kernel and of its rival, round by round.
#include <algorithm>

#include "backends/cuda/timing.h"
#include "cli/bench/cublas.h"
#include "cli/bench/kernels.h"

namespace minite::cli {

/// Seconds of both sides; theirs is empty without a rival.
struct Sides {
  std::vector<double> ours, theirs, ratios;
};
inline Sides alternate(cuda::Replay& ours, cuda::Replay* theirs, int rounds) {
  const auto times = [](cuda::Replay& r) {
    return std::max(1, static_cast<int>(0.02 / (r.seconds(1) * 20)));
  };
  const int our_times = times(ours), their_times = theirs == nullptr ? 0 : times(*theirs);
  Sides sides;
  for (int i = 0; i < rounds; ++i) {
    sides.ours.push_back(ours.seconds(our_times));
    if (theirs == nullptr) continue;
    sides.theirs.push_back(theirs->seconds(their_times));
    sides.ratios.push_back(sides.theirs.back() / sides.ours.back());
  }
  return sides;
}

inline Spread in_us(const std::vector<double>& seconds) {
  const Spread s = spread(seconds);
  return {s.median * 1e6, s.least * 1e6, s.most * 1e6};
}

/// A row of times in us. `moved` bytes are compulsory; `copy_rate` is in bytes a second.
inline BenchRow row_of(const char* name, const Sides& sides, Cublas* cublas, double moved, double copy_rate) {
  BenchRow row;
  row.name = name;
  row.unit = "us";
  row.rival = RivalId::cublas_bf16;
  row.against = cublas == nullptr ? "absent" : cublas->name();
  row.ours = in_us(sides.ours);
  if (!sides.theirs.empty()) {
    row.theirs = in_us(sides.theirs);
    row.ratio = spread(sides.ratios);
  }
  row.ceiling = moved / spread(sides.ours).median / copy_rate;
  return row;
}

}  // namespace minite::cli
