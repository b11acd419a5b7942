#include "diagnostics/align_also.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "diagnostics/align_cause.h"
#include "diagnostics/align_fresh.h"
#include "diagnostics/align_routing.h"
#include "diagnostics/align_weights.h"

namespace minite::diagnostics {
namespace {

constexpr size_t kNames = 4;  ///< places that are named; the rest is counted

/// Differences with the same key have one cause.
struct Group {
  std::string key;
  Cause cause;
  std::vector<std::string> places;
};

std::string named(const std::vector<std::string>& places) {
  const auto shown = std::span(places).first(std::min(places.size(), kNames));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (places.size() > kNames) text += fmt::format(" and {} more", places.size() - kNames);
  return text;
}

std::string module_of(const PointResult& p) {
  return p.layer < 0 ? p.module : fmt::format("layers.{}.{}", p.layer, p.module);
}

class Others {
 public:
  Others(const Aligned& sides, const PointResult& first) : s_(sides), c_(sides.comparison), first_(first) {}

  std::vector<Group> find() {
    for (const PointResult& p : c_.points) {
      if (is_root(p)) {
        add(key_of(p), p, [&] { return cause_of(s_, p); });
      } else {
        add_fresh(p);
      }
    }
    add_kv();
    add_scored_alone();
    return std::move(groups_);
  }

  /// What else would have the cause of `p`.
  [[nodiscard]] std::string key_of(const PointResult& p) const {
    if (p.point == "weight.digest" && p.status != PointStatus::equal) return weights_key(p);
    if (p.status == PointStatus::format) return "format " + profile(p);
    if (p.point.starts_with("weight.")) return "codes " + module_of(p);
    if (p.point == "experts") return "routing";
    if (p.module == "attn" && p.point == "output" && other_kv()) return "kv";
    if (p.module == "logprob" || p.module == "entropy") return "logprob";
    return p.name;
  }

 private:
  /// Whether nothing that was computed before can be the reason that `p` is not equal.
  [[nodiscard]] bool is_root(const PointResult& p) const {
    if (p.status == PointStatus::equal) return false;
    if (p.status == PointStatus::format || p.point == "weight.digest" || p.module == "scored") return true;
    if (p.point == "experts") return unexplained_rows(s_, p.layer) > 0;
    return p.point.starts_with("weight.") && same_weights(p);
  }

  /// Whether the weights of the module are known to be equal in memory, and in one format.
  [[nodiscard]] bool same_weights(const PointResult& p) const {
    bool known = false;
    for (const PointResult& q : c_.points) {
      if (q.layer != p.layer || q.module != p.module || !q.point.starts_with("weight.")) continue;
      if (q.status == PointStatus::format) return false;
      if (q.point != "weight.digest") continue;
      if (q.status != PointStatus::equal) return false;
      known = true;
    }
    return known;
  }

  [[nodiscard]] bool other_kv() const {
    return s_.a.manifest().contract.kv_format != s_.b.manifest().contract.kv_format;
  }

  /// One stale version explains all parameters; experts that changed places in a layer explain all of its
  /// parameters; other weights are told apart by layer.
  [[nodiscard]] std::string weights_key(const PointResult& p) const {
    const WeightSlip slip = weight_slip(s_, p);
    if (slip.permuted) return fmt::format("places {} {}", p.layer, fmt::join(slip.moved, ","));
    return stale(s_) ? std::string("stale") : fmt::format("weights {}", p.layer);
  }

  /// The formats of everything that differs in format in the module of `p`.
  [[nodiscard]] std::string profile(const PointResult& p) const {
    std::string text;
    for (const PointResult& q : c_.points) {
      if (q.layer != p.layer || q.module != p.module || q.status != PointStatus::format) continue;
      if (!q.point.ends_with(".codes")) continue;
      text += fmt::format("{} {}/{} {}/{};", q.point, q.spec_a, q.spec_b, q.domain_a, q.domain_b);
    }
    return text;
  }

  /// Rows behind the first divergence that part anew.
  void add_fresh(const PointResult& p) {
    if (p.status != PointStatus::differs || p.name == first_.name) return;
    const RowSources sources = sources_of(c_, p);
    const int64_t rows = fresh_rows(s_, p, sources);
    if (rows == 0) return;
    add(fmt::format("rows {}", sources.cause), p, [&] {
      return Cause{std::string(sources.cause), p.layer, p.module,
                   fmt::format("{} of {} rows of {} differ though these rows of {} are equal.", rows,
                               p.diff.rows, p.name, fmt::join(sources.points, ", "))};
    });
  }

  template <class Make>
  void add(const std::string& key, const PointResult& p, const Make& make) {
    const auto at = std::ranges::find(groups_, key, &Group::key);
    const std::string place = module_of(p);
    if (at == groups_.end()) {
      groups_.push_back({key, make(), {place}});
      if (p.point == "experts" && s_.a.manifest().contract.replay == "off")
        groups_.back().cause.evidence += fmt::format(
            " {} of the rows have equal outputs of the router on both sides.", unexplained_rows(s_, p.layer));
    } else if (at->places.back() != place) {
      at->places.push_back(place);
    }
  }

  void add_kv() {
    if (!other_kv()) return;
    const auto attn = std::ranges::find(c_.points, "attn", &PointResult::module);
    if (attn == c_.points.end()) return;
    groups_.push_back({"kv",
                       {"format", attn->layer, "attn",
                        fmt::format("Keys and values are kept as {} at A and {} at B in every layer.",
                                    s_.a.manifest().contract.kv_format, s_.b.manifest().contract.kv_format)},
                       {module_of(*attn)}});
  }

  /// Tokens whose logits are equal and whose log-probs are not, though an earlier point differs elsewhere.
  void add_scored_alone() {
    const char* digest = "lm_head.output.digest";
    if (s_.a.find(digest) == nullptr || s_.b.find(digest) == nullptr || s_.a.find("logprob") == nullptr ||
        s_.b.find("logprob") == nullptr)
      return;
    const auto x = s_.a.values<int64_t>(digest, io::StoredType::i64),
               y = s_.b.values<int64_t>(digest, io::StoredType::i64);
    const auto p = s_.a.values<float>("logprob", io::StoredType::f32),
               q = s_.b.values<float>("logprob", io::StoredType::f32);
    int64_t same = 0, moved = 0;
    double largest = 0;
    for (const auto& [i, j] : c_.scored.pairs) {
      const auto at = static_cast<size_t>(i), other = static_cast<size_t>(j);
      if (x[at] != y[other]) continue;
      ++same;
      if (std::bit_cast<uint32_t>(p[at]) == std::bit_cast<uint32_t>(q[other])) continue;
      ++moved;
      largest = std::max(largest, std::abs(static_cast<double>(p[at]) - static_cast<double>(q[other])));
    }
    if (moved == 0) return;
    const std::string_view cause = largest <= kRounding ? "execution" : "semantic";
    groups_.push_back(
        {"logprob",
         {std::string(cause), -1, "logprob",
          fmt::format("{} of {} tokens with equal logits have another log-prob, by up to {:.2g}.", moved,
                      same, largest)},
         {"logprob"}});
  }

  const Aligned& s_;
  const Comparison& c_;
  const PointResult& first_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<Cause> other_causes(const Aligned& sides, const PointResult& first, Cause& cause) {
  Others others(sides, first);
  const std::string own = others.key_of(first), place = module_of(first);
  std::vector<Cause> also;
  for (Group& group : others.find()) {
    if (group.key == own) {
      std::erase(group.places, place);
      if (!group.places.empty()) cause.evidence += fmt::format(" The same at {}.", named(group.places));
      continue;
    }
    if (group.places.size() > 1)
      group.cause.evidence +=
          fmt::format(" The same at {}.", named({group.places.begin() + 1, group.places.end()}));
    also.push_back(std::move(group.cause));
  }
  return also;
}

}  // namespace minite::diagnostics
