#include <algorithm>

#include "core/fail.h"
#include "diagnostics/align_where.h"

namespace minite::diagnostics {

ScoredTokens scored_tokens(const Aligned& sides) {
  const Capture &a = sides.a, &b = sides.b;
  const Comparison& c = sides.comparison;
  ScoredTokens s;
  s.temperature = a.manifest().contract.temperature > 0 ? a.manifest().contract.temperature : 1.0;
  const auto x = a.values<float>("logprob", io::StoredType::f32),
             y = b.values<float>("logprob", io::StoredType::f32);
  const auto optional = [&](const std::string& name) {
    if (a.find(name) == nullptr) return std::vector<double>{};
    auto values = a.values<double>(name, io::StoredType::f64);
    if (values.size() == a.scored().size()) return values;
    fail(ErrorCode::corrupt_data, "{}/{}: tensor {} has {} entries for {} scored tokens", a.name(),
         a.find(name)->file, name, values.size(), a.scored().size());
  };
  const auto lse = optional("scored.lse"), lse_1 = optional("scored.lse_1"),
             mass = optional("scored.kept_mass");
  std::pair<int64_t, int32_t> sequence{-1, -1};
  for (const auto& [i, j] : c.scored.pairs) {
    const auto at = static_cast<size_t>(i);
    const RowId& row = a.scored()[at];
    if (sequence != std::pair{row.request, row.sample}) {
      sequence = {row.request, row.sample};
      s.request.push_back(row.request);
      s.offsets.push_back(s.offsets.back());
    }
    ++s.offsets.back();
    s.a.push_back(static_cast<double>(x[at]));
    s.b.push_back(static_cast<double>(y[static_cast<size_t>(j)]));
    if (!lse.empty() && !lse_1.empty()) {
      s.lse.push_back(lse[at]);
      s.lse_1.push_back(lse_1[at]);
    }
    if (!mass.empty()) s.kept_mass.push_back(mass[at]);
  }
  // Mass 1 everywhere renormalises nothing.
  if (std::ranges::all_of(s.kept_mass, [](double m) { return m == 1.0; })) s.kept_mass.clear();
  s.only_a = c.scored_only_a, s.only_b = c.scored_only_b;
  return s;
}

}  // namespace minite::diagnostics
