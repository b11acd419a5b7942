#pragma once
// Table of router replay: which recording of experts the learner's passes take.
#include <array>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

struct RouterReplayRow {
  RouterReplay id;
  std::string_view name;
  std::string_view definition;
  bool old_pass;  ///< the pass for l_old takes the sampler's experts
  bool updates;   ///< update passes take those that the pass for l_old took
};

inline constexpr std::array<RouterReplayRow, 3> kRouterReplay = {{
    {RouterReplay::off, "off", "every pass routes by its own scores", false, false},
    {RouterReplay::R2, "R2", "updates take the experts of the pass for l_old (arXiv:2507.18071)", false,
     true},
    {RouterReplay::R3, "R3", "the pass for l_old and updates take the sampler's experts (arXiv:2510.11370)",
     true, true},
}};
static_assert(rows_in_enum_order(kRouterReplay));

}  // namespace minite::rl
