#pragma once
// Figures of the miniTE technical report, section 2.3, to stand beside one's own. None of them has an outer
// scale.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace minite::diagnostics {

/// Errors of one pair of element and block scale; NaN where the report gives no figure.
struct PublishedRow {
  std::string_view element, scale;
  double snr_db, worst_snr_db, mae, relative_l2;
};

struct PublishedTable {
  std::string_view name;    ///< "real inputs"
  std::string_view source;  ///< where it stands
  std::span<const PublishedRow> rows;

  /// The row of a pair, nullptr when the table has none.
  [[nodiscard]] const PublishedRow* find(std::string_view element, std::string_view scale) const;
};

/// QKV inputs of 36 layers, means over layers.
[[nodiscard]] const PublishedTable& published_real_inputs();
/// The two simulated batches: exponent widths, mantissa widths.
[[nodiscard]] std::span<const PublishedTable> published_batches();

/// A pair of element and scale with its SNR.
struct RankedFormat {
  std::string element, scale;
  double snr_db = 0;
};

/// Best first; NaN last; equal values keep their order.
[[nodiscard]] std::vector<RankedFormat> ranked(std::vector<RankedFormat> formats);
/// "E2M4+E8M0 > E2M4+E4M3 = ..."; "=" between equal values.
[[nodiscard]] std::string order_text(const std::vector<RankedFormat>& best_first);
/// Pairs (a, b) that `ours` has in the order a > b and `theirs` in the order b > a, both strictly. Formats
/// that only one side has do not count.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> pairs_in_another_order(
    const std::vector<RankedFormat>& ours, const std::vector<RankedFormat>& theirs);

}  // namespace minite::diagnostics
