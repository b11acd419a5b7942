#pragma once
// Where a gap lies: tails, regions, segments, concentration, outliers. Averages can hide all of these. Pure
// functions of a batch; x = lO - lS over valid tokens, before any rejection mask.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "minite/rl.h"

namespace minite::rl {

inline constexpr std::array kTailQuantiles = {0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999};
inline constexpr std::array kTailBounds = {0.1, 0.5, 1.0};  ///< nats
inline constexpr std::array kTopShares = {0.01, 0.05};
inline constexpr std::array<std::int64_t, 2> kSegmentSizes = {64, 128};  ///< TRIAGE's Gate and Repair

struct GapTails {
  std::array<double, kTailQuantiles.size()> quantile{};  ///< of x at kTailQuantiles
  std::array<double, kTailBounds.size()> above{};        ///< share of tokens with |x| > kTailBounds[i]
  double negative_depth = 0.0;                           ///< -q0.05, the report's negative-tail depth
};

/// One quadrant of (sign of A, sign of x). Tokens with A = 0 or x = 0 lie in none.
struct GapRegion {
  double share = 0.0;             ///< of sum |A|; 0 when no A is set
  double share_normalized = 0.0;  ///< of sum |A| / n_i, n_i the valid tokens of the response
  std::int64_t tokens = 0;
};

/// An update moves log-probs along A: in neg_neg and pos_pos it widens the gap of its own token, in the other
/// two it closes it.
struct GapRegions {
  GapRegion neg_neg, neg_pos, pos_neg, pos_pos;  ///< sign of A, then sign of x
  double rho_asym = 0.0;             ///< sum |A| [A<0, x<0] / sum |A| [A>0, x>0]; inf over 0, NaN for 0 / 0
  double rho_asym_normalized = 0.0;  ///< the same of |A| / n_i
};

/// Valid tokens of one window of fixed positions of one response.
struct GapSegment {
  std::int64_t response = 0;
  std::int64_t begin = 0, end = 0;  ///< positions in the response
  std::int64_t tokens = 0;          ///< valid ones
  double mean = 0.0, abs_mean = 0.0, abs_max = 0.0;
  double advantage = 0.0;  ///< mean
  std::int64_t tail = 0;   ///< amplifying tail tokens: A < 0 and x < the tail's threshold
};

struct GapSegments {
  std::int64_t size = 0;          ///< positions of a window; the last one of a response may be shorter
  std::vector<GapSegment> items;  ///< by response, then position; windows without a valid token left out
  double q05 = 0.0, q50 = 0.0;    ///< quantiles of the mean x of a segment
  double lowest = 0.0;            ///< lowest mean x
  double heavy = 0.0;             ///< H_seg: share of segments with more than 10 % amplifying tail tokens
  double tail_in_top = 0.0;  ///< C_tok: share of these tokens in the 5 % of segments that hold most; NaN for
                             ///< none
};

struct GapTail {
  double threshold = 0.0;  ///< nats
  double fraction = 0.0;   ///< r_amp: share of valid tokens that are amplifying tail tokens
  double adjacent = 0.0;  ///< P_adj: of those with a next valid token in their response, the share whose next
                          ///< one is in the tail too; NaN for none
};

/// Share of sum |x| that the largest items carry: ceil(share * count) of them. 0 when the gap is 0.
struct GapConcentration {
  std::array<double, kTopShares.size()> tokens{};     ///< at kTopShares, tokens by |x|
  std::array<double, kTopShares.size()> responses{};  ///< responses by their sum of |x|
};

/// One response with a valid token.
struct GapResponse {
  std::int64_t response = 0;
  std::int64_t tokens = 0;
  double mean = 0.0, abs_mean = 0.0, abs_max = 0.0;
  double advantage = 0.0;  ///< mean over its valid tokens
};

struct GapDetails {
  GapTails tails;
  GapRegions regions;
  GapTail tail;
  std::array<GapSegments, kSegmentSizes.size()> segments;
  GapConcentration concentration;
  std::vector<GapResponse> responses;  ///< in order
  std::int64_t outliers = 0;           ///< responses that is_outlier() names
};

/// Largest mean |x| of a response in nats a token, and over the median response. The reported outliers were
/// 100 to 670 times the mean; 4-bit sampling alone gives short responses 20 times the median.
inline constexpr double kOutlierGap = 0.5, kOutlierAlarm = 50.0;
/// Whether a response with mean |x| = `abs_mean` stands out among responses with this median.
[[nodiscard]] inline bool is_outlier(double abs_mean, double median) {
  return abs_mean > kOutlierGap && abs_mean > kOutlierAlarm * median;
}

/// `tail_threshold` is where the tail begins, in nats; empty: q0.05 of the batch itself. Throws as
/// gap_stats().
[[nodiscard]] GapDetails gap_details(const Batch& batch, std::optional<double> tail_threshold = {});

/// The windows of `size` positions of every response, with the tail below `threshold`.
[[nodiscard]] GapSegments gap_segments(const Batch& batch, std::int64_t size, double threshold);

/// The share of the sum of `values` (>= 0, any order) that the ceil(share * n) largest carry; 0 when all are
/// 0.
[[nodiscard]] double top_share(std::vector<double> values, double share);

}  // namespace minite::rl
