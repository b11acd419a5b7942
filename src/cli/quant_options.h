#pragma once
// The options of quantizers as the command line names them.
#include <CLI/CLI.hpp>
#include <string>

#include "minite/format.h"

namespace minite::cli {

struct QuantOptions {
  std::string format;
  std::string outer;  ///< empty: tensor where the format has an outer scale
  std::string block = "1d";
  std::string convention;  ///< empty: te
  std::string mx_scale;    ///< empty: as the convention says
  std::string rounding = "rne";
  std::string search = "amax";
  int scale_max = 448;
};

/// Adds --format, --outer, --block, --convention, --mx-scale, --rounding, --scale-search and --scale-max.
void add_quant_options(CLI::App& app, QuantOptions& options);

/// The validated spec, without rotation. Errors: invalid_argument and not_found with the option, the value
/// and what is allowed.
[[nodiscard]] QuantSpec quant_spec(const QuantOptions& options);

/// The outer scale named `name`; throws invalid_argument naming `option`.
[[nodiscard]] OuterScale parse_outer(const std::string& option, const std::string& name);

}  // namespace minite::cli
