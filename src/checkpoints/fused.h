#pragma once
// Modules that servers fuse into one product, so that their outer scales must be equal.
#include <string>
#include <string_view>
#include <vector>

namespace minite::checkpoints {

/// "model.layers.0.self_attn.q_proj" -> "model.layers.0.self_attn.qkv_proj": what q_proj, k_proj and v_proj
/// have in common; "" for a module that nobody fuses. Parts of cross attention, whose keys come from another
/// input, are not one group: "attn2" and "cross" in a name tell.
[[nodiscard]] std::string fused_name(std::string_view module);

/// How many parts `module` fuses by its name: 3 for "x.qkv_proj", 2 for "x.gate_up_proj", else 1.
[[nodiscard]] int fused_parts(std::string_view module);

/// A module and the width of its input.
struct FusedMember {
  std::string name;
  int64_t cols = 0;
};
/// The modules in groups that share one outer scale: indices into `members`, each in one group, in the order
/// of their first member; inside a group q before k before v, gate before up. Modules of one fused_name() are
/// together where their inputs are equally wide.
[[nodiscard]] std::vector<std::vector<size_t>> fused_groups(const std::vector<FusedMember>& members);

}  // namespace minite::checkpoints
