#pragma once
// Table of advantage estimators: one row, one pure function on the rewards of one group.
#include <array>
#include <span>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

void grpo_group(std::span<const double> centred, std::span<double> out);
void dr_grpo_group(std::span<const double> centred, std::span<double> out);

struct AdvEstimatorRow {
  AdvEstimator id;
  std::string_view name;
  std::string_view definition;
  /// From rewards minus their group mean (not all equal) to advantages; may work in place.
  void (*compute)(std::span<const double> centred, std::span<double> out);
};

inline constexpr std::array<AdvEstimatorRow, 2> kAdvEstimators = {{
    {AdvEstimator::grpo, "grpo",
     "A = (R - mean) / (std + 1e-6) within the group of a prompt, std unbiased (G - 1)", grpo_group},
    {AdvEstimator::dr_grpo, "dr_grpo", "A = R - mean within the group of a prompt", dr_grpo_group},
}};
static_assert(rows_in_enum_order(kAdvEstimators));

}  // namespace minite::rl
