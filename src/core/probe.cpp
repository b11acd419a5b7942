#include "core/probe.h"

namespace minite {

std::string_view to_string(Point point) {
  constexpr std::string_view kNames[] = {"input", "weight", "output", "grad_output", "grad_input"};
  return kNames[static_cast<size_t>(point)];
}

}  // namespace minite
