#include "checkpoints/verify.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "core/memory.h"
#include "core/thread_pool.h"
#include "io/float_values.h"
#include "ops/code_stats.h"

namespace minite::checkpoints {
namespace {

constexpr int64_t kElements = int64_t{1} << 22;  ///< that are decoded at a time

/// Rows of a tensor in FP32, whichever way it is stored.
class Rows {
 public:
  Rows(const QuantizedFolder& folder, const std::string& name) {
    const auto it = folder.modules.find(std::string(stem_of(name, ".weight")));
    if (it != folder.modules.end()) {
      module_ = &it->second;
      rows = module_->rows;
      cols = module_->cols;
      return;
    }
    dense_ = &folder.folder.at(name);
    cols = dense_->shape.empty() ? 1 : dense_->shape.back();
    rows = cols == 0 ? 0 : dense_->count() / cols;
  }

  [[nodiscard]] const StoredModule* module() const { return module_; }

  void read(const Context& ctx, int64_t begin, const TensorView& y) const {
    if (module_ != nullptr) return decode_rows(ctx, *module_, begin, y);
    const int64_t size = io::stored_type(dense_->type).bytes;
    io::TensorInfo part{dense_->type, {y.rows, cols}, {}};
    part.bytes =
        dense_->bytes.subspan(static_cast<size_t>(begin * cols * size), static_cast<size_t>(y.size() * size));
    const io::FloatValues values = io::load_floats(part);
    io::drop_mapped(part.bytes);
    for (int64_t i = 0; i < y.size(); ++i)
      y.as<float>()[i] = values.dtype == DType::bf16
                             ? static_cast<float>(reinterpret_cast<const bf16*>(values.memory.data())[i])
                             : reinterpret_cast<const float*>(values.memory.data())[i];
  }
  void drop() const {
    if (dense_ != nullptr) return io::drop_mapped(dense_->bytes);
    io::drop_mapped(module_->codes->bytes);
    io::drop_mapped(module_->scales->bytes);
  }

  int64_t rows = 0, cols = 0;

 private:
  const StoredModule* module_ = nullptr;
  const io::TensorInfo* dense_ = nullptr;
};

/// Saturated elements among decoded rows from `begin` on.
int64_t saturated(const StoredModule& m, int64_t row, std::span<const float> x, std::span<const float> y) {
  float multiplier = 1, reciprocal = 1;
  if (m.segments.empty()) return ops::count_saturated(segment_codes(m, 0, multiplier, reciprocal), row, x, y);
  size_t s = 0;
  while (row >= m.segments[s].begin + m.segments[s].rows) ++s;
  return ops::count_saturated(segment_codes(m, s, multiplier, reciprocal), row - m.segments[s].begin, x, y);
}

VerifiedTensor compare(const Context& ctx, const std::string& name, const Rows& from, const Rows& to,
                       std::vector<float>& x, std::vector<float>& y) {
  VerifiedTensor result;
  result.name = name;
  result.quantized = to.module() != nullptr;
  const int64_t at_once = std::max<int64_t>(1, kElements / std::max<int64_t>(1, from.cols));
  for (int64_t begin = 0; begin < from.rows; begin += at_once) {
    const int64_t count = std::min(at_once, from.rows - begin);
    x.resize(static_cast<size_t>(count * from.cols));
    y.resize(x.size());
    from.read(ctx, begin, TensorView(x.data(), count, from.cols));
    to.read(ctx, begin, TensorView(y.data(), count, to.cols));
    std::vector<diagnostics::ErrorStats> sums(static_cast<size_t>(count));
    std::vector<int64_t> full(static_cast<size_t>(count));
    ctx.pool->parallel_for(count, [&](int64_t r, int) {
      const std::span<const float> a(x.data() + r * from.cols, static_cast<size_t>(from.cols)),
          b(y.data() + r * from.cols, static_cast<size_t>(from.cols));
      sums[static_cast<size_t>(r)].add(a, b);
      if (to.module() != nullptr) full[static_cast<size_t>(r)] = saturated(*to.module(), begin + r, a, b);
    });
    for (size_t r = 0; r < sums.size(); ++r) {
      result.error.merge(sums[r]);
      result.saturated += full[r];
    }
  }
  if (to.module() != nullptr) {
    float multiplier = 1, reciprocal = 1;
    // The first segment begins at row 0; scales are counted over all rows.
    const QTensor q = segment_codes(*to.module(), 0, multiplier, reciprocal).slice_rows(0, to.rows);
    const ops::ScaleStats scales = ops::scale_stats(q);
    result.zero_scales = scales.zero;
    result.nan_scales = scales.nan;
  }
  from.drop();
  to.drop();
  return result;
}

/// Shapes by the names that both sides have in common.
std::map<std::string, std::string> common_names(const QuantizedFolder& folder) {
  std::map<std::string, std::string> names;
  for (const auto& [name, shape] : decoded_shapes(folder))
    names[kv_scale_name(name, Container::modelopt)] = name;
  return names;
}

}  // namespace

Verification verify(const Context& ctx, const std::filesystem::path& source,
                    const std::filesystem::path& converted, const ConvertProgress& progress) {
  const QuantizedFolder from = open_quantized(source, OnFault::thrown),
                        to = open_quantized(converted, OnFault::thrown);
  const auto sources = common_names(from), targets = common_names(to);
  const auto shapes = decoded_shapes(from), target_shapes = decoded_shapes(to);
  std::vector<std::string> order;
  int64_t total = 0, done = 0;
  for (const auto& [name, own] : sources) {
    order.push_back(name);
    int64_t count = 1;
    for (const int64_t dim : shapes.at(own)) count *= dim;
    total += count;
  }
  std::sort(order.begin(), order.end(), io::natural_less);
  Verification result;
  std::vector<float> x, y;
  for (const std::string& name : order) {
    const auto other = targets.find(name);
    if (other == targets.end()) {
      result.faults.push_back({converted.filename().string(), name, "is missing"});
      continue;
    }
    if (shapes.at(sources.at(name)) != target_shapes.at(other->second)) {
      result.faults.push_back({converted.filename().string(), name, "has another shape"});
      continue;
    }
    const Rows a(from, sources.at(name)), b(to, other->second);
    VerifiedTensor row = compare(ctx, name, a, b, x, y);
    if (row.error.nonfinite_decoded > row.error.nonfinite)
      result.faults.push_back({converted.filename().string(), name,
                               fmt::format("decodes to {} values that are not finite; the source has {}",
                                           row.error.nonfinite_decoded, row.error.nonfinite)});
    done += row.error.count;
    if (progress) progress(done, total);
    if (row.quantized) result.all.merge(row.error);
    result.tensors.push_back(std::move(row));
  }
  for (const auto& [name, own] : targets) {
    if (!sources.contains(name))
      result.faults.push_back({converted.filename().string(), name, "is not in the source"});
  }
  return result;
}

}  // namespace minite::checkpoints
