#pragma once
// Which settings of several runs differ, and what that means for a comparison.
#include <optional>
#include <string>
#include <vector>

#include "diagnostics/compared.h"

namespace minite::diagnostics {

/// One setting of config.yaml in every run; nothing where a run does not have it.
struct SettingRow {
  std::string key;
  std::vector<std::optional<std::string>> values;
  [[nodiscard]] bool differs() const;
};

/// All settings in the order of the first run's file, then those that only others have.
[[nodiscard]] std::vector<SettingRow> all_settings(const std::vector<Compared>& runs);

/// Sentences on what keeps the numbers from being compared, or that nothing does.
[[nodiscard]] std::vector<std::string> cautions(const std::vector<Compared>& runs,
                                                const std::vector<SettingRow>& settings);

}  // namespace minite::diagnostics
