#pragma once
// Recipes: named choices of formats for the three products of a linear layer.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "minite/format.h"

namespace minite {

/// Where a backward product takes an operand that the forward pass also used.
enum class OperandSource : uint8_t {
  saved_original,  ///< the high precision tensor, quantized anew along the contracted dimension if quantized
  dequantized,     ///< the decoded forward codes (outer scale applied, rounded to BF16)
};
[[nodiscard]] std::string_view to_string(OperandSource source);

/// One product of a linear layer: the formats of its two operands, always quantized along the
/// contracted dimension.
struct MatmulSpec {
  QuantSpec a;  ///< fprop: x [M,K]; dgrad: dy [M,N]; wgrad: dy^T [N,M]
  QuantSpec b;  ///< fprop: w [N,K]; dgrad: w^T [K,N]; wgrad: x^T [K,M]
  OperandSource source = OperandSource::saved_original;  ///< of w in dgrad and of x in wgrad

  friend constexpr bool operator==(const MatmulSpec&, const MatmulSpec&) = default;
};

/// Numerics of one linear layer: everything a module needs to know; it never sees a recipe name.
struct QLinearParams {
  MatmulSpec fprop;  ///< y[M,N] = x[M,K] w[N,K]^T
  MatmulSpec dgrad;  ///< dx[M,K] = dy[M,N] w[N,K]
  MatmulSpec wgrad;  ///< dw[N,K] = dy[M,N]^T x[M,K]

  friend constexpr bool operator==(const QLinearParams&, const QLinearParams&) = default;
  /// Throws invalid_argument when the fields contradict each other.
  void validate() const;
  /// Whether a row of the forward output depends on that row of x only (no tensor-wide activation scale).
  [[nodiscard]] bool row_local() const;
};

/// What a recipe is for.
enum class RecipeGroup : uint8_t { common, reference, experimental };
[[nodiscard]] std::string_view to_string(RecipeGroup group);

/// One row of the recipe table.
struct RecipeSpec {
  std::string_view name;
  RecipeGroup group;
  std::string_view purpose;        ///< one sentence
  std::string_view te_equivalent;  ///< the Transformer Engine recipe that comes nearest; empty: there is none
  QLinearParams params;
  std::string_view alias = {};  ///< a second name that finds the row, or empty
};

/// All recipes in table order. Needs no device.
[[nodiscard]] std::span<const RecipeSpec> recipes();
/// The row named `name` (or so aliased); throws not_found and offers the nearest name.
[[nodiscard]] const RecipeSpec& get_recipe(std::string_view name);
/// Parameters of the recipe `name`; an empty name means MINITE_RECIPE, else "bf16".
[[nodiscard]] QLinearParams get_qlinear_params(std::string_view name = {});

/// A linear layer as rules see it.
struct LinearModule {
  std::string name;     ///< "layers.3.qkv"
  int layer = -1;       ///< -1 outside the layers
  int64_t n = 0;        ///< output features
  int64_t k = 0;        ///< input features
  bool covered = true;  ///< false for modules that stay high precision by default (lm_head, router)
  int64_t count = 1;    ///< weights of this shape that share the name and the recipe: experts
};

/// The numerics that a module got, and why.
struct ResolvedLinear {
  LinearModule module;
  std::string recipe;  ///< name of the winning recipe
  std::string reason;  ///< "base recipe", "rule 2 (layers.*.o, layers 0,-2..-1)", "stays high precision"
  QLinearParams params;
};

/// One line of a rule file: modules that match take another recipe. The last match wins.
struct Rule {
  std::string match = "*";  ///< glob on the module name: * any run, ? one character
  std::vector<int> layers;  ///< begin,end pairs (inclusive) as written, negative from the end; empty: all
  std::string recipe;
  int line = 0;        ///< line in the file, for messages
  std::string origin;  ///< file, for messages
};

/// Parses a YAML rule file; errors name file and line. See docs/recipes.md for the format.
[[nodiscard]] std::vector<Rule> load_rules(const std::string& path);
/// The same from text; `origin` stands for the path in messages.
[[nodiscard]] std::vector<Rule> parse_rules(const std::string& yaml, const std::string& origin);

/// Base recipe (empty: MINITE_RECIPE, else bf16), then rules in order. Modules that are not covered take
/// bf16, or fp32 under an fp32 base, until a rule names them; a match of stars alone does not. `layers`
/// selects no module outside the layers. Throws invalid_argument for a rule that matches nothing or holds a
/// layer that does not exist (naming the rule, its line and its pattern), and where K is no multiple of the
/// fprop block or N of the dgrad block; wgrad contracts tokens, which are padded.
[[nodiscard]] std::vector<ResolvedLinear> resolve(std::string_view base_recipe, std::span<const Rule> rules,
                                                  std::span<const LinearModule> modules, int num_layers);

}  // namespace minite
