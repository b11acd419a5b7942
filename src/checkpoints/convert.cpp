#include "checkpoints/convert.h"

#include <algorithm>
#include <array>
#include <set>

#include "checkpoints/convert_plan.h"
#include "checkpoints/convert_run.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "io/digest.h"
#include "io/files.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "minite/version.h"
#include "recipes/glob.h"

namespace minite::checkpoints {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kPolicies = {"refuse", "rescale", "keep"};
constexpr std::array<std::string_view, 7> kFates = {"copied",   "renamed",    "quantized", "decoded",
                                                    "rescaled", "recomputed", "dropped"};

/// Files beside the weights that a model needs: copied as they are.
constexpr std::array<std::string_view, 13> kCopied = {"generation_config.json",
                                                      "tokenizer*",
                                                      "vocab*",
                                                      "merges.txt",
                                                      "special_tokens_map.json",
                                                      "added_tokens.json",
                                                      "chat_template*",
                                                      "*.model",
                                                      "preprocessor_config.json",
                                                      "processor_config.json",
                                                      "LICENSE*",
                                                      "*.tiktoken",
                                                      "*.jinja"};
/// Files that are written anew.
constexpr std::array<std::string_view, 5> kMade = {"config.json", "hf_quant_config.json", io::kIndexName,
                                                   kConversionName, "manifest.json"};

bool is_one_of(std::span<const std::string_view> patterns, std::string_view name) {
  return std::ranges::any_of(patterns, [&](std::string_view p) { return glob_match(p, name); });
}

/// What the bytes depend on. A file is known by its size, the time of its last change and its header.
json identity_of(const ConvertPlan& plan) {
  json files = json::array();
  for (const io::SafetensorsFile& shard : plan.source.folder.shards()) {
    std::error_code ignored;
    const auto time = fs::last_write_time(shard.path(), ignored).time_since_epoch().count();
    std::string names;
    for (const auto& [name, info] : shard.tensors())
      names += fmt::format("{} {} {}\n", name, io::stored_type(info.type).name, fmt::join(info.shape, ","));
    files.push_back({{"file", shard.path().filename().string()},
                     {"bytes", fs::file_size(shard.path(), ignored)},
                     {"changed", time},
                     {"tensors", fmt::format("{:016x}", io::digest64(names))}});
  }
  const ConvertOptions& o = plan.options;
  return {{"source", files},
          {"version", MINITE_VERSION_STRING},
          {"options",
           {{"to", to_string(o.to)},
            {"layout", plan.layout == nullptr ? "" : plan.layout->name},
            {"quantize", plan.source.modules.empty() && plan.layout != nullptr ? to_string(o.spec) : ""},
            {"activations", to_string(plan.activations)},
            {"ignore", o.ignore},
            {"fused", to_string(o.fused)},
            {"input_amax", o.input_amax},
            {"shard_bytes", o.shard_bytes}}}};
}

std::string source_label(const ConvertPlan& plan) {
  if (plan.source.modules.empty()) return "BF16";
  return std::string(plan.source.modules.begin()->second.layout->name);
}

/// config.json without, or with another, quantization_config. ModelOpt's other file as well.
void write_configs(const ConvertPlan& plan, const fs::path& to) {
  const fs::path from = plan.source.folder.path();
  std::error_code ignored;
  ordered_json config = ordered_json::object();
  if (fs::exists(from / "config.json", ignored)) {
    const json read = io::read_json_file(from / "config.json");
    require(read.is_object(), "{} is no object", (from / "config.json").string());
    config = read;
  }
  config.erase("quantization_config");
  if (plan.layout != nullptr) {
    const QuantClaim claim{plan.layout, plan.activations, plan.ignore,
                           plan.source.config ? plan.source.config->kv_cache : json()};
    config["quantization_config"] = config_section(claim);
    const ordered_json hf = hf_quant_document(claim);
    if (!hf.is_null()) write_file_atomically(to / "hf_quant_config.json", hf.dump(2) + "\n");
  }
  write_file_atomically(to / "config.json", config.dump(2) + "\n");
}

void write_conversion(const ConvertPlan& plan, const ConvertReport& report, const fs::path& to) {
  std::map<std::string, json> originals;
  for (const Original& original : plan.originals) {
    json& list = originals[original.tensor];
    while (list.size() <= static_cast<size_t>(original.index)) list.push_back(nullptr);
    list[static_cast<size_t>(original.index)] = original.value;
  }
  json rescaled = json::array();
  for (const RescaleLoss& loss : report.rescaled)
    rescaled.push_back({{"module", loss.module},
                        {"ratio", loss.ratio},
                        {"blocks", loss.blocks},
                        {"underflows", loss.underflows},
                        {"relative_l2", loss.relative_l2()}});
  const bool made = plan.source.modules.empty() && plan.layout != nullptr;
  ordered_json document = {
      {"program", "minite convert"},
      {"version", MINITE_VERSION_STRING},
      {"from", report.from},
      {"to", report.to},
      {"quantized_as", made ? ordered_json(to_string(plan.options.spec)) : ordered_json()},
      {"rescaled", rescaled},
      {"originals", originals}};
  write_file_atomically(to / kConversionName, document.dump(2) + "\n");
}

void copy_files(const io::CheckpointFolder& source, const fs::path& to, ConvertReport& report) {
  const fs::path& from = source.path();
  std::set<std::string> shards;
  for (const io::SafetensorsFile& shard : source.shards()) shards.insert(shard.path().filename().string());
  for (const std::string& name : io::list_entries(from)) {
    std::error_code ignored;
    if (!fs::is_regular_file(from / name, ignored)) {
      if (name.front() != '.') report.left_files.push_back(name);
      continue;
    }
    if (is_one_of(kMade, name) || shards.contains(name)) continue;
    if (!is_one_of(kCopied, name)) {
      report.left_files.push_back(name);
      continue;
    }
    const io::MappedFile file(from / name);
    write_file_atomically(to / name,
                          {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
    report.files.push_back(name);
  }
}

}  // namespace

std::string_view to_string(FusedPolicy policy) { return kPolicies[static_cast<size_t>(policy)]; }
std::string_view to_string(Fate fate) { return kFates[static_cast<size_t>(fate)]; }

FusedPolicy parse_fused_policy(std::string_view name) {
  for (size_t i = 0; i < kPolicies.size(); ++i) {
    if (kPolicies[i] == name) return static_cast<FusedPolicy>(i);
  }
  fail(ErrorCode::not_found, "--fused {}: expected {}{}", name, fmt::join(kPolicies, ", "),
       did_you_mean(name, {kPolicies.begin(), kPolicies.end()}));
}

ConvertReport convert(const Context& ctx, const fs::path& source, const fs::path& target,
                      const ConvertOptions& options, const ConvertProgress& progress) {
  const ConvertPlan plan = plan_conversion(source, options);
  ConvertReport report;
  report.from = source_label(plan);
  report.to = plan.layout == nullptr ? "BF16" : std::string(plan.layout->name);
  report.tensors = plan.fates;
  report.inexact_globals = static_cast<int64_t>(plan.originals.size());
  report.source_bytes = plan.source.folder.bytes();

  std::vector<io::ShardUnit> outputs;
  for (const ConvertUnit& unit : plan.units) outputs.push_back(unit.outputs);
  io::ShardedFolder folder(target, identity_of(plan), std::move(outputs), options.shard_bytes,
                           {{"format", "pt"}});
  report.kept_shards = static_cast<int64_t>(folder.done_count());
  report.shards = static_cast<int64_t>(folder.shards().size());
  for (const io::Shard& shard : folder.shards()) report.bytes += shard.bytes;

  UnitMaker maker(ctx, plan);
  int64_t done = 0;
  for (size_t s = 0; s < folder.shards().size(); ++s) {
    if (folder.done(s)) {
      done += folder.shards()[s].bytes;
      continue;
    }
    folder.write(s, [&](size_t u, io::SafetensorsWriter& writer) {
      maker.make(plan.units[u], [&](const std::string& name, std::span<const std::byte> bytes) {
        writer.put_next(name, bytes);
        done += static_cast<int64_t>(bytes.size());
        if (progress) progress(done, report.bytes);
      });
    });
  }
  for (const ConvertUnit& unit : plan.units) {
    for (RescaleLoss& loss : UnitMaker::losses(unit)) report.rescaled.push_back(std::move(loss));
  }
  write_configs(plan, folder.path());
  copy_files(plan.source.folder, folder.path(), report);
  write_conversion(plan, report, folder.path());
  folder.commit();
  return report;
}

}  // namespace minite::checkpoints
