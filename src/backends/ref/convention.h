#pragma once
// Quantizing by the rules of a convention: MX formats, simulated formats, and NVFP4 under every convention
// but te. The steps are in formats/nvfp4_rules.h and formats/mx_rules.h; here they run over rows and blocks.
// Other backends call these functions for rows of their own.
#include "backends/ref/quantize.h"
#include "formats/mx_rules.h"
#include "formats/nvfp4_rules.h"

namespace minite::ref {

/// Whether a spec's bytes come from here: everything but NVFP4 under te.
[[nodiscard]] bool by_rule(const QuantSpec& spec);
/// Whether all rows share one outer scale.
[[nodiscard]] bool shares_outer(const QuantSpec& spec);

/// Outer scale of the domain that starts at row r, from its amax; written to `out`.
PeerOuter store_outer(const QuantizeArgs& args, int64_t r, float amax);
/// Rows [begin, end) of the output. `shared` is the outer scale when rows share one.
void quantize_rows(const QuantizeArgs& args, const PeerOuter& shared, int64_t begin, int64_t end);
void quantize_by_rule(const QuantizeArgs& args);

/// A row of codes, decoded in the convention's order.
class DecodeRow {
 public:
  DecodeRow(const QTensor& q, int64_t row);
  [[nodiscard]] float value(int64_t col) const;

 private:
  const QTensor& q_;
  int64_t row_;
  float stored_;
  const float* amax_;  ///< of te
  const Nvfp4Rule* rule_;
  PeerContext context_;
};

}  // namespace minite::ref
