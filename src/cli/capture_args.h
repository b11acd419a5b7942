#pragma once
// Options of `minite capture`, and what they must not say.
#include <optional>
#include <string>
#include <vector>

#include "cli/loaded_model.h"
#include "cli/output.h"

namespace minite::cli {

struct CaptureArgs {
  LoadOptions load;
  std::string data, role, tokens, output;
  std::vector<std::string> points, inject;
  std::vector<int> layers;
  int64_t problems = 0, samples = 1, max_tokens = 0, expert_ranks = 1;
  std::optional<int64_t> inject_layer;
  std::optional<std::string> replay;
  std::optional<double> temperature, top_p;
  std::optional<int64_t> top_k;
  SampleParams draw;
  bool logits = false;
  ReportStyle style = ReportStyle::text;
};

void add_capture_options(CLI::App& app, CaptureArgs& args);
/// Refuses -o when it holds something else than a capture, or the capture of --tokens: it would be replaced.
void check_output(const CaptureArgs& args);
/// Refuses --layers and --expert-ranks that the model does not have.
void check_places(const CaptureArgs& args, const ModelConfig& model);

}  // namespace minite::cli
