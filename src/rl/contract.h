#pragma once
// The semantic contract of one side: io/contract.h filled from its configuration and its weights.
#include <map>
#include <string>
#include <vector>

#include "io/contract.h"
#include "minite/kv_format.h"
#include "model/weights.h"

namespace minite::rl {

/// XXH64 of the bytes of each parameter by name, 16 hexadecimal digits, one for each of its units (experts).
using WeightDigests = std::map<std::string, std::vector<std::string>>;
[[nodiscard]] WeightDigests weight_digests(const Weights& weights);
/// XXH64 over all of them with their names.
[[nodiscard]] std::string digest_of(const WeightDigests& digests);

/// Recipe, rules, format of keys and values and policy; drawing, replay and weights are the caller's.
[[nodiscard]] io::Contract numeric_contract(const std::string& recipe,
                                            const std::vector<ResolvedLinear>& resolved, KvFormat kv,
                                            const std::string& policy);

/// The double with the shortest text that reads back as `x`: 0.7, not 0.699999988.
[[nodiscard]] double as_written(float x);

}  // namespace minite::rl
