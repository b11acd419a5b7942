#pragma once
// A probe that keeps the bytes of every boundary of the forward pass by what the row is.
#include <fmt/format.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/probe.h"

namespace minite::test_support {

/// Rows of inputs, outputs and input codes, block scales and outer scales: by (request, position), then by
/// boundary, with the expert where the row is one of an expert's. Weights are left to other suites.
class Boundaries : public Probe {
 public:
  using Row = std::tuple<int64_t, int32_t>;
  using Values = std::map<std::string, std::string>;

  void batch(const BatchRows& rows) override {
    batch_.clear();
    for (size_t r = 0; r < rows.token.size(); ++r) batch_.emplace_back(rows.request[r], rows.pos[r]);
    scored_.clear();
    logits_done_ = 0;
  }
  void scored(std::span<const int32_t> rows) override { scored_.assign(rows.begin(), rows.end()); }
  void experts(int, const ExpertRows& rows) override {
    expert_.clear();
    for (const int32_t slot : rows.slot_of)
      expert_.emplace_back(slot / rows.k, rows.expert[static_cast<size_t>(slot)]);
  }
  void value(const Tap& at, const TensorView& value) override {
    if (at.point != Point::input && at.point != Point::output) return;
    const auto bytes = static_cast<size_t>(value.cols * dtype_size(value.dtype));
    for (int64_t r = 0; r < value.rows; ++r)
      put(at, r, "", {reinterpret_cast<const char*>(value.slice_rows(r, 1).data), bytes});
    if (at.module == "lm_head") logits_done_ += value.rows;
  }
  void codes(const Tap& at, const QTensor& q) override {
    if (at.point != Point::input) return;
    const auto part = [&](const uint8_t* data, int64_t stride, int64_t r) {
      return std::string(reinterpret_cast<const char*>(data + r * stride), static_cast<size_t>(stride));
    };
    for (int64_t r = 0; r < q.rows; ++r) {
      put(at, r, ".codes", part(q.codes, q.code_stride(), r));
      put(at, r, ".block_scales", part(q.block_scales, q.scale_stride(), r));
      put(at, r, ".outer", fmt::format("{}", q.outer_of(r)));
    }
  }

  /// What is wrong between `a` and `b` of one row; "" when all boundaries agree.
  static std::string difference(const Values& a, const Values& b) {
    if (a.size() != b.size()) return fmt::format("{} boundaries against {}", a.size(), b.size());
    for (const auto& [name, bytes] : a) {
      const auto it = b.find(name);
      if (it == b.end()) return name + " is missing";
      if (it->second != bytes) return name + " differs";
    }
    return {};
  }
  std::map<Row, Values> by_row;

 private:
  void put(const Tap& at, int64_t r, const char* part, std::string bytes) {
    const bool packed = at.module.starts_with("experts.");
    const bool end = at.module == "final_norm" || at.module == "lm_head";
    int64_t row = r;
    std::string name = fmt::format("layers.{}.{}.{}{}", at.layer, at.module, to_string(at.point), part);
    if (packed) {
      row = expert_[static_cast<size_t>(r)].first;
      name += fmt::format(" of expert {}", expert_[static_cast<size_t>(r)].second);
    } else if (end) {
      row = scored_[static_cast<size_t>(r + (at.module == "lm_head" ? logits_done_ : 0))];
    }
    by_row[batch_[static_cast<size_t>(row)]][name] = std::move(bytes);
  }

  std::vector<Row> batch_;
  std::vector<int32_t> scored_;
  std::vector<std::pair<int64_t, int32_t>> expert_;  ///< row of the batch and expert of each packed row
  int64_t logits_done_ = 0;
};

}  // namespace minite::test_support
