#pragma once
// The semantic contract: what a log-prob means and which numerics made it. Travels with rollouts and
// captures.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace minite::io {

struct Contract {
  double temperature = 1.0;                   ///< that logits are divided by, before the softmax
  int64_t top_k = 0;                          ///< of drawing; 0: all
  double top_p = 1.0;                         ///< of drawing
  std::string logprob_mode = "full_softmax";  ///< whatever top_k and top_p leave out of drawing
  int64_t score_shift = 1;  ///< the row at position p scores the token at position p + score_shift
  int64_t weight_version = 0;
  std::string weights_digest;  ///< XXH64 of all parameters of that version, 16 hexadecimal digits
  std::string recipe;
  std::map<std::string, std::string> recipe_rules;  ///< module -> recipe, where it is not `recipe`'s
  std::string kv_format;
  std::string replay = "off";  ///< whose experts were taken: off, R2 or R3
  std::string policy;

  friend bool operator==(const Contract&, const Contract&) = default;
};

[[nodiscard]] nlohmann::ordered_json to_json(const Contract& contract);
/// Error: corrupt_data that names `file` and the field that is missing or of another type.
[[nodiscard]] Contract contract_from_json(const nlohmann::json& object, const std::string& file);

/// A field in which two contracts differ.
struct ContractDifference {
  std::string field, a, b;
  bool comparable = false;  ///< a cause of different bits (recipe, kv_format, policy), not of other meaning
};
/// In the order of the fields.
[[nodiscard]] std::vector<ContractDifference> contract_differences(const Contract& a, const Contract& b);

}  // namespace minite::io
