#pragma once
// Experts that lie on several ranks, as one: packed rows by (row, expert), weights by the number of the
// expert.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "diagnostics/capture_manifest.h"
#include "io/safetensors.h"

namespace minite::diagnostics {

/// What one rank stored of a tensor.
struct RankPart {
  const CapturedTensor* about;
  const io::TensorInfo* data;
};
using RankParts = std::vector<RankPart>;  ///< by rising rank

/// Packed rows of the experts of one layer, of all ranks.
struct ExpertTable {
  /// A packed row: which part holds it, and where.
  struct Place {
    size_t part = 0;
    int64_t row = 0;
  };
  std::vector<int32_t> expert, slot;
  std::vector<Place> place;                       ///< of each packed row
  std::vector<std::pair<Place, Place>> repeated;  ///< rows that stand on two ranks: the one kept, the other
  std::vector<int64_t> rank_rows;                 ///< of each part
  std::vector<int64_t> ranks;                     ///< of each part
  /// Experts whose rows were captured, rising; nothing: all of the model.
  std::optional<std::vector<int32_t>> held;
};

/// A tensor made of its parts; `info` views `memory`.
struct UnitedTensor {
  std::vector<std::byte> memory;
  io::TensorInfo info;
};

/// Unites the tables rows.L.expert and rows.L.slot. `rows` is the size of the table `rows`, `k` the experts a
/// token. Errors: corrupt_data that names file and tensor (tables of other lengths, a slot outside of `rows`,
/// a choice or an expert of a row that stands twice on a rank or goes to two experts, an expert that the rank
/// does not hold); not_found (a rank with one of the two tables).
[[nodiscard]] ExpertTable unite_tables(const std::filesystem::path& folder, const RankParts& expert,
                                       const RankParts& slot, int64_t rows, int64_t k);

/// Unites packed rows. Errors: not_found when a rank of the table has no part; corrupt_data for other types,
/// or when a row that stands on two ranks differs.
[[nodiscard]] UnitedTensor unite_rows(const std::filesystem::path& folder, const RankParts& parts,
                                      const ExpertTable& table);

/// The experts that the parts of a weight hold, rising.
[[nodiscard]] std::vector<int32_t> experts_of(const RankParts& parts);
/// Unites a weight, experts by rising number in front. Errors: corrupt_data when a part does not hold as many
/// experts as its manifest says, for other types, or when an expert that is on two ranks differs.
[[nodiscard]] UnitedTensor unite_weight(const std::filesystem::path& folder, const RankParts& parts);

}  // namespace minite::diagnostics
