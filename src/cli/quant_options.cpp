#include "cli/quant_options.h"

#include <array>
#include <vector>

#include "core/fail.h"
#include "minite/convention.h"

namespace minite::cli {
namespace {

constexpr std::array kOuters = {OuterScale::none, OuterScale::tensor, OuterScale::expert, OuterScale::row};
constexpr std::array kBlocks = {BlockShape::row, BlockShape::tile};
constexpr std::array kRoundings = {Rounding::nearest, Rounding::stochastic};
constexpr std::array kSearches = {ScaleSearch::amax, ScaleSearch::amax4, ScaleSearch::four_six_mae,
                                  ScaleSearch::four_six_mse, ScaleSearch::four_six_abs_max};
constexpr std::array kMxScales = {Convention::rceil, Convention::floor, Convention::even, Convention::ceil};

/// The value of `values` that is written `text`.
template <class Values>
auto pick(const std::string& option, const std::string& text, const Values& values) {
  std::vector<std::string_view> names;
  for (const auto value : values) {
    if (to_string(value) == text) return value;
    names.push_back(to_string(value));
  }
  fail(ErrorCode::invalid_argument, "{} {}: expected {}{}", option, text, fmt::join(names, ", "),
       did_you_mean(text, names));
}

/// The convention that --convention and --mx-scale name together.
Convention pick_convention(const QuantOptions& options, const Format& row) {
  const Convention named = parse_convention(options.convention.empty() ? "te" : options.convention);
  if (options.mx_scale.empty()) return named;
  require(!row.outer_scale && !row.simulated, "--mx-scale {} chooses the scale of MX formats, not of {}",
          options.mx_scale, row.name);
  require(options.convention.empty() || options.convention == options.mx_scale,
          "--convention {} has its own scale rule, so it contradicts --mx-scale {}", options.convention,
          options.mx_scale);
  return pick("--mx-scale", options.mx_scale, kMxScales);
}

/// tensor where the convention has one outer scale for a tensor.
OuterScale default_outer(Convention convention, const Format& row) {
  const ConventionRow* rule = find_convention(convention, row.id);
  return rule != nullptr && rule->outers.has(OuterScale::tensor) ? OuterScale::tensor : OuterScale::none;
}

}  // namespace

OuterScale parse_outer(const std::string& option, const std::string& name) {
  return pick(option, name, kOuters);
}

void add_quant_options(CLI::App& app, QuantOptions& options) {
  app.add_option("--format", options.format, "a format with codes, of `minite formats`")->required();
  app.add_option(
      "--outer", options.outer,
      "what shares one outer scale: none, tensor, expert, row (default: tensor where there is one)");
  app.add_option("--block", options.block, "1d: along a row; 2d: square tiles")->capture_default_str();
  app.add_option("--convention", options.convention,
                 "whose arithmetic, of `minite formats --conventions` (default: te)");
  app.add_option("--mx-scale", options.mx_scale,
                 "rule for the power-of-two scale of MX formats: rceil (default), floor, even, ceil");
  app.add_option("--rounding", options.rounding, "rne: nearest even; sr: stochastic (Philox, see --seed)")
      ->capture_default_str();
  app.add_option("--scale-search", options.search,
                 "how a block chooses its scale: amax, amax4, 4over6-mae, 4over6-mse, 4over6-abs-max")
      ->capture_default_str();
  app.add_option("--scale-max", options.scale_max, "block scale that the outer amax maps to, 448 or 256")
      ->capture_default_str();
}

QuantSpec quant_spec(const QuantOptions& options) {
  const Format& row = format(options.format);
  require(row.block > 0, "--format {} has no codes; `minite formats` lists formats with a block", row.name);
  require(options.scale_max == 448 || options.scale_max == 256, "--scale-max {}: expected 448 or 256",
          options.scale_max);
  QuantSpec spec;
  spec.format = row.id;
  spec.convention = pick_convention(options, row);
  spec.outer =
      options.outer.empty() ? default_outer(spec.convention, row) : parse_outer("--outer", options.outer);
  spec.blocks = pick("--block", options.block, kBlocks);
  spec.rounding = pick("--rounding", options.rounding, kRoundings);
  spec.search = pick("--scale-search", options.search, kSearches);
  spec.scale_max = static_cast<int16_t>(options.scale_max);
  spec.validate();
  return spec;
}

}  // namespace minite::cli
