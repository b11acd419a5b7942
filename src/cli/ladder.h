#pragma once
// eval --ladder: what a score loses to the format, and what to the conversion.
#include <string>
#include <vector>

#include "cli/loaded_model.h"
#include "cli/output.h"

namespace minite::cli {

struct LadderArgs {
  LoadOptions load;
  std::string data;                  ///< problems, or ""
  std::string text;                  ///< a text, or ""; one of both is given
  std::string converted;             ///< a folder in codes, or ""
  std::vector<std::string> recipes;  ///< of the rungs after bf16
  SampleParams sample;               ///< of answers
  int64_t limit = 0;                 ///< tokens of the text; 0: all
  ReportStyle style = ReportStyle::text;
};

/// Recipes of a ladder that names none: weights alone, 8-bit and 4-bit activations, 2D blocks.
[[nodiscard]] std::vector<std::string> ladder_recipes();

/// Prints the rungs: BF16, each recipe with the weights that the engine quantizes (online), and with the
/// codes of `converted` (offline), and how far the weights of each layer are from BF16 on both.
int ladder(const LadderArgs& args);

}  // namespace minite::cli
