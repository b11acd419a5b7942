#include "diagnostics/align_order.h"

#include <algorithm>
#include <array>
#include <climits>

namespace minite::diagnostics {
namespace {

constexpr std::array<std::string_view, 21> kModules = {
    "embed",        "attn_norm", "qkv",     "q_norm",          "k_norm",  "attn",        "o",
    "mlp_norm",     "router",    "gate_up", "experts.gate_up", "act",     "experts.act", "down",
    "experts.down", "combine",   "",        "final_norm",      "lm_head", "scored",      "logprob"};
constexpr std::array<std::string_view, 13> kPoints = {"input",
                                                      "input.codes",
                                                      "input.block_scales",
                                                      "input.outer_scale",
                                                      "weight.digest",
                                                      "weight.codes",
                                                      "weight.block_scales",
                                                      "weight.outer_scale",
                                                      "",
                                                      "output",
                                                      "output.digest",
                                                      "experts",
                                                      "rows"};

/// Place of `name`, or of "" for one that is not in the list.
template <class List>
int place(const List& list, std::string_view name) {
  auto at = std::ranges::find(list, name);
  if (at == list.end()) at = std::ranges::find(list, std::string_view{});
  return at == list.end() ? static_cast<int>(list.size()) : static_cast<int>(at - list.begin());
}

}  // namespace

PointOrder point_order(int layer, std::string_view module, std::string_view point) {
  const int rank = module == "entropy" ? INT_MAX : place(kModules, module);
  const bool before = layer < 0 && rank < place(kModules, "attn_norm");
  const int group = layer >= 0 ? 1 : before ? 0 : 2;
  return {group, layer, rank, place(kPoints, point)};
}

}  // namespace minite::diagnostics
