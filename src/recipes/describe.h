#pragma once
// What a recipe does, as plain values and as text. Numbers and names come from the tables only.
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minite/recipe.h"

namespace minite {

/// One operand of one product.
struct OperandDescription {
  std::string_view operand;  ///< "x", "w^T", "dy"
  std::string_view shape;    ///< "[M,K]"; the last dimension is the contracted one
  QuantSpec spec;
  std::string scale_domain;  ///< "blocks of 16 along K (e4m3), one outer FP32 scale a row", "none"
  std::string_view source;   ///< "given by the caller", "saved original", "decoded forward codes"
  std::string_view layout;   ///< bytes, from the format table
};

/// One product of a linear layer.
struct ProductDescription {
  std::string_view pass;        ///< "fprop", "dgrad", "wgrad"
  std::string_view equation;    ///< "y[M,N] = x[M,K] w[N,K]^T"
  std::string_view contracted;  ///< "K", "N", "M"
  std::array<OperandDescription, 2> operands;
};

/// Everything `describe` says about a recipe without a model.
struct RecipeDescription {
  const RecipeSpec* recipe = nullptr;  ///< a row of recipes()
  std::array<ProductDescription, 3> products;
  bool row_local = false;
  std::string_view batch_invariance;        ///< one sentence
  std::vector<std::string> te_differences;  ///< where the nearest Transformer Engine recipe differs
};

[[nodiscard]] RecipeDescription describe(const RecipeSpec& recipe);
/// Several lines, each ended by a newline.
[[nodiscard]] std::string to_text(const RecipeDescription& description);

/// How much of a model is quantized.
struct Coverage {
  int64_t parameters = 0;  ///< of all linear layers, biases not counted
  int64_t quantized = 0;   ///< of those whose fprop reads quantized weights
  [[nodiscard]] double percent() const;
};
[[nodiscard]] Coverage coverage(std::span<const ResolvedLinear> layers);

}  // namespace minite
