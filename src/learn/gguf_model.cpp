#include "learn/gguf_model.h"

#include <array>
#include <charconv>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/ggml_blocks.h"
#include "learn/gguf_config.h"

namespace minite::learn {
namespace {

using io::GgufTensor;
using io::GgufType;

/// Whose heads the rows of a tensor are.
enum class Heads : uint8_t { none, query, key };

/// A tensor of a layer, without "blk.N." and ".weight", and without "model.layers.N." and ".weight"; {} is
/// the number of an expert.
struct LayerName {
  std::string_view gguf, hf;
  Heads heads = Heads::none;
  bool experts = false;
};
constexpr std::array<LayerName, 15> kLayerNames = {{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", Heads::query},
    {"attn_k", "self_attn.k_proj", Heads::key},
    {"attn_v", "self_attn.v_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_output", "self_attn.o_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj", Heads::none, true},
    {"ffn_up_exps", "mlp.experts.{}.up_proj", Heads::none, true},
    {"ffn_down_exps", "mlp.experts.{}.down_proj", Heads::none, true},
}};

struct GlobalName {
  std::string_view gguf, hf;
};
constexpr std::array<GlobalName, 3> kGlobalNames = {{{"token_embd.weight", "model.embed_tokens.weight"},
                                                     {"output_norm.weight", "model.norm.weight"},
                                                     {"output.weight", "lm_head.weight"}}};

constexpr std::string_view kWeight = ".weight";
/// What may stand beside a weight: the decode multiplier, and the activations' scale, which is not needed.
constexpr std::array<std::string_view, 2> kSidecars = {".scale", ".input_scale"};

/// "blk.12.attn_q.weight" -> 12 and "attn_q".
struct LayerPart {
  int64_t layer = 0;
  std::string_view rest;
};
std::optional<LayerPart> layer_part(std::string_view name) {
  if (!name.starts_with("blk.") || !name.ends_with(kWeight)) return std::nullopt;
  name = name.substr(4, name.size() - 4 - kWeight.size());
  LayerPart part;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), part.layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  part.rest = name.substr(static_cast<size_t>(end - name.data()) + 1);
  return part;
}

bool is_sidecar(const io::GgufContent& content, std::string_view name) {
  for (const std::string_view ending : kSidecars) {
    if (!name.ends_with(ending)) continue;
    const std::string weight = std::string(name.substr(0, name.size() - ending.size())).append(kWeight);
    return content.tensors.contains(weight);
  }
  return false;
}

/// The sidecar's scales of `name`, one or one an expert; empty: there is none.
std::vector<float> scales_of(const io::GgufFile& file, const std::string& name, int64_t experts) {
  const std::string sidecar = name.substr(0, name.size() - kWeight.size()) + ".scale";
  const auto found = file.content().tensors.find(sidecar);
  if (found == file.content().tensors.end()) return {};
  const GgufTensor& t = found->second;
  std::vector<float> scales(static_cast<size_t>(t.rows() * t.cols()));
  const bool fits = t.type == GgufType::f32 && (scales.size() == 1 || std::ssize(scales) == experts);
  require(fits, "{}: {} has {} elements of {}, expected 1 or {} of F32", file.path().string(), sidecar,
          scales.size(), io::gguf_type(t.type).name, experts);
  io::decode_blocks(t.type, t.bytes, scales);
  return scales;
}

void require_scale(const io::GgufFile& file, const std::string& name, const GgufTensor& t) {
  if (t.type != GgufType::nvfp4) return;
  if (file.has(kNvfp4UnitScaleKey) && file.boolean(kNvfp4UnitScaleKey)) return;
  fail(
      ErrorCode::unsupported,
      "{}: {} is NVFP4 without its {}.scale; without it values may be off by any factor. If the file means a "
      "scale of 1, give it the value {}=true",
      file.path().string(), name, name.substr(0, name.size() - kWeight.size()), kNvfp4UnitScaleKey);
}

}  // namespace

GgufModel::GgufModel(const std::filesystem::path& path) : file_(path), config_(gguf_config(file_)) {
  map_tensors();
}

void GgufModel::map_tensors() {
  for (const std::string& name : file_.content().tensor_order) {
    if (is_sidecar(file_.content(), name) || name == "rope_freqs.weight") continue;
    add(name, file_.content().tensors.at(name));
  }
}

void GgufModel::add(const std::string& name, const GgufTensor& source) {
  GgufModelTensor tensor;
  tensor.source = &source;
  tensor.source_name = name;
  tensor.rows = source.rows();
  tensor.cols = source.cols();
  for (const GlobalName& row : kGlobalNames) {
    if (row.gguf != name) continue;
    if (const auto scales = scales_of(file_, name, 1); !scales.empty()) {
      tensor.scale = scales[0];
    } else {
      require_scale(file_, name, source);
    }
    tensors_[std::string(row.hf)] = tensor;
    return;
  }
  const auto part = layer_part(name);
  const auto row = part ? std::ranges::find(kLayerNames, part->rest, &LayerName::gguf) : kLayerNames.end();
  if (row == kLayerNames.end()) {
    fail(ErrorCode::unsupported, "{}: tensor {} has no place in a model of architecture {}",
         file_.path().string(), printable(name), gguf_architecture(file_).name);
  }
  if (gguf_architecture(file_).interleaved && row->heads != Heads::none)
    tensor.heads = row->heads == Heads::query ? config_.num_attention_heads : config_.num_key_value_heads;
  const int64_t experts = row->experts ? std::max<int64_t>(config_.num_experts, 1) : 1;
  require(tensor.rows % experts == 0 && (tensor.heads == 0 || tensor.rows == tensor.heads * config_.head_dim),
          "{}: {} has {} rows, which does not fit {} experts, {} heads of {}", file_.path().string(), name,
          tensor.rows, experts, tensor.heads, config_.head_dim);
  const std::vector<float> scales = scales_of(file_, name, experts);
  if (scales.empty()) require_scale(file_, name, source);
  tensor.rows /= experts;
  for (int64_t e = 0; e < experts; ++e) {
    tensor.first_row = e * tensor.rows;
    if (!scales.empty()) tensor.scale = scales[scales.size() == 1 ? 0 : static_cast<size_t>(e)];
    std::string hf = fmt::format("model.layers.{}.{}.weight", part->layer, row->hf);
    if (const size_t at = hf.find("{}"); at != hf.npos) hf.replace(at, 2, std::to_string(e));
    tensors_[hf] = tensor;
  }
}

void GgufModel::read(const std::string& name, std::span<bf16> out) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(ErrorCode::not_found, "{} has no {}", file_.path().string(), name);
  const GgufModelTensor& t = found->second;
  require(std::ssize(out) == t.rows * t.cols, "{}: {} has {} values, asked for {}", file_.path().string(),
          name, t.rows * t.cols, out.size());
  const size_t row_bytes = t.source->bytes.size() / static_cast<size_t>(t.source->rows());
  std::vector<float> row(static_cast<size_t>(t.cols));
  const int64_t head = t.heads == 0 ? 0 : t.rows / t.heads;
  for (int64_t r = 0; r < t.rows; ++r) {
    // Row (half b, pair i) of a head is stored as row 2i + b of it.
    int64_t stored = r;
    if (head > 0) stored = r - r % head + 2 * (r % head % (head / 2)) + r % head / (head / 2);
    const auto begin = static_cast<size_t>(t.first_row + stored) * row_bytes;
    io::decode_blocks(t.source->type, t.source->bytes.subspan(begin, row_bytes), row);
    for (int64_t c = 0; c < t.cols; ++c)
      out[static_cast<size_t>(r * t.cols + c)] = bf16(row[static_cast<size_t>(c)] * t.scale);
  }
}

}  // namespace minite::learn
