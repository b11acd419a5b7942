#pragma once
// Slips of meaning between two lists of log-probs of the same tokens over the same logits. Each detector
// computes what the slip would give from one side and says how well the other side fits.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minite::diagnostics {

/// Ragged log-probs of two sides; sequence i owns tokens [offsets[i], offsets[i + 1]).
struct ScoredTokens {
  std::vector<int64_t> offsets = {0};
  std::vector<int64_t> request;  ///< of each sequence
  std::vector<double> a, b;
  double temperature = 1.0;
  /// Of the logits, which are equal on both sides; empty where a capture does not hold them.
  std::vector<double> lse;        ///< log sum exp(logits / temperature)
  std::vector<double> lse_1;      ///< log sum exp(logits)
  std::vector<double> kept_mass;  ///< probability that top-k and top-p leave
  int64_t only_a = 0,
          only_b = 0;  ///< scored tokens that lie outside what the other side scored of a sequence

  [[nodiscard]] int64_t sequences() const { return static_cast<int64_t>(request.size()); }
};

/// The slips that are tested for.
struct Slip {
  std::string_view name;
  std::string_view evidence;  ///< what is computed, for the documentation
};
[[nodiscard]] std::span<const Slip> slips();

struct SemanticFit {
  std::string_view name;  ///< of the slip
  std::string text;       ///< one sentence with the sides
  int64_t tokens = 0;     ///< tokens that were tested
  double error = 0;       ///< largest |expected - found|
  bool fits = false;
};
/// Every slip that can be tested, in table order; one that says something of either side is tested both ways.
[[nodiscard]] std::vector<SemanticFit> find_slips(const ScoredTokens& tokens);

}  // namespace minite::diagnostics
