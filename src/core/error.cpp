#include "minite/error.h"

#include <array>

namespace minite {
namespace {
struct Row {
  std::string_view name;
  int exit_code;
};
constexpr std::array<Row, 8> kRows = {{{"invalid_argument", 2},
                                       {"unsupported", 2},
                                       {"not_found", 2},
                                       {"corrupt_data", 2},
                                       {"io", 3},
                                       {"non_finite", 3},
                                       {"resource", 3},
                                       {"internal", 3}}};
}  // namespace

int Error::exit_code() const noexcept { return kRows[static_cast<size_t>(code_)].exit_code; }

std::string_view to_string(ErrorCode code) noexcept { return kRows[static_cast<size_t>(code)].name; }

}  // namespace minite
