#include "io/contract.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/fail.h"

namespace minite::io {
namespace {

/// Fields whose difference makes other bits of the same meaning.
constexpr std::array<std::string_view, 4> kComparable = {"recipe", "recipe_rules", "kv_format", "policy"};

template <class T>
void read(const nlohmann::json& object, const char* field, const std::string& file, T& to) {
  const auto it = object.find(field);
  if (it == object.end()) fail(ErrorCode::corrupt_data, "{}: the contract has no field {}", file, field);
  try {
    it->get_to(to);
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::corrupt_data, "{}: contract.{} is {}, which is of another type", file, field, it->dump());
  }
}

/// A field in words. Of a map, the first entry that `other` has not, and how many there are.
std::string text_of(const nlohmann::ordered_json& value, const nlohmann::ordered_json& other) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return value.dump();
  std::string first;
  int64_t count = 0;
  for (const auto& [module, recipe] : value.items()) {
    if (other.contains(module) && other[module] == recipe) continue;
    if (count++ == 0) first = fmt::format("{} {}", module, recipe.get<std::string>());
  }
  if (count < 2) return count == 0 ? "none" : first;
  return fmt::format("{} and {} more", first, count - 1);
}

}  // namespace

nlohmann::ordered_json to_json(const Contract& c) {
  return {{"temperature", c.temperature},
          {"top_k", c.top_k},
          {"top_p", c.top_p},
          {"logprob_mode", c.logprob_mode},
          {"score_shift", c.score_shift},
          {"weight_version", c.weight_version},
          {"weights_digest", c.weights_digest},
          {"recipe", c.recipe},
          {"recipe_rules", c.recipe_rules},
          {"kv_format", c.kv_format},
          {"replay", c.replay},
          {"policy", c.policy}};
}

Contract contract_from_json(const nlohmann::json& object, const std::string& file) {
  if (!object.is_object()) fail(ErrorCode::corrupt_data, "{}: there is no contract", file);
  Contract c;
  read(object, "temperature", file, c.temperature);
  read(object, "top_k", file, c.top_k);
  read(object, "top_p", file, c.top_p);
  read(object, "logprob_mode", file, c.logprob_mode);
  read(object, "score_shift", file, c.score_shift);
  read(object, "weight_version", file, c.weight_version);
  read(object, "weights_digest", file, c.weights_digest);
  read(object, "recipe", file, c.recipe);
  if (object.contains("recipe_rules")) read(object, "recipe_rules", file, c.recipe_rules);
  read(object, "kv_format", file, c.kv_format);
  read(object, "replay", file, c.replay);
  read(object, "policy", file, c.policy);
  return c;
}

std::vector<ContractDifference> contract_differences(const Contract& a, const Contract& b) {
  const nlohmann::ordered_json left = to_json(a), right = to_json(b);
  std::vector<ContractDifference> all;
  for (const auto& [field, value] : left.items()) {
    if (value == right[field]) continue;
    all.push_back({field, text_of(value, right[field]), text_of(right[field], value),
                   std::ranges::count(kComparable, field) > 0});
  }
  return all;
}

}  // namespace minite::io
