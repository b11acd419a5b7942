#include "rl/kl.h"

#include <algorithm>
#include <cmath>

#include "rl/ratio.h"

namespace minite::rl {

KlTerm k1_term(double x) { return {-x, 1.0}; }

KlTerm k2_term(double x) { return {0.5 * x * x, -x}; }

KlTerm k3_term(double x) {
  const double bounded = std::clamp(x, -kLogRatioBound, kLogRatioBound);
  // expm1 keeps the digits that exp(x) - 1 loses near 0.
  return {std::expm1(bounded) - bounded, bounded == x ? -std::expm1(x) : 0.0};
}

KlTerm low_var_kl_term(double x) {
  constexpr double kMost = 10.0;  // verl and slime clamp to +-10; the value is never negative
  const KlTerm term = k3_term(x);
  return term.value > kMost ? KlTerm{kMost, 0.0} : term;
}

}  // namespace minite::rl
