#include "checkpoints/gguf_export.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/convert_run.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/float_values.h"
#include "io/ggml_blocks.h"
#include "io/json_file.h"

namespace minite::checkpoints {
namespace fs = std::filesystem;
namespace {

using io::GgufType;
using io::GgufValueType;
using nlohmann::json;

struct GgufFamily {
  std::string_view model_type, architecture;
  bool permuted;  ///< rows of q and k
};
constexpr std::array<GgufFamily, 3> kFamilies = {
    {{"llama", "llama", true}, {"qwen3", "qwen3", false}, {"qwen3_moe", "qwen3moe", false}}};

/// A value of the model that config.json has under another name.
struct ModelValue {
  std::string_view gguf;
  const char* config;
  bool required;
};
constexpr std::array<ModelValue, 10> kIntegers = {
    {{"context_length", "max_position_embeddings", true},
     {"embedding_length", "hidden_size", true},
     {"block_count", "num_hidden_layers", true},
     {"feed_forward_length", "intermediate_size", true},
     {"attention.head_count", "num_attention_heads", true},
     {"attention.head_count_kv", "num_key_value_heads", true},
     {"vocab_size", "vocab_size", true},
     {"expert_count", "num_experts", false},
     {"expert_used_count", "num_experts_per_tok", false},
     {"expert_feed_forward_length", "moe_intermediate_size", false}}};
constexpr int64_t kMostlyBf16 = 32, kMostlyNvfp4 = 26;  // ggml.h, enum of file types

const GgufFamily& family_of(const json& config, const std::string& where) {
  const bool named = config.is_object() && config.contains("model_type") && config["model_type"].is_string();
  const std::string type = named ? config["model_type"].get<std::string>() : "";
  std::vector<std::string_view> known;
  for (const GgufFamily& row : kFamilies) {
    if (row.model_type == type) return row;
    known.push_back(row.model_type);
  }
  fail(ErrorCode::unsupported, "{}/config.json: model_type '{}' has no GGUF names here; known: {}", where,
       printable(type), fmt::join(known, ", "));
}

int64_t integer_of(const json& config, const char* key, const std::string& where) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number_integer() || it->get<int64_t>() < 1 ||
      it->get<int64_t>() > (int64_t{1} << 30))
    fail(ErrorCode::invalid_argument, "{}/config.json: {} is missing or no number from 1 to 2^30", where,
         key);
  return it->get<int64_t>();
}

/// head_dim, or what the sizes say.
int64_t head_size(const json& config, const std::string& where) {
  if (config.contains("head_dim") && !config["head_dim"].is_null())
    return integer_of(config, "head_dim", where);
  return integer_of(config, "hidden_size", where) / integer_of(config, "num_attention_heads", where);
}

double rope_theta(const json& config) {
  if (config.contains("rope_theta") && config["rope_theta"].is_number())
    return config["rope_theta"].get<double>();
  const json parameters = config.contains("rope_parameters") ? config["rope_parameters"] : json();
  const bool named =
      parameters.is_object() && parameters.contains("rope_theta") && parameters["rope_theta"].is_number();
  return named ? parameters["rope_theta"].get<double>() : 10000.0;
}

void put_model(const GgufFamily& family, const json& config, const std::string& where, bool quantized,
               io::GgufValues& values) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", family.architecture, name); };
  if (config.contains("rope_scaling") && !config["rope_scaling"].is_null())
    fail(ErrorCode::unsupported, "{}/config.json: rope_scaling is not written to GGUF files", where);
  values.put_text("general.architecture", family.architecture);
  values.put_integer("general.file_type", GgufValueType::u32, quantized ? kMostlyNvfp4 : kMostlyBf16);
  values.put_integer("general.quantization_version", GgufValueType::u32, 2);
  for (const ModelValue& row : kIntegers) {
    if (!row.required && !config.contains(row.config)) continue;
    values.put_integer(key(row.gguf), GgufValueType::u32, integer_of(config, row.config, where));
  }
  const int64_t head = head_size(config, where);
  for (const char* name : {"attention.key_length", "attention.value_length", "rope.dimension_count"})
    values.put_integer(key(name), GgufValueType::u32, head);
  values.put_number(key("rope.freq_base"), static_cast<float>(rope_theta(config)));
  values.put_number(key("attention.layer_norm_rms_epsilon"),
                    static_cast<float>(config.contains("rms_norm_eps") && config["rms_norm_eps"].is_number()
                                           ? config["rms_norm_eps"].get<double>()
                                           : 1e-6));
}

/// A tensor of the file and what it still waits for.
struct Pending {
  io::GgufTensorShape shape;
  std::vector<std::byte> bytes;
  int64_t parts = 0, announced = 0, filled = 0;  ///< experts, or 1
};

/// What a unit gave for one module or tensor.
struct Made {
  std::vector<std::byte> codes, scales;
  std::vector<float> global, input;
};

class Exporter {
 public:
  Exporter(const ConvertPlan& plan, const GgufFamily& family, const json& config)
      : plan_(plan), family_(family), config_(config), where_(plan.source.folder.path().string()) {}

  /// Every tensor of the file, in the natural order of names, whatever the source is.
  std::vector<io::GgufTensorShape> announce() {
    for (const ConvertUnit& unit : plan_.units) {
      for (const Member& member : unit.members) announce(unit, member);
    }
    std::vector<io::GgufTensorShape> shapes;
    std::sort(order_.begin(), order_.end(), io::natural_less);
    for (const std::string& name : order_) {
      Pending& pending = pending_.at(name);
      require(pending.announced == pending.parts, "{}: {} of {} experts of {} are there", where_,
              pending.announced, pending.parts, name);
      if (pending.parts > 1 || expert_tensors_.contains(name))
        pending.shape.shape.insert(pending.shape.shape.begin(), pending.parts);
      shapes.push_back(pending.shape);
    }
    return shapes;
  }

  void make(UnitMaker& maker, const ConvertUnit& unit, io::GgufWriter& writer) {
    std::map<std::string, std::vector<std::byte>> parts;
    maker.make(unit, [&](const std::string& name, std::span<const std::byte> bytes) {
      std::vector<std::byte>& part = parts[name];
      part.insert(part.end(), bytes.begin(), bytes.end());
    });
    for (const Member& member : unit.members) {
      if (is_dropped(unit, member)) continue;
      is_coded(unit) ? put_codes(member, parts, writer) : put_dense(unit, member, parts, writer);
    }
  }

 private:
  static bool is_coded(const ConvertUnit& unit) {
    return unit.making == Making::quantize || unit.making == Making::transfer;
  }
  static bool is_dropped(const ConvertUnit& unit, const Member& member) {
    return unit.making == Making::copy && is_kv_scale_name(member.name);
  }
  /// The module of a member: copies are named by their tensor.
  std::string module_of(const ConvertUnit& unit, const Member& member) const {
    return unit.making == Making::copy ? std::string(stem_of(member.name, ".weight")) : member.name;
  }
  GgufName name_of(const ConvertUnit& unit, const Member& member) const {
    const GgufName name = gguf_name(module_of(unit, member));
    if (name.name.empty())
      fail(ErrorCode::unsupported, "{}: {} has no name in a GGUF file of {}", where_, printable(member.name),
           family_.architecture);
    return name;
  }

  void announce(const ConvertUnit& unit, const Member& member) {
    if (is_dropped(unit, member)) return;
    const GgufName name = name_of(unit, member);
    std::vector<int64_t> shape = {member.rows, member.cols};
    if (unit.making == Making::copy) shape = member.dense->shape;
    if (unit.making == Making::decode) shape = member.stored->shape;
    require(shape.size() == 1 || shape.size() == 2,
            "{}: {} has {} dimensions; experts are written one by one", where_, member.name, shape.size());
    if (is_coded(unit)) {
      require(
          member.cols % 64 == 0,
          "{}: {} has K = {}, and NVFP4 blocks of GGUF hold 64 elements; leave it in BF16 with --ignore '{}'",
          where_, member.name, member.cols, member.name);
      add(name, ".weight", GgufType::nvfp4, shape);
      add(name, ".scale", GgufType::f32, {1});
      if (!member.input.empty()) add(name, ".input_scale", GgufType::f32, {1});
      return;
    }
    add(name, ".weight", plain_type(name.name, shape), shape);
  }

  /// Norms and routers are read in F32.
  static GgufType plain_type(const std::string& name, const std::vector<int64_t>& shape) {
    return shape.size() == 1 || name.ends_with("ffn_gate_inp") ? GgufType::f32 : GgufType::bf16;
  }

  void add(const GgufName& name, std::string_view suffix, GgufType type, std::vector<int64_t> shape) {
    const std::string full = name.name + std::string(suffix);
    if (name.expert >= 0 && suffix != ".weight") shape.clear();
    const auto [it, added] = pending_.emplace(full, Pending{{full, type, std::move(shape)}, {}, 0, 0, 0});
    require(added || name.expert >= 0, "{}: two tensors are {} in a GGUF file", where_, full);
    if (added) order_.push_back(full);
    if (name.expert >= 0) expert_tensors_.insert(full);
    it->second.parts = std::max({it->second.parts, name.expert + 1, int64_t{1}});
    ++it->second.announced;
  }

  /// One expert's part, or all; the tensor is written when it is whole.
  void fill(const GgufName& name, std::string_view suffix, std::span<const std::byte> part,
            io::GgufWriter& writer) {
    const std::string full = name.name + std::string(suffix);
    Pending& pending = pending_.at(full);
    const auto index = static_cast<size_t>(std::max<int64_t>(0, name.expert));
    pending.bytes.resize(part.size() * static_cast<size_t>(pending.parts));
    if (!part.empty()) std::memcpy(pending.bytes.data() + index * part.size(), part.data(), part.size());
    if (++pending.filled < pending.parts) return;
    writer.put(full, pending.bytes);
    pending.bytes = {};
  }

  /// Heads whose rows are permuted: of q, of k, or 0.
  int64_t permuted_heads(const std::string& gguf) const {
    if (!family_.permuted) return 0;
    if (gguf.ends_with(".attn_q")) return integer_of(config_, "num_attention_heads", where_);
    if (gguf.ends_with(".attn_k")) return integer_of(config_, "num_key_value_heads", where_);
    return 0;
  }

  /// Rows of `bytes` in the file's order.
  std::vector<std::byte> permuted(const std::string& gguf, std::span<const std::byte> bytes,
                                  int64_t rows) const {
    const int64_t heads = permuted_heads(gguf);
    std::vector<std::byte> result(bytes.begin(), bytes.end());
    if (heads == 0 || rows == 0) return result;
    require(rows % (2 * heads) == 0, "{}: {} rows of {} are no {} heads of even size", where_, rows, gguf,
            heads);
    const size_t stride = bytes.size() / static_cast<size_t>(rows);
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(result.data() + static_cast<size_t>(r) * stride,
                  bytes.data() + static_cast<size_t>(llama_row(r, rows, heads)) * stride, stride);
    return result;
  }

  void put_codes(const Member& member, std::map<std::string, std::vector<std::byte>>& parts,
                 io::GgufWriter& writer) {
    const GgufName name = gguf_name(member.name);
    const Layout& layout = *plan_.layout;
    std::vector<std::byte> codes =
        permuted(name.name, parts.at(member.name + std::string(layout.codes)), member.rows);
    std::vector<std::byte> scales =
        permuted(name.name, parts.at(member.name + std::string(layout.scales)), member.rows);
    for (std::byte& scale : scales) scale &= std::byte{0x7F};
    QTensor q;
    q.spec = {.format = layout.format, .convention = Convention::ggml};
    q.rows = member.rows;
    q.cols = member.cols;
    q.codes = reinterpret_cast<uint8_t*>(codes.data());
    q.block_scales = reinterpret_cast<uint8_t*>(scales.data());
    std::vector<std::byte> blocks(static_cast<size_t>(member.rows * member.cols / 64 * 36));
    io::pack_blocks(GgufType::nvfp4, q, blocks);
    fill(name, ".weight", blocks, writer);
    fill(name, ".scale", parts.at(member.name + std::string(layout.global)), writer);
    if (!member.input.empty())
      fill(name, ".input_scale", parts.at(member.name + std::string(layout.input_global)), writer);
  }

  void put_dense(const ConvertUnit& unit, const Member& member,
                 std::map<std::string, std::vector<std::byte>>& parts, io::GgufWriter& writer) {
    const GgufName name = name_of(unit, member);
    const io::NamedShape& output = unit.outputs.front();
    const io::TensorInfo info{output.shape.type, output.shape.shape, parts.at(output.name)};
    const io::FloatValues values = io::load_floats(info);
    const GgufType type = plain_type(name.name, output.shape.shape);
    std::vector<std::byte> bytes(static_cast<size_t>(info.count() * io::gguf_type(type).bytes));
    std::vector<float> wide(static_cast<size_t>(info.count()));
    for (size_t k = 0; k < wide.size(); ++k)
      wide[k] = values.dtype == DType::bf16
                    ? static_cast<float>(reinterpret_cast<const bf16*>(values.memory.data())[k])
                    : reinterpret_cast<const float*>(values.memory.data())[k];
    io::encode_blocks(type, wide, bytes);
    const int64_t rows = output.shape.shape.size() == 2 ? output.shape.shape[0] : 1;
    fill(name, ".weight", permuted(name.name, bytes, rows), writer);
  }

  const ConvertPlan& plan_;
  const GgufFamily& family_;
  const json& config_;
  std::string where_;
  std::map<std::string, Pending> pending_;
  std::set<std::string> expert_tensors_;
  std::vector<std::string> order_;
};

}  // namespace

ConvertReport export_gguf(const Context& ctx, const fs::path& source, const fs::path& target,
                          ConvertOptions options, TokenizerPart tokenizer, const ConvertProgress& progress) {
  std::error_code ignored;
  require(!fs::exists(target, ignored), "{} exists already; remove it or name another file", target.string());
  // ModelOpt's multipliers are what GGUF's sidecars hold: the plan is the one for ModelOpt.
  const bool quantized = options.spec.quantized();
  options.to = quantized ? Container::modelopt : Container::plain;
  if (options.fused == FusedPolicy::refuse) options.fused = FusedPolicy::keep;  // llama.cpp does not fuse
  const ConvertPlan plan = plan_conversion(source, options);
  require(plan.layout == nullptr || (plan.layout->stored == StoredGlobal::multiplier && plan.layout->scalar),
          "a GGUF file holds nvfp4 with one outer scale a tensor, not {}; take --format bf16 or convert from "
          "BF16",
          plan.layout == nullptr ? "" : plan.layout->name);
  const json config = io::read_json_file(source / "config.json");
  const GgufFamily& family = family_of(config, source.string());
  io::GgufValues values;
  put_model(family, config, source.string(), quantized, values);
  if (tokenizer == TokenizerPart::required) put_gguf_tokenizer(source, config, values);

  Exporter exporter(plan, family, config);
  const std::vector<io::GgufTensorShape> shapes = exporter.announce();
  ConvertReport report;
  report.from =
      plan.source.modules.empty() ? "BF16" : std::string(plan.source.modules.begin()->second.layout->name);
  report.to = quantized ? "GGUF NVFP4" : "GGUF BF16";
  report.tensors = plan.fates;
  for (TensorFate& row : report.tensors) {
    if (!is_kv_scale_name(row.from)) continue;
    row = {row.from, "", Fate::dropped, "llama.cpp has no scales of keys and values"};
  }
  report.source_bytes = plan.source.folder.bytes();
  report.shards = 1;
  io::GgufWriter writer(target, values, shapes);
  UnitMaker maker(ctx, plan);
  int64_t done = 0;
  for (const ConvertUnit& unit : plan.units) {
    exporter.make(maker, unit, writer);
    for (const Member& member : unit.members)
      done += static_cast<int64_t>(member.dense != nullptr ? member.dense->bytes.size()
                                                           : member.stored->codes->bytes.size());
    if (progress) progress(done, report.source_bytes);
  }
  writer.commit();
  report.bytes = static_cast<int64_t>(fs::file_size(target, ignored));
  return report;
}

}  // namespace minite::checkpoints
