#pragma once
// The order in which a forward pass computes what a capture holds.
#include <string_view>
#include <tuple>

namespace minite::diagnostics {

/// Sorts points: the embedding, each layer, the head.
using PointOrder = std::tuple<int, int, int, int>;
[[nodiscard]] PointOrder point_order(int layer, std::string_view module, std::string_view point);

}  // namespace minite::diagnostics
