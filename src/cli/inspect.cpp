// minite inspect PATH [--check]: what is in a safetensors file, a folder of them or a GGUF file, and what is
// wrong with it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoints/folder_check.h"
#include "cli/inspect_gguf.h"
#include "cli/output.h"
#include "cli/quantized_groups.h"
#include "cli/verb.h"
#include "core/utf8.h"
#include "io/gguf.h"
#include "minite/error.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

struct Args {
  std::string path;
  bool check = false;
  ReportStyle style = ReportStyle::text;
};

struct Total {
  int64_t tensors = 0, elements = 0, bytes = 0;
  void add(const io::TensorInfo& info) {
    ++tensors;
    elements += info.count();
    bytes += static_cast<int64_t>(info.bytes.size());
  }
};

/// Everything that is said.
struct Inspection {
  TensorSet set;
  std::vector<std::vector<QuantizedGroup>> groups;  ///< of each space
  std::vector<Fault> faults;
  Total all;
  std::map<std::string, Total> by_dtype;
};

/// Faults of a quantized folder as a whole, where nothing is said of the tensor already. A container that
/// cannot be read has its fault in the list.
void add_folder_faults(const std::string& path, Inspection& result) {
  try {
    for (checkpoints::Fault& fault : checkpoints::check_folder(path)) {
      const bool known = std::ranges::any_of(result.faults, [&](const Fault& other) {
        return !fault.tensor.empty() && other.tensor == fault.tensor;
      });
      if (!known) result.faults.push_back({fault.file, fault.tensor, fault.what});
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt_data) throw;
    if (result.faults.empty()) result.faults.push_back({"", "", error.what()});
  }
}

Inspection inspect(const Args& args) {
  Inspection result;
  result.set = open_tensors(args.path, args.check ? Damage::listed : Damage::thrown);
  result.faults = result.set.faults;
  for (const TensorSpace& space : result.set.spaces) {
    result.groups.push_back(find_groups(space, result.faults));
    if (args.check) check_values(space, result.groups.back(), result.faults);
    for (const auto& [name, entry] : space.tensors) {
      result.all.add(entry.info);
      result.by_dtype[std::string(io::stored_type(entry.info.type).name)].add(entry.info);
    }
  }
  if (args.check && std::filesystem::is_directory(args.path)) add_folder_faults(args.path, result);
  return result;
}

std::string outer_text(const QuantizedGroup& group) {
  return group.outer == nullptr ? "-" : shape_text(group.outer->info.shape);
}

std::string fault_text(const Fault& fault) {
  return fault.tensor.empty() ? fmt::format("{}: {}", fault.file, fault.what)
                              : fmt::format("{}: \"{}\" {}", fault.file, printable(fault.tensor), fault.what);
}

std::string to_text(const Inspection& found, const Args& args) {
  std::string text = fmt::format("{}: {}\n", args.path, found.set.kind);
  if (!found.set.quant_method.empty()) text += fmt::format("configured as {}\n", found.set.quant_method);
  for (size_t s = 0; s < found.set.spaces.size(); ++s) {
    const TensorSpace& space = found.set.spaces[s];
    Table tensors({"tensor", "dtype", "shape", "bytes", "file"});
    for (const auto& [name, entry] : space.tensors)
      tensors.add({printable(name), std::string(io::stored_type(entry.info.type).name),
                   shape_text(entry.info.shape), fmt::format("{}", entry.info.bytes.size()), entry.file});
    text += fmt::format("\n{}\n{}", space.label, tensors.to_text(2));
    if (found.groups[s].empty()) continue;
    Table groups({"quantized tensor", "format", "shape", "outer scales", "stored as"});
    for (const QuantizedGroup& group : found.groups[s])
      groups.add({printable(group.name), group.format, shape_text(group.shape), outer_text(group),
                  std::string(group.scheme->name)});
    text += "\n" + groups.to_text(2);
  }
  Table totals({"dtype", "tensors", "elements", "bytes"});
  const auto line = [&](const std::string& name, const Total& total) {
    totals.add({name, fmt::format("{}", total.tensors), fmt::format("{}", total.elements),
                fmt::format("{}", total.bytes)});
  };
  for (const auto& [name, total] : found.by_dtype) line(name, total);
  line("all", found.all);
  text += "\n" + totals.to_text();
  if (args.check || !found.faults.empty()) text += "\n";
  for (const Fault& fault : found.faults) text += "fault: " + fault_text(fault) + "\n";
  if (args.check && found.faults.empty()) text += "no faults\n";
  return text;
}

ordered_json total_json(const Total& total) {
  return {{"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
}

ordered_json to_json(const Inspection& found, const Args& args) {
  ordered_json document = {{"path", args.path},
                           {"kind", found.set.kind},
                           {"configured_as", found.set.quant_method},
                           {"tensors", ordered_json::array()},
                           {"quantized", ordered_json::array()}};
  for (size_t s = 0; s < found.set.spaces.size(); ++s) {
    for (const auto& [name, entry] : found.set.spaces[s].tensors)
      document["tensors"].push_back({{"name", name},
                                     {"dtype", io::stored_type(entry.info.type).name},
                                     {"shape", entry.info.shape},
                                     {"bytes", entry.info.bytes.size()},
                                     {"file", entry.file}});
    for (const QuantizedGroup& group : found.groups[s])
      document["quantized"].push_back(
          {{"name", group.name},
           {"format", group.format},
           {"shape", group.shape},
           {"outer_scales", group.outer == nullptr ? 0 : group.outer->info.count()},
           {"stored_as", group.scheme->name}});
  }
  document["totals"] = total_json(found.all);
  for (const auto& [name, total] : found.by_dtype) document["totals"]["by_dtype"][name] = total_json(total);
  document["checked"] = args.check;
  document["faults"] = ordered_json::array();
  for (const Fault& fault : found.faults)
    document["faults"].push_back({{"file", fault.file}, {"tensor", fault.tensor}, {"what", fault.what}});
  return document;
}

int run(const Args& args) {
  if (io::begins_as_gguf(args.path)) return inspect_gguf(args.path, args.check, args.style);
  const Inspection found = inspect(args);
  if (args.style == ReportStyle::json) {
    print_json(to_json(found, args));
  } else {
    print(to_text(found, args));
  }
  return args.check && !found.faults.empty() ? kCheckFailed : kOk;
}

}  // namespace

std::function<int()> add_inspect(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("PATH", args->path,
                 "a safetensors file, a folder of them with or without an index, or a GGUF file")
      ->required();
  app.add_flag("--check", args->check, "read every byte and name faults; exit code 1 if there are any");
  add_json_flag(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli
