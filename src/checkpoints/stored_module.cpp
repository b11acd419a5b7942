#include "checkpoints/stored_module.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "checkpoints/fused.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/float_values.h"
#include "io/json_file.h"
#include "recipes/glob.h"

namespace minite::checkpoints {
namespace {

using io::StoredType;
using io::TensorInfo;

constexpr std::string_view kWeight = ".weight";
/// Modules with 2-D weights that quantizers leave alone whatever a configuration says.
constexpr std::array<std::string_view, 9> kNeverQuantized = {
    "*embed*", "*norm*", "*lm_head", "*.gate", "*.router*", "*_router", "*.shared_expert_gate",
    "*.wte",   "*.wpe"};

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// The values of an F32 or BF16 tensor.
std::vector<float> small_values(const TensorInfo& tensor) {
  const io::FloatValues values = io::load_floats(tensor);
  std::vector<float> result(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < result.size(); ++i) {
    if (values.dtype == DType::bf16) {
      result[i] = reinterpret_cast<const bf16*>(values.memory.data())[i];
    } else {
      result[i] = reinterpret_cast<const float*>(values.memory.data())[i];
    }
  }
  return result;
}

/// Rows of the fused parts of a module, by the sizes of attention in config.json.
std::vector<int64_t> part_rows(const nlohmann::json& config, int parts, int64_t rows) {
  if (parts == 2 && rows % 2 == 0) return {rows / 2, rows / 2};
  const auto number = [&](const char* key) {
    const auto it = config.find(key);
    return it != config.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
  };
  const int64_t heads = number("num_attention_heads"), kv_heads = number("num_key_value_heads");
  if (parts != 3 || heads < 1 || kv_heads < 1 || heads > rows || kv_heads > rows) return {};
  const int64_t all = heads + 2 * kv_heads;
  if (rows % all != 0) return {};
  return {rows / all * heads, rows / all * kv_heads, rows / all * kv_heads};
}

class Analysis {
 public:
  Analysis(QuantizedFolder& found, nlohmann::json config) : found_(found), config_(std::move(config)) {
    if (!config_.is_object()) config_ = nlohmann::json::object();
  }

  void run() {
    if (found_.config) {
      for (const auto& [name, entry] : found_.folder.tensors()) visit(name, entry.info);
    } else {
      for (const auto& [name, entry] : found_.folder.tensors()) refuse_codes(name, entry.info);
    }
    for (const auto& [name, entry] : found_.folder.tensors()) {
      if (used_.contains(name)) continue;
      report_orphan(name);
      found_.plain.push_back(name);
    }
  }

 private:
  void fault(const std::string& tensor, std::string what) {
    const auto it = found_.folder.tensors().find(tensor);
    const bool known = it != found_.folder.tensors().end();
    const auto& path = known ? found_.folder.shards()[it->second.shard].path() : found_.folder.path();
    found_.faults.push_back({path.filename().string(), tensor, std::move(what)});
  }

  /// Codes in a folder whose configuration says nothing about them would load as numbers.
  void refuse_codes(const std::string& name, const TensorInfo& info) {
    if (const Layout* layout = layout_by_codes(name, info))
      fault(name, fmt::format("looks like codes of {}, but neither config.json nor hf_quant_config.json says "
                              "that anything is quantized",
                              layout->name));
  }

  /// A layout whose codes and scales are there under this name.
  const Layout* layout_by_codes(const std::string& name, const TensorInfo& info) const {
    for (const Layout& layout : layouts()) {
      const std::string_view stem = stem_of(name, layout.codes);
      if (stem.empty() || info.type != layout.codes_type) continue;
      const TensorInfo* scales = found_.folder.find(std::string(stem) + std::string(layout.scales));
      if (scales != nullptr && scales->type == layout.scales_type) return &layout;
    }
    return nullptr;
  }

  void visit(const std::string& name, const TensorInfo& info) {
    for (const QuantGroup& group : found_.config->groups) {
      const std::string_view stem = stem_of(name, group.layout->codes);
      if (stem.empty() || info.type != group.layout->codes_type) continue;
      const std::string module(stem);
      const std::string_view entry = found_.config->ignore.entry_for(module);
      if (!entry.empty())
        fault(name,
              fmt::format("is stored in codes, but '{}' leaves it out of quantization", printable(entry)));
      const QuantGroup* own = found_.config->group_of(module);
      if (own != nullptr && own != &group && own->layout != group.layout) continue;
      add(group, module, info);
      return;
    }
    if (const Layout* layout = layout_by_codes(name, info))
      return fault(name, fmt::format("looks like codes of {}, which is not what the configuration says of it",
                                     layout->name));
    const std::string_view stem = stem_of(name, kWeight);
    if (stem.empty() || info.shape.size() != 2 || !io::is_wide_float(info.type)) return;
    if (is_quantizable(stem) && found_.config->group_of(std::string(stem)) != nullptr)
      fault(name, fmt::format("is {}, but the configuration quantizes {} and does not leave it out",
                              io::stored_type(info.type).name, printable(stem)));
  }

  const TensorInfo* sidecar(const std::string& name) {
    const TensorInfo* info = found_.folder.find(name);
    if (info != nullptr) used_.insert(name);
    return info;
  }

  void add(const QuantGroup& group, const std::string& module, const TensorInfo& codes) {
    const Layout& layout = *group.layout;
    StoredModule m;
    m.name = module;
    m.layout = &layout;
    m.activations = group.activations;
    m.codes = &codes;
    const std::string codes_name = m.tensor(layout.codes), scales_name = m.tensor(layout.scales);
    used_.insert(codes_name);
    m.scales = sidecar(scales_name);
    const TensorInfo* global = layout.global.empty() ? nullptr : sidecar(m.tensor(layout.global));
    const TensorInfo* input = layout.input_global.empty() ? nullptr : sidecar(m.tensor(layout.input_global));
    if (m.scales == nullptr) return fault(codes_name, fmt::format("has no {}", printable(scales_name)));
    if (!shapes_fit(m, codes_name, scales_name)) return;
    if (!layout.global.empty() && global == nullptr)
      return fault(codes_name, fmt::format("has no {}: block scales without their outer scale, so that all "
                                           "its values would be off by one factor",
                                           printable(m.tensor(layout.global))));
    if (global != nullptr && !read_global(m, *global)) return;
    if (input != nullptr && !read_outer(m.tensor(layout.input_global), *input, m.input)) return;
    if (m.input.empty() && m.activations != Activations::a16 &&
        group.layout->container == Container::modelopt && !layout.input_global.empty())
      fault(codes_name,
            fmt::format("has no {}, which {} needs", printable(m.tensor(layout.input_global)), layout.label));
    found_.modules.emplace(module, std::move(m));
  }

  bool shapes_fit(StoredModule& m, const std::string& codes_name, const std::string& scales_name) {
    const Format& row = format(m.layout->format);
    m.shape = m.codes->shape;
    if (m.shape.size() != 2 && m.shape.size() != 3) {
      fault(codes_name, fmt::format("is {}; codes have two dimensions or three", shape_text(m.shape)));
      return false;
    }
    m.shape.back() = m.shape.back() * 8 / row.bits;
    m.cols = m.shape.back();
    m.rows = m.codes->count() == 0 ? 0 : m.codes->count() / m.codes->shape.back();
    if (m.cols % row.block != 0) {
      fault(codes_name,
            fmt::format("has K = {}, which is no multiple of the {} elements of a block", m.cols, row.block));
      return false;
    }
    std::vector<int64_t> expected = m.shape;
    expected.back() = m.cols / row.block;
    if (m.scales->type != m.layout->scales_type || !same_scales(m.scales->shape, expected)) {
      fault(scales_name, fmt::format("is {} {}; codes of {} need {} {} (in rows, not swizzled)",
                                     io::stored_type(m.scales->type).name, shape_text(m.scales->shape),
                                     shape_text(m.shape), io::stored_type(m.layout->scales_type).name,
                                     shape_text(expected)));
      return false;
    }
    return true;
  }

  /// Older ModelOpt exports carry a leading 1.
  static bool same_scales(const std::vector<int64_t>& shape, const std::vector<int64_t>& expected) {
    if (shape == expected) return true;
    return shape.size() == expected.size() + 1 && shape.front() == 1 &&
           std::equal(expected.begin(), expected.end(), shape.begin() + 1);
  }

  bool read_outer(const std::string& name, const TensorInfo& tensor, std::vector<float>& values) {
    if (tensor.type != StoredType::f32 && tensor.type != StoredType::bf16) {
      fault(name, fmt::format("is {}, expected F32", io::stored_type(tensor.type).name));
      return false;
    }
    values = small_values(tensor);
    for (const float x : values) {
      if (std::isfinite(x) && x > 0) continue;
      fault(name, fmt::format("is {}; an outer scale is positive and finite{}", x,
                              std::isinf(x) ? " (2688 / 0: no activation was seen in calibration)" : ""));
      values.clear();
      return false;
    }
    return true;
  }

  bool read_global(StoredModule& m, const TensorInfo& tensor) {
    const std::string name = m.tensor(m.layout->global);
    if (!read_outer(name, tensor, m.global)) return false;
    const auto count = static_cast<int64_t>(m.global.size());
    const int64_t experts = m.shape.size() == 3 ? m.shape[0] : 1;
    const int parts = fused_parts(m.name);
    std::vector<int64_t> rows;
    if (m.layout->outer == OuterScale::row ? count == m.rows : count == experts) {
      rows.assign(m.global.size(), count == 0 ? 0 : m.rows / count);
    } else if (count == 1) {
      rows = {m.rows};
    } else if (m.shape.size() == 2 && count == parts) {
      rows = part_rows(config_, parts, m.rows);
    }
    if (rows.empty()) {
      fault(name, fmt::format("has {} values for {} {}; expected one{}", count, printable(m.name),
                              shape_text(m.shape),
                              parts > 1 ? fmt::format(", or one for each of {} parts whose rows config.json "
                                                      "tells",
                                                      parts)
                              : experts > 1 ? ", or one an expert"
                                            : ""));
      return false;
    }
    if (m.layout->outer == OuterScale::row) rows = {m.rows};
    int64_t at = 0;
    for (const int64_t n : rows) m.segments.push_back({std::exchange(at, at + n), n});
    return true;
  }

  /// A scale that no module took would leave its codes wrong by a factor, without a missing key.
  void report_orphan(const std::string& name) {
    if (!found_.config) return;
    for (const QuantGroup& group : found_.config->groups) {
      const Layout& layout = *group.layout;
      for (const std::string_view suffix : {layout.scales, layout.global, layout.input_global}) {
        if (stem_of(name, suffix).empty() || has_fault(name)) continue;
        fault(name, "is a scale of nothing: no codes of this name are quantized");
        return;
      }
    }
  }
  bool has_fault(const std::string& tensor) const {
    return std::ranges::any_of(found_.faults, [&](const Fault& f) { return f.tensor == tensor; });
  }

  QuantizedFolder& found_;
  nlohmann::json config_;
  std::set<std::string> used_;
};

void copy_floats(const TensorInfo& tensor, const TensorView& y) {
  const io::FloatValues values = io::load_floats(tensor);
  require(values.memory.size() >= 0 && tensor.count() == y.size(), "{} values for a view of {} x {}",
          tensor.count(), y.rows, y.cols);
  for (int64_t i = 0; i < y.size(); ++i) {
    const float x = values.dtype == DType::bf16
                        ? static_cast<float>(reinterpret_cast<const bf16*>(values.memory.data())[i])
                        : reinterpret_cast<const float*>(values.memory.data())[i];
    const int64_t r = i / y.cols, c = i % y.cols;
    if (y.dtype == DType::bf16) {
      y.row<bf16>(r)[c] = bf16(x);
    } else {
      y.row<float>(r)[c] = x;
    }
  }
}

}  // namespace

int64_t StoredModule::stored_bytes() const {
  return static_cast<int64_t>(codes->bytes.size() + scales->bytes.size() +
                              sizeof(float) * (global.size() + input.size()));
}

bool is_quantizable(std::string_view module) {
  return std::ranges::none_of(kNeverQuantized, [&](std::string_view p) { return glob_match(p, module); });
}

QuantizedFolder open_quantized(const std::filesystem::path& folder, OnFault on_fault) {
  QuantizedFolder found{io::CheckpointFolder(folder), read_quant_config(folder), {}, {}, {}};
  std::error_code ignored;
  const auto config = folder / "config.json";
  Analysis(found, std::filesystem::exists(config, ignored) ? io::read_json_file(config) : nlohmann::json())
      .run();
  if (on_fault == OnFault::thrown && !found.faults.empty()) {
    const Fault& first = found.faults.front();
    fail(ErrorCode::corrupt_data, "{}: {} {}{}; `minite inspect {} --check` lists every fault",
         folder.string(), printable(first.tensor, 200), first.what,
         found.faults.size() > 1 ? fmt::format(" (and {} faults more)", found.faults.size() - 1) : "",
         folder.string());
  }
  return found;
}

QTensor segment_codes(const StoredModule& module, size_t segment, float& multiplier, float& reciprocal) {
  const Layout& layout = *module.layout;
  QTensor q;
  q.spec = {.format = layout.format, .outer = layout.outer, .convention = layout.convention};
  q.rows = module.rows;
  q.cols = module.cols;
  q.codes = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(module.codes->bytes.data()));
  q.block_scales = const_cast<uint8_t*>(reinterpret_cast<const uint8_t*>(module.scales->bytes.data()));
  if (module.segments.empty()) return q;
  if (layout.outer == OuterScale::row) {
    q.outer = q.amax = const_cast<float*>(module.global.data());
    return q;
  }
  const float stored = module.global[segment];
  const bool inverse = layout.stored == StoredGlobal::reciprocal;
  multiplier = inverse ? 1.0f / stored : stored;
  reciprocal = stored;
  q.outer = &multiplier;
  q.amax = &multiplier;  // of no use for these conventions, which decode with what they store
  q.reciprocal = inverse ? &reciprocal : nullptr;
  return q.slice_rows(module.segments[segment].begin, module.segments[segment].rows);
}

void decode_rows(const Context& ctx, const StoredModule& module, int64_t begin, const TensorView& y) {
  require(begin >= 0 && begin + y.rows <= module.rows && y.cols == module.cols,
          "rows {} to {} of {}, which has {} x {}", begin, begin + y.rows, module.name, module.rows,
          module.cols);
  float multiplier = 1, reciprocal = 1;
  if (module.segments.empty()) {
    if (y.rows > 0)
      ops::dequantize(ctx, {segment_codes(module, 0, multiplier, reciprocal).slice_rows(begin, y.rows), y});
    return;
  }
  for (size_t s = 0; s < module.segments.size(); ++s) {
    const Segment& segment = module.segments[s];
    const int64_t first = std::max(begin, segment.begin),
                  last = std::min(begin + y.rows, segment.begin + segment.rows);
    if (first >= last) continue;
    const QTensor q = segment_codes(module, s, multiplier, reciprocal);
    ops::dequantize(
        ctx, {q.slice_rows(first - segment.begin, last - first), y.slice_rows(first - begin, last - first)});
  }
}

void decode_tensor(const Context& ctx, const QuantizedFolder& folder, const std::string& name,
                   const TensorView& y) {
  const auto module = folder.modules.find(std::string(stem_of(name, kWeight)));
  if (module == folder.modules.end()) return copy_floats(folder.folder.at(name), y);
  require(y.rows == module->second.rows, "{}: {} rows for {}", name, y.rows, module->second.rows);
  decode_rows(ctx, module->second, 0, y);
}

std::map<std::string, std::vector<int64_t>> decoded_shapes(const QuantizedFolder& folder) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, module] : folder.modules) shapes[module.tensor(kWeight)] = module.shape;
  for (const std::string& name : folder.plain) {
    const TensorInfo& info = folder.folder.at(name);
    if (io::is_wide_float(info.type)) shapes[name] = info.shape;
  }
  return shapes;
}

}  // namespace minite::checkpoints
