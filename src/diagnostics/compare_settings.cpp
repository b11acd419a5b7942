#include "diagnostics/compare_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

namespace minite::diagnostics {
namespace {

/// Settings that must agree for something to be comparable. A key that ends in a dot stands for all below it.
struct Contract {
  std::string_view sentence;
  std::array<std::string_view, 6> keys;
};
constexpr Contract kContracts[] = {
    {"Seeds differ, so part of every difference is noise", {"seed"}},
    {"The problems differ, so rewards are of different tasks", {"data."}},
    {"The models differ", {"model.", "init"}},
    {"The sampled distribution differs, so gaps and rewards are of different distributions",
     {"rl.temperature", "rl.top_k", "rl.top_p", "max_length"}},
    {"The warm-up differs, so the runs start RL from different weights", {"sft."}},
    {"Batches or learning rates differ, so steps are of different size",
     {"rl.lr", "rl.lr_end", "rl.warmup_steps", "rl.train_batch_size", "rl.n", "rl.ppo_"}},
};

constexpr std::array<std::string_view, 5> kWithoutEffect = {"threads", "tensorboard", "checkpoint_every",
                                                            "probe", "probe_rules"};

bool is_one_of(std::string_view key, std::span<const std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool belongs(const Contract& contract, std::string_view key) {
  return std::any_of(contract.keys.begin(), contract.keys.end(), [&](std::string_view k) {
    const bool prefix = k.ends_with('.') || k.ends_with('_');
    return !k.empty() && (prefix ? key.starts_with(k) : key == k);
  });
}

// "80 in A, B; 50 in C".
template <class Value>
std::string by_value(const std::map<Value, std::vector<std::string>>& users) {
  std::vector<std::string> parts;
  for (const auto& [value, letters] : users)
    parts.push_back(fmt::format("{} in {}", value, fmt::join(letters, ", ")));
  return fmt::format("{}", fmt::join(parts, "; "));
}

void add_contracts(const std::vector<SettingRow>& settings, std::vector<std::string>& out) {
  for (const Contract& contract : kContracts) {
    std::vector<std::string> keys;
    for (const SettingRow& row : settings) {
      if (row.differs() && belongs(contract, row.key)) keys.push_back(row.key);
    }
    if (!keys.empty()) out.push_back(fmt::format("{} ({}).", contract.sentence, list_of(keys)));
  }
}

/// What ran, rather than what was asked for: keys of summary.json.
struct Execution {
  const char* key;
  std::string_view title;
};
constexpr Execution kExecution[] = {{"version", "miniTE's version"},
                                    {"backend", "The backend"},
                                    {"policy", "The plan policy"},
                                    {"device", "The device"}};

void add_execution(const std::vector<Compared>& runs, std::vector<std::string>& out) {
  for (const Execution& row : kExecution) {
    std::map<std::string, std::vector<std::string>> users;
    for (const Compared& c : runs) {
      const auto& summary = c.run->summary;
      if (summary.is_object() && summary.contains(row.key) && summary[row.key].is_string())
        users[summary[row.key].get<std::string>()].push_back(c.letter);
    }
    if (users.size() > 1) out.push_back(fmt::format("{} differs: {}.", row.title, by_value(users)));
  }
}

void add_lengths(const std::vector<Compared>& runs, std::vector<std::string>& out) {
  std::map<int64_t, std::vector<std::string>> users;
  std::vector<std::string> without;
  for (const Compared& c : runs) {
    const auto it = c.numbers.stage_steps.find("rl");
    if (it == c.numbers.stage_steps.end()) {
      without.push_back(c.label());
    } else {
      users[it->second].push_back(c.letter);
    }
  }
  if (!without.empty()) out.push_back(fmt::format("There is no RL step in {}.", list_of(without)));
  if (users.size() > 1)
    out.push_back(fmt::format("The RL stages have different lengths ({} steps): compare at equal steps.",
                              by_value(users)));
}

// What a clean comparison looks like: a few settings that the reader can hold in mind.
void add_verdict(const std::vector<SettingRow>& settings, std::vector<std::string>& out) {
  constexpr size_t kFew = 3;
  std::vector<std::string> keys;
  for (const SettingRow& row : settings) {
    if (row.differs() && !is_one_of(row.key, kWithoutEffect)) keys.push_back(row.key);
  }
  if (keys.empty()) {
    out.emplace_back("No setting that changes a number differs: these are repetitions of one run.");
  } else if (keys.size() <= kFew) {
    out.push_back(fmt::format("Only {} differ{}; every other setting that changes a number is equal.",
                              list_of(keys), keys.size() == 1 ? "s" : ""));
  }
}

}  // namespace

bool SettingRow::differs() const {
  return std::any_of(values.begin(), values.end(), [&](const auto& v) { return v != values.front(); });
}

std::vector<SettingRow> all_settings(const std::vector<Compared>& runs) {
  std::vector<SettingRow> rows;
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [key, value] : runs[i].run->config_settings) {
      const auto [it, added] = place.emplace(key, rows.size());
      if (added) rows.push_back({key, std::vector<std::optional<std::string>>(runs.size())});
      rows[it->second].values[i] = value;
    }
  }
  return rows;
}

std::vector<std::string> cautions(const std::vector<Compared>& runs,
                                  const std::vector<SettingRow>& settings) {
  std::vector<std::string> out;
  std::vector<std::string> unknown;
  for (const Compared& c : runs) {
    if (c.run->config_settings.empty()) unknown.push_back(c.label());
  }
  if (!unknown.empty()) out.push_back(fmt::format("The settings of {} are not known.", list_of(unknown)));
  if (unknown.empty() && runs.size() > 1) add_verdict(settings, out);
  add_contracts(settings, out);
  add_execution(runs, out);
  add_lengths(runs, out);
  return out;
}

}  // namespace minite::diagnostics
