#include "rl/contract.h"

#include <fmt/format.h>

#include <charconv>

#include "io/digest.h"

namespace minite::rl {
namespace {

std::string hex(uint64_t digest) { return fmt::format("{:016x}", digest); }

}  // namespace

WeightDigests weight_digests(const Weights& weights) {
  WeightDigests all;
  for (const Parameter& p : weights.parameters()) {
    const int64_t rows = p.spec.rows / p.spec.units;
    for (int64_t unit = 0; unit < p.spec.units; ++unit) {
      const TensorView part = p.weight.slice_rows(unit * rows, rows);
      all[p.spec.name].push_back(
          hex(io::digest64({static_cast<const std::byte*>(part.data),
                            static_cast<size_t>(part.size() * dtype_size(part.dtype))})));
    }
  }
  return all;
}

std::string digest_of(const WeightDigests& digests) {
  std::string text;
  for (const auto& [name, units] : digests) {
    text += name;
    for (const std::string& unit : units) text += " " + unit;
    text += "\n";
  }
  return hex(io::digest64(text));
}

io::Contract numeric_contract(const std::string& recipe, const std::vector<ResolvedLinear>& resolved,
                              KvFormat kv, const std::string& policy) {
  io::Contract c;
  c.recipe = recipe.empty() && !resolved.empty() ? resolved.front().recipe : recipe;
  for (const ResolvedLinear& r : resolved) {
    const bool own = r.module.covered ? r.recipe != c.recipe : r.reason.starts_with("rule");
    if (own) c.recipe_rules[r.module.name] = r.recipe;
  }
  c.kv_format = kv_format(kv).name;
  c.policy = policy;
  return c;
}

double as_written(float x) {
  const std::string text = fmt::format("{}", x);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace minite::rl
