#pragma once
// Helpers shared by the option tables of this room. A row type has members id, name and definition.
#include <array>
#include <cstddef>

namespace minite::rl {

/// True when row i describes enum value i, so that a table can be indexed by its enum.
template <class Row, std::size_t N>
constexpr bool rows_in_enum_order(const std::array<Row, N>& rows) {
  for (std::size_t i = 0; i < N; ++i) {
    if (static_cast<std::size_t>(rows[i].id) != i) return false;
  }
  return true;
}

template <class Row, std::size_t N, class E>
constexpr const Row& row_of(const std::array<Row, N>& rows, E value) {
  return rows.at(static_cast<std::size_t>(value));
}

}  // namespace minite::rl
