#pragma once
// Corrections of the sampler's distribution: a ratio per token (rollout_is) and what happens to a ratio
// outside its range (the threshold). The two tables combine freely:
//   token x truncate = TIS, token x mask = IcePop, sequence x truncate = sequence TIS, sequence x mask,
// and the same for the geometric mean.
// A masked token keeps its place in every denominator.
#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

/// Raw ratios of one response; masked positions of `out` are left alone.
using RatioFn = void (*)(std::span<const double> logp_old, std::span<const double> logp_sampler,
                         std::span<const std::uint8_t> mask, std::span<double> out);
void token_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                 std::span<const std::uint8_t> mask, std::span<double> out);
void sequence_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                    std::span<const std::uint8_t> mask, std::span<double> out);

void geometric_ratio(std::span<const double> logp_old, std::span<const double> logp_sampler,
                     std::span<const std::uint8_t> mask, std::span<double> out);

struct RolloutIsRow {
  RolloutIs id;
  std::string_view name;
  std::string_view definition;
  RatioFn ratio;
  bool applied;  ///< false: the ratio is only measured and the weight stays 1
  /// Mean weight of the update, before rejection, for rollout_is_batch_normalize.
  double (*mean_weight)(const IsSums& sums, const Totals& totals);
};

double token_mean_weight(const IsSums& sums, const Totals& totals);
double response_mean_weight(const IsSums& sums, const Totals& totals);

inline constexpr std::array<RolloutIsRow, 4> kRolloutIs = {{
    {RolloutIs::none, "none", "weight 1; the token ratio is only measured", token_ratio, false,
     token_mean_weight},
    {RolloutIs::token, "token", "rho_t = exp(l_old - l_sampler) of each token", token_ratio, true,
     token_mean_weight},
    {RolloutIs::sequence, "sequence",
     "rho = exp(sum over the response of l_old - l_sampler), for all its tokens", sequence_ratio, true,
     response_mean_weight},
    {RolloutIs::geometric, "geometric",
     "rho = exp(mean over the response of l_old - l_sampler), for all its tokens; does not grow with the "
     "length",
     geometric_ratio, true, response_mean_weight},
}};
static_assert(rows_in_enum_order(kRolloutIs));

double truncate_ratio(double ratio, const IsThreshold& threshold);
double mask_ratio(double ratio, const IsThreshold& threshold);

struct OutOfRangeRow {
  OutOfRange id;
  std::string_view name;
  std::string_view definition;
  double (*weight)(double ratio, const IsThreshold& threshold);
};

inline constexpr std::array<OutOfRangeRow, 2> kOutOfRange = {{
    {OutOfRange::truncate, "truncate", "clamp(rho, low, high) (TIS)", truncate_ratio},
    {OutOfRange::mask, "mask", "rho inside [low, high], else 0; the denominator keeps the token (IcePop)",
     mask_ratio},
}};
static_assert(rows_in_enum_order(kOutOfRange));

}  // namespace minite::rl
