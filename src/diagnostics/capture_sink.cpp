#include "diagnostics/capture_sink.h"

#include <array>
#include <cstring>

#include "core/fail.h"
#include "diagnostics/logit_row.h"
#include "io/digest.h"

namespace minite::diagnostics {
namespace {

constexpr std::string_view kHead = "lm_head";

io::StoredType stored_as(DType dtype) {
  constexpr std::array<io::StoredType, 7> kTypes = {
      io::StoredType::f64, io::StoredType::f32, io::StoredType::bf16, io::StoredType::f16,
      io::StoredType::u8,  io::StoredType::i32, io::StoredType::i64};
  return kTypes[static_cast<size_t>(dtype)];
}

std::string tensor_name(const Tap& at, std::string_view point) {
  return at.layer < 0 ? fmt::format("{}.{}", at.module, point)
                      : fmt::format("layers.{}.{}.{}", at.layer, at.module, point);
}

std::vector<double> row_of(const TensorView& x, int64_t r) {
  std::vector<double> row(static_cast<size_t>(x.cols));
  for (int64_t c = 0; c < x.cols; ++c)
    row[static_cast<size_t>(c)] =
        x.dtype == DType::f64 ? x.row<const double>(r)[c] : static_cast<double>(x.row<const float>(r)[c]);
  return row;
}

}  // namespace

CaptureSink::CaptureSink(std::filesystem::path folder, CaptureSelection selection, const DrawRules& rules,
                         int64_t samples)
    : folder_(std::move(folder)),
      selection_(std::move(selection)),
      rules_(rules),
      samples_(samples),
      spill_(folder_ / "rows.spill") {}

void CaptureSink::batch(const BatchRows& rows) {
  batch_.clear();
  kept_.clear();
  arrival_.clear();
  for (size_t i = 0; i < rows.token.size(); ++i) {
    batch_.push_back({rows.request[i], rows.pos[i], rows.token[i]});
    const bool keep = selection_.max_tokens == 0 || rows.pos[i] < selection_.max_tokens;
    arrival_.push_back(keep ? static_cast<int64_t>(rows_.size()) : -1);
    if (!keep) continue;
    kept_.push_back(static_cast<int32_t>(i));
    rows_.push_back(batch_.back());
  }
  kept_scored_.clear();
}

void CaptureSink::scored(std::span<const int32_t> rows) {
  kept_scored_.clear();
  next_logit_ = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (arrival_[static_cast<size_t>(rows[i])] < 0) continue;
    kept_scored_.push_back(static_cast<int32_t>(i));
    scored_.push_back(batch_[static_cast<size_t>(rows[i])]);
  }
}

void CaptureSink::experts(int layer, const ExpertRows& rows) {
  ExpertTable& table = experts_[layer];
  table.k = rows.k;
  table.kept.clear();
  for (size_t r = 0; r < rows.slot_of.size(); ++r) {
    const int32_t slot = rows.slot_of[r];
    const int64_t row = arrival_[static_cast<size_t>(slot / rows.k)];
    if (row < 0) continue;
    table.kept.push_back(static_cast<int32_t>(r));
    table.all.push_back({row, static_cast<int32_t>(slot % rows.k), rows.expert[static_cast<size_t>(slot)]});
  }
}

bool CaptureSink::wants(const Tap& at, std::string_view point) const {
  return !selection_.wanted || selection_.wanted(at.layer, at.module, point);
}

std::span<const int32_t> CaptureSink::kept(const Tap& at) const {
  switch (row_table(at.module, "")) {
    case RowTable::scored:
      return at.module == kHead ? std::span<const int32_t>(logit_rows_) : kept_scored_;
    case RowTable::experts:
      return experts_.at(at.layer).kept;
    default:
      return kept_;
  }
}

CaptureSink::Recorded& CaptureSink::record(const Tap& at, std::string_view point, const QuantSpec* spec) {
  Recorded& r = tensors_[tensor_name(at, point)];
  if (!r.about.name.empty()) return r;
  r.about.name = tensor_name(at, point);
  r.about.layer = at.layer;
  r.about.module = at.module;
  r.about.point = point;
  if (spec != nullptr) {
    r.about.format = format(spec->format).name;
    r.about.scale_domain = to_string(spec->outer);
    r.about.spec = to_string(*spec);
  }
  r.table = row_table(at.module, point);
  return r;
}

void CaptureSink::add_rows(const Tap& at, std::string_view point, const QuantSpec* spec, io::StoredType type,
                           int64_t cols, const void* data, int64_t stride_bytes) {
  if (!wants(at, point)) return;
  Recorded& r = record(at, point, spec);
  r.type = type;
  r.cols = cols;
  const auto row_bytes = static_cast<size_t>(cols * io::stored_type(type).bytes);
  const std::span<const int32_t> rows = kept(at);
  std::vector<std::byte> packed(rows.size() * row_bytes);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(packed.data() + i * row_bytes, static_cast<const char*>(data) + rows[i] * stride_bytes,
                row_bytes);
  }
  spill_.append(r.data, packed);
}

void CaptureSink::value(const Tap& at, const TensorView& value) {
  if (at.point != Point::input && at.point != Point::output) return;
  if (at.module == kHead && at.point == Point::output) add_logits(value);
  if (at.module == kHead && !selection_.logits) return;
  const std::string_view point = to_string(at.point);
  if (!wants(at, point)) return;
  record(at, point, nullptr).about.format = dtype_name(value.dtype);
  add_rows(at, point, nullptr, stored_as(value.dtype), value.cols, value.data,
           value.stride * dtype_size(value.dtype));
}

void CaptureSink::add_logits(const TensorView& logits) {
  logit_rows_.clear();
  const double t = rules_.temperature > 0 ? rules_.temperature : 1.0;
  const int64_t stride = logits.stride * dtype_size(logits.dtype);
  for (const int32_t row : kept_scored_) {
    const int64_t r = row - next_logit_;
    if (r < 0 || r >= logits.rows) continue;
    logit_rows_.push_back(static_cast<int32_t>(r));
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(logits.data) + r * stride,
                                           static_cast<size_t>(logits.cols * dtype_size(logits.dtype)));
    digest_.push_back(static_cast<int64_t>(io::digest64(bytes)));
    const std::vector<double> x = row_of(logits, r);
    lse_.push_back(log_sum_exp(x, t));
    lse_1_.push_back(log_sum_exp(x, 1.0));
    kept_mass_.push_back(kept_mass(x, t, rules_.top_k, rules_.top_p));
  }
  next_logit_ += logits.rows;
}

void CaptureSink::codes(const Tap& at, const QTensor& q) {
  const QuantSpec& spec = q.spec;
  if (at.point == Point::weight) {
    add_weight(at, "weight.codes", spec, io::StoredType::u8, {q.rows, q.code_stride()}, q.codes);
    if (q.block_scales != nullptr)
      add_weight(at, "weight.block_scales", spec, io::StoredType::u8, {q.rows, q.scale_stride()},
                 q.block_scales);
    if (q.outer != nullptr)
      add_weight(at, "weight.outer_scale", spec, io::StoredType::f32, {q.outer_count()}, q.outer);
    return;
  }
  if (at.point != Point::input) return;
  add_rows(at, "input.codes", &spec, io::StoredType::u8, q.code_stride(), q.codes, q.code_stride());
  if (q.block_scales != nullptr)
    add_rows(at, "input.block_scales", &spec, io::StoredType::u8, q.scale_stride(), q.block_scales,
             q.scale_stride());
  if (q.outer == nullptr) return;
  // One a row whatever its domain: a scale of the tensor is that of the pass that the row was in.
  std::vector<float> outer(static_cast<size_t>(q.rows));
  for (int64_t r = 0; r < q.rows; ++r) outer[static_cast<size_t>(r)] = q.outer_of(r);
  add_rows(at, "input.outer_scale", &spec, io::StoredType::f32, 1, outer.data(), sizeof(float));
}

void CaptureSink::add_weight(const Tap& at, std::string_view point, const QuantSpec& spec,
                             io::StoredType type, const std::vector<int64_t>& shape, const void* data) {
  if (!wants(at, point)) return;
  Recorded& r = record(at, point, &spec);
  const int64_t part = std::max<int64_t>(at.expert, 0);
  if (part < r.next_expert) return;  // a later pass over the same weights
  r.next_expert = part + 1;
  r.type = type;
  r.shape = shape;
  if (at.expert >= 0) r.shape.insert(r.shape.begin(), r.next_expert);
  int64_t bytes = io::stored_type(type).bytes;
  for (const int64_t dim : shape) bytes *= dim;
  spill_.append(r.data, {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)});
}

void CaptureSink::sequence(int64_t index, const ScoredSequence& s) {
  sequences_[index] = {{s.tokens.begin(), s.tokens.end()},
                       s.prompt,
                       {s.logp.begin(), s.logp.end()},
                       {s.entropy.begin(), s.entropy.end()}};
}

}  // namespace minite::diagnostics
