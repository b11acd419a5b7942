#pragma once
// What a binary of the conformance suite compares with the reference: vector levels, or a device.
#include <string>
#include <string_view>

#include "backends/op_table.h"
#include "conformance/workspace.h"

namespace minite::conformance {

struct Candidate {
  const OpTable* table;  ///< nullptr: not on this machine
  std::string reason;
};
[[nodiscard]] Candidate find_candidate(std::string_view level);

/// Memory that the host and `table` address by the same pointer.
[[nodiscard]] Allocate allocate_for(const OpTable& table);

}  // namespace minite::conformance
