#pragma once
// Table of KL penalties against a frozen reference. As in verl and slime the log-ratio is reversed here,
// x = l_ref - l, so that every row estimates KL(policy || reference) from the policy's samples.
#include <array>
#include <string_view>

#include "minite/rl.h"
#include "rl/table.h"

namespace minite::rl {

/// Penalty of one token and its derivative with respect to the live log-prob.
struct KlTerm {
  double value = 0.0;
  double gradient = 0.0;
};

KlTerm k1_term(double x);
KlTerm k2_term(double x);
KlTerm k3_term(double x);
KlTerm low_var_kl_term(double x);

struct KlLossRow {
  KlLossType id;
  std::string_view name;
  std::string_view definition;
  KlTerm (*term)(double x);  ///< x = l_ref - l
};

inline constexpr std::array<KlLossRow, 4> kKlLossTypes = {{
    {KlLossType::k1, "k1", "l - l_ref (unbiased; its gradient is 0 on average)", k1_term},
    {KlLossType::k2, "k2", "(l - l_ref)^2 / 2", k2_term},
    {KlLossType::k3, "k3", "exp(x) - x - 1 with x = l_ref - l clamped to +-20", k3_term},
    {KlLossType::low_var_kl, "low_var_kl", "k3, clamped to at most 10", low_var_kl_term},
}};
static_assert(rows_in_enum_order(kKlLossTypes));

}  // namespace minite::rl
