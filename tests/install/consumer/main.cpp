// What a program outside the project can do with the public headers alone. Exits 0 when all is as promised.
#include <cmath>
#include <iostream>
#include <vector>

#include "minite/error.h"
#include "minite/format.h"
#include "minite/model.h"
#include "minite/recipe.h"
#include "minite/rl.h"
#include "minite/version.h"

namespace {

int failures = 0;

void expect(bool condition, const char* what) {
  std::cout << (condition ? "ok      " : "FAILED  ") << what << '\n';
  failures += condition ? 0 : 1;
}

void tables() {
  for (const minite::RecipeSpec& recipe : minite::recipes())
    std::cout << recipe.name << ": " << recipe.purpose << '\n';
  for (const minite::Format& format : minite::formats())
    std::cout << format.name << ": " << format.layout << '\n';
  expect(!minite::recipes().empty() && !minite::formats().empty(), "the tables have rows");
  expect(minite::get_qlinear_params("nvfp4_per_token").row_local(), "nvfp4_per_token is row local");
}

void rules() {
  const auto rules = minite::parse_rules("rules:\n  - {match: layers.*.o, recipe: bf16}\n", "rules.yaml");
  const std::vector<minite::LinearModule> modules = {{"layers.0.o", 0, 64, 64, true}};
  const auto resolved = minite::resolve("nvfp4_per_token", rules, modules, 1);
  expect(resolved.size() == 1 && resolved[0].recipe == "bf16", "a rule overrides the base recipe");
}

void triage() {
  // Two responses of two tokens; the learner is far below the sampler on the second, which is a bad one.
  const std::vector<double> sampler = {-1.0, -1.0, -1.0, -1.0};
  const std::vector<double> old_logp = {-1.0, -1.0, -3.0, -3.0};
  const std::vector<double> advantage = {1.0, 1.0, -1.0, -1.0};
  const std::vector<std::uint8_t> mask = {1, 1, 1, 1};
  const std::vector<std::int64_t> offsets = {0, 2, 4};
  minite::rl::Batch batch;
  batch.offsets = offsets;
  batch.logp_old = old_logp;
  batch.logp_sampler = sampler;
  batch.advantage = advantage;
  batch.mask = mask;
  expect(std::abs(minite::rl::gap_stats(batch).abs_mean - 1.0) < 1e-12, "the gap is measured");
  minite::rl::LossConfig config;
  config.triage.gate.enable = true;
  config.triage.gate.scope = minite::rl::GateScope::whole;
  const auto prepared = minite::rl::prepare(batch, config);
  expect(prepared.gate_units[0] == 100 && prepared.gate_units[2] == 10,
         "TRIAGE's gate attenuates the outlier");
}

void errors() {
  try {
    (void)minite::get_recipe("nvfp4_per_tokn");
    expect(false, "an unknown recipe throws");
  } catch (const minite::Error& error) {
    std::cout << error.what() << '\n';
    expect(error.code() == minite::ErrorCode::not_found, "an unknown recipe throws not_found");
  }
}

}  // namespace

int main() {
  std::cout << "minite " << MINITE_VERSION_STRING << '\n';
  tables();
  rules();
  triage();
  errors();
  return failures == 0 ? 0 : 1;
}
