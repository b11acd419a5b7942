// options / parse / name_of for every option enum, over the tables of this room.
#include <tuple>

#include "core/fail.h"
#include "rl/advantage.h"
#include "rl/aggregation.h"
#include "rl/correction.h"
#include "rl/kl.h"
#include "rl/objective.h"
#include "rl/rejection.h"
#include "rl/replay.h"
#include "rl/triage.h"

namespace minite::rl {
namespace {

template <class Rows>
struct Table {
  using Row = typename Rows::value_type;
  std::string_view option;  // the name under which users set it
  const Rows& rows;
};
template <class Rows>
Table(std::string_view, const Rows&) -> Table<Rows>;

// The one list of option tables.
constexpr std::tuple kTables = {
    Table{"adv_estimator", kAdvEstimators},   Table{"loss_mode", kLossModes},
    Table{"loss_agg_mode", kLossAggModes},    Table{"kl_loss_type", kKlLossTypes},
    Table{"rollout_is", kRolloutIs},          Table{"rollout_rs", kRolloutRs},
    Table{"rollout_is outside", kOutOfRange}, Table{"normalization", kNormalizations},
    Table{"gate scope", kGateScopes},         Table{"repair scope", kRepairScopes},
    Table{"router_replay", kRouterReplay},
};

template <class E, std::size_t I = 0>
constexpr const auto& table() {
  using T = std::tuple_element_t<I, decltype(kTables)>;
  if constexpr (std::is_same_v<decltype(T::Row::id), E>) {
    return std::get<I>(kTables);
  } else {
    return table<E, I + 1>();
  }
}

template <class Rows>
[[noreturn]] void unknown(std::string_view option, std::string_view name, const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  const std::string near = nearest_name(name, names);
  fail(ErrorCode::invalid_argument, "{} '{}' is unknown; one of: {}{}", option, name, fmt::join(names, ", "),
       near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
}

}  // namespace

template <class E>
std::vector<Option> options() {
  std::vector<Option> out;
  for (const auto& row : table<E>().rows) out.push_back({row.name, row.definition});
  return out;
}

template <class E>
E parse(std::string_view name) {
  for (const auto& row : table<E>().rows) {
    if (row.name == name) return row.id;
  }
  unknown(table<E>().option, name, table<E>().rows);
}

template <class E>
std::string_view name_of(E value) {
  return row_of(table<E>().rows, value).name;
}

#define MINITE_RL_OPTION(E)                   \
  template std::vector<Option> options<E>();  \
  template E parse<E>(std::string_view name); \
  template std::string_view name_of<E>(E value);
MINITE_RL_OPTION(AdvEstimator)
MINITE_RL_OPTION(LossMode)
MINITE_RL_OPTION(LossAggMode)
MINITE_RL_OPTION(KlLossType)
MINITE_RL_OPTION(RolloutIs)
MINITE_RL_OPTION(RolloutRs)
MINITE_RL_OPTION(OutOfRange)
MINITE_RL_OPTION(Normalization)
MINITE_RL_OPTION(GateScope)
MINITE_RL_OPTION(RepairScope)
MINITE_RL_OPTION(RouterReplay)
#undef MINITE_RL_OPTION

std::span<const ObjectivePreset> objective_presets() { return kObjectives; }

const ObjectivePreset& objective_preset(std::string_view name) {
  for (const ObjectivePreset& row : kObjectives) {
    if (row.name == name) return row;
  }
  unknown("objective", name, kObjectives);
}

}  // namespace minite::rl
