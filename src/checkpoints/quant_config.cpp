#include "checkpoints/quant_config.h"

#include "core/fail.h"
#include "core/utf8.h"
#include "io/json_file.h"
#include "minite/version.h"

namespace minite::checkpoints {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 80);
}

/// A JSON object with the file and the path to it, for messages.
struct Section {
  const json& object;
  std::string where;

  [[nodiscard]] const json* find(const char* key) const {
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string())
      fail(ErrorCode::corrupt_data, "{}.{} is {}, expected a text", where, key, shown(*value));
    return value->get<std::string>();
  }
  [[nodiscard]] int64_t integer(const char* key, int64_t missing) const {
    const json* value = find(key);
    if (value == nullptr) return missing;
    if (!value->is_number_integer())
      fail(ErrorCode::corrupt_data, "{}.{} is {}, expected a whole number", where, key, shown(*value));
    return value->get<int64_t>();
  }
  /// The texts under `key`; none when it is missing.
  [[nodiscard]] std::vector<std::string> texts(const char* key) const {
    const json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_array())
      fail(ErrorCode::corrupt_data, "{}.{} is {}, expected a list of names", where, key, shown(*value));
    std::vector<std::string> names;
    for (const json& name : *value) {
      if (!name.is_string())
        fail(ErrorCode::corrupt_data, "{}.{} holds {}, expected names", where, key, shown(name));
      names.push_back(name.get<std::string>());
    }
    return names;
  }
  [[nodiscard]] Section child(const char* key) const {
    const json* value = find(key);
    if (value == nullptr || !value->is_object())
      fail(ErrorCode::corrupt_data, "{}.{} is {}, expected an object", where, key,
           value == nullptr ? "missing" : shown(*value));
    return {*value, where + "." + key};
  }
};

// --- ModelOpt --------------------------------------------------------------------------------------

/// Layout and activations of a quant_algo.
QuantGroup modelopt_group(const std::string& algo, const Section& section, std::vector<std::string> targets) {
  for (const Layout& row : layouts()) {
    if (row.container != Container::modelopt || algo.empty()) continue;
    const bool weights_only = row.label_weights_only == algo;
    if (row.label != algo && !weights_only) continue;
    const int64_t block = format(row.format).block, group_size = section.integer("group_size", block);
    if (group_size != block)
      fail(ErrorCode::unsupported, "{}: {} with group_size {}; blocks have {} elements", section.where, algo,
           group_size, block);
    return {&row, weights_only ? Activations::a16 : row.narrow,
            NameList(Container::plain, std::move(targets))};
  }
  std::vector<std::string_view> known;
  for (const Layout& row : layouts()) {
    if (row.container != Container::modelopt) continue;
    known.push_back(row.label);
    if (!row.label_weights_only.empty()) known.push_back(row.label_weights_only);
  }
  fail(ErrorCode::unsupported, "{}: quant_algo '{}' is not read; known: {}", section.where, printable(algo),
       fmt::join(known, ", "));
}

/// Of either file: the keys have other names in the two.
QuantConfig modelopt_config(const Section& section, const char* ignore, const char* kv) {
  const std::string algo = section.text("quant_algo");
  QuantConfig config{Container::modelopt,
                     {},
                     NameList(Container::modelopt, section.texts(ignore)),
                     section.find(kv) == nullptr ? json() : *section.find(kv),
                     section.where,
                     "modelopt " + algo};
  if (const json* layers = section.find("quantized_layers")) {
    const Section all = section.child("quantized_layers");
    for (const auto& [module, row] : layers->items()) {
      const Section layer = all.child(module.c_str());
      config.groups.push_back(modelopt_group(layer.text("quant_algo"), layer, {module}));
    }
    return config;
  }
  config.groups.push_back(modelopt_group(algo, section, {"*"}));
  return config;
}

// --- compressed-tensors ----------------------------------------------------------------------------

/// Recognition as compressed-tensors does it: by bits, group size and type of the scales.
const Layout& compressed_layout(const Section& weights) {
  const int64_t bits = weights.integer("num_bits", 0), size = weights.integer("group_size", 0);
  const std::string type = weights.text("type");
  for (const Layout& row : layouts()) {
    if (row.container != Container::compressed_tensors) continue;
    const Format& numbers = format(row.format);
    if (type == "float" && numbers.bits == bits && numbers.block == size) return row;
  }
  fail(ErrorCode::unsupported,
       "{}: weights of {} bits, type '{}', group_size {} are not read; known are {} of compressed-tensors",
       weights.where, bits, printable(type), size, formats_of(Container::compressed_tensors));
}

QuantConfig compressed_config(const Section& section) {
  QuantConfig config{Container::compressed_tensors,
                     {},
                     NameList(Container::compressed_tensors, section.texts("ignore")),
                     section.find("kv_cache_scheme") == nullptr ? json() : *section.find("kv_cache_scheme"),
                     section.where,
                     "compressed-tensors " + section.text("format")};
  const Section groups = section.child("config_groups");
  for (const auto& [name, row] : groups.object.items()) {
    const Section group = groups.child(name.c_str());
    const Layout& layout = compressed_layout(group.child("weights"));
    const bool narrow = group.find("input_activations") != nullptr;
    config.groups.push_back({&layout, narrow ? layout.narrow : Activations::a16,
                             NameList(Container::compressed_tensors, group.texts("targets"))});
  }
  if (config.groups.empty())
    fail(ErrorCode::corrupt_data, "{}: says that something is quantized, and not what", groups.where);
  return config;
}

json read_if_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? io::read_json_file(path) : json();
}

// --- writing ---------------------------------------------------------------------------------------

using nlohmann::ordered_json;

/// FP8 keys and values are the only ones that both containers have words for.
ordered_json kv_scheme(const QuantClaim& claim) {
  if (claim.kv_cache.is_null()) return nullptr;
  if (claim.kv_cache.is_object()) return claim.kv_cache;
  const ordered_json fp8 = {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
  if (claim.kv_cache == "FP8" && claim.layout->container == Container::modelopt) return fp8;
  if (claim.kv_cache == "FP8") {
    ordered_json scheme = fp8;
    scheme["strategy"] = "tensor";
    scheme["symmetric"] = true;
    return scheme;
  }
  return claim.kv_cache;
}
ordered_json kv_algo(const QuantClaim& claim) {
  const auto is = [&](const char* key, const json& value) {
    return claim.kv_cache.contains(key) && claim.kv_cache[key] == value;
  };
  if (claim.kv_cache.is_object() && is("num_bits", 8) && is("type", "float")) return "FP8";
  return claim.kv_cache;
}

std::string_view label_of(const QuantClaim& claim) {
  return claim.activations == Activations::a16 ? claim.layout->label_weights_only : claim.layout->label;
}

ordered_json modelopt_numbers(const Format& row) {
  return {{"num_bits", row.bits}, {"type", "float"}, {"group_size", row.block}, {"dynamic", false}};
}
ordered_json modelopt_section(const QuantClaim& claim) {
  const Format& row = format(claim.layout->format);
  ordered_json group = {{"weights", modelopt_numbers(row)}};
  if (claim.activations != Activations::a16) {
    group["input_activations"] = modelopt_numbers(row);
    group["input_activations"]["dynamic"] = claim.layout->stored == StoredGlobal::none;
  }
  group["targets"] = {"Linear"};
  ordered_json section = {{"config_groups", {{"group_0", group}}},
                          {"ignore", claim.ignore},
                          {"quant_algo", label_of(claim)},
                          {"producer", {{"name", "minite"}, {"version", MINITE_VERSION_STRING}}},
                          {"quant_method", to_string(Container::modelopt)}};
  if (!claim.kv_cache.is_null()) section["kv_cache_scheme"] = kv_scheme(claim);
  return section;
}

ordered_json compressed_numbers(const Layout& layout, bool activations) {
  const Format& row = format(layout.format);
  const bool two_level = layout.stored != StoredGlobal::none;
  ordered_json numbers = {{"num_bits", row.bits},
                          {"type", "float"},
                          {"strategy", two_level ? "tensor_group" : "group"},
                          {"group_size", row.block},
                          {"symmetric", true},
                          {"dynamic", false},
                          {"scale_dtype", two_level ? "torch.float8_e4m3fn" : "torch.uint8"},
                          {"observer", nullptr}};
  if (activations) numbers["dynamic"] = two_level ? ordered_json("local") : ordered_json(true);
  return numbers;
}
ordered_json compressed_section(const QuantClaim& claim) {
  ordered_json group = {{"targets", {"Linear"}},
                        {"weights", compressed_numbers(*claim.layout, false)},
                        {"input_activations", nullptr},
                        {"output_activations", nullptr},
                        {"format", label_of(claim)}};
  if (claim.activations != Activations::a16)
    group["input_activations"] = compressed_numbers(*claim.layout, true);
  return {{"config_groups", {{"group_0", group}}},
          {"format", label_of(claim)},
          {"ignore", claim.ignore},
          {"kv_cache_scheme", kv_scheme(claim)},
          {"quant_method", to_string(Container::compressed_tensors)},
          {"quantization_status", "compressed"},
          {"global_compression_ratio", nullptr}};
}

}  // namespace

const QuantGroup* QuantConfig::group_of(const std::string& module) const {
  if (ignore.matches(module)) return nullptr;
  for (const QuantGroup& group : groups) {
    if (group.targets.matches(module)) return &group;
  }
  return nullptr;
}

std::optional<QuantConfig> parse_quant_config(const json& config, const json& hf_quant_config,
                                              const std::string& folder) {
  const auto section = config.is_object() ? config.find("quantization_config") : config.end();
  if (config.is_object() && section != config.end() && !section->is_null()) {
    const std::string where = folder + "/config.json: quantization_config";
    if (!section->is_object())
      fail(ErrorCode::corrupt_data, "{} is {}, expected an object", where, shown(*section));
    const Section all{*section, where};
    const std::string method = all.text("quant_method");
    if (method == to_string(Container::compressed_tensors)) return compressed_config(all);
    if (method.starts_with(to_string(Container::modelopt)))
      return modelopt_config(all, "ignore", "kv_cache_scheme");
    fail(ErrorCode::unsupported, "{}: quant_method '{}' is not read; known: {}, {}", where, printable(method),
         to_string(Container::modelopt), to_string(Container::compressed_tensors));
  }
  if (hf_quant_config.is_null()) return std::nullopt;
  const std::string where = folder + "/hf_quant_config.json";
  if (!hf_quant_config.is_object())
    fail(ErrorCode::corrupt_data, "{} is {}, expected an object", where, shown(hf_quant_config));
  return modelopt_config(Section{hf_quant_config, where}.child("quantization"), "exclude_modules",
                         "kv_cache_quant_algo");
}

std::optional<QuantConfig> read_quant_config(const std::filesystem::path& folder) {
  return parse_quant_config(read_if_there(folder / "config.json"),
                            read_if_there(folder / "hf_quant_config.json"), folder.string());
}

nlohmann::ordered_json config_section(const QuantClaim& claim) {
  return claim.layout->container == Container::modelopt ? modelopt_section(claim) : compressed_section(claim);
}

nlohmann::ordered_json hf_quant_document(const QuantClaim& claim) {
  if (claim.layout->container != Container::modelopt) return nullptr;
  return {{"producer", {{"name", "minite"}, {"version", MINITE_VERSION_STRING}}},
          {"quantization",
           {{"quant_algo", label_of(claim)},
            {"kv_cache_quant_algo", kv_algo(claim)},
            {"group_size", format(claim.layout->format).block},
            {"exclude_modules", claim.ignore}}}};
}

}  // namespace minite::checkpoints
