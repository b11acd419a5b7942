#include "cli/capture_routes.h"

#include <algorithm>
#include <map>

#include "core/fail.h"

namespace minite::cli {
namespace {

using diagnostics::Capture;
using diagnostics::ExpertTable;
using diagnostics::RowId;

/// Every token that was read needs all of its experts.
void check_whole(const Capture& capture, const diagnostics::CapturedSequence& s, const Routes& routes) {
  for (int64_t token = 0; token + 1 < routes.tokens(); ++token) {
    for (int64_t layer = 0; layer < routes.layers; ++layer) {
      const auto missing = std::ranges::count(routes.row(token, layer), -1);
      require(
          missing == 0,
          "{} cannot be replayed: {} of {} experts of request {} sample {} position {} are missing in "
          "rows.{}.expert; a capture with --max-tokens, of some ranks or with dropped pairs does not hold "
          "them all",
          capture.name(), missing, routes.top_k, s.request, s.sample, token, layer);
    }
  }
}

}  // namespace

std::vector<Routes> recorded_routes(const Capture& capture, const ModelConfig& model) {
  const std::vector<diagnostics::CapturedSequence> sequences = capture.sequences();
  std::map<std::pair<int64_t, int32_t>, size_t> index;
  std::vector<Routes> all;
  for (const auto& s : sequences) {
    index[{s.request, s.sample}] = all.size();
    all.emplace_back(static_cast<int64_t>(s.tokens.size()), model.num_hidden_layers,
                     model.num_experts_per_tok);
  }
  const int64_t k = model.num_experts_per_tok;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const ExpertTable* table = capture.expert_table(static_cast<int>(layer));
    require(table != nullptr, "{} cannot be replayed: it has no table rows.{}.expert", capture.name(), layer);
    for (size_t i = 0; i < table->slot.size(); ++i) {
      if (table->slot[i] < 0) continue;  // padding
      const RowId& row = capture.rows()[static_cast<size_t>(table->slot[i] / k)];
      const auto at = index.find({row.request, row.sample});
      if (at == index.end()) continue;  // a row of padding
      Routes& routes = all[at->second];
      require(row.position >= 0 && row.position < routes.tokens(),
              "{} cannot be replayed: rows.{}.expert speaks of {}, whose sequence has {} tokens",
              capture.name(), layer, to_string(row), routes.tokens());
      routes.expert[static_cast<size_t>((row.position * routes.layers + layer) * k + table->slot[i] % k)] =
          table->expert[i];
    }
  }
  for (size_t i = 0; i < all.size(); ++i) check_whole(capture, sequences[i], all[i]);
  return all;
}

}  // namespace minite::cli
