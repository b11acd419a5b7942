#include "diagnostics/capture_manifest.h"

#include <algorithm>
#include <array>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/json_file.h"

namespace minite::diagnostics {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::array<std::string_view, 3> kProvenance = {"kernel", "hook", "replay"};
constexpr std::array<std::string_view, 5> kScored = {"final_norm", "lm_head", "logprob", "entropy", "scored"};

Provenance provenance_named(const std::string& name, const std::string& file, const std::string& tensor) {
  const auto at = std::ranges::find(kProvenance, name);
  if (at != kProvenance.end()) return static_cast<Provenance>(at - kProvenance.begin());
  fail(ErrorCode::corrupt_data, "{}: tensor {} has provenance '{}'; it is kernel, hook or replay", file,
       printable(tensor), printable(name));
}

json to_json(const CapturedTensor& t) {
  json row = {{"name", t.name},     {"file", t.file},
              {"layer", t.layer},   {"module", t.module},
              {"point", t.point},   {"step", t.step},
              {"rank", t.rank},     {"provenance", to_string(t.provenance)},
              {"format", t.format}, {"scale_domain", t.scale_domain},
              {"spec", t.spec}};
  if (!t.experts.empty()) row["experts"] = t.experts;
  return row;
}

CapturedTensor tensor_from_json(const json& row, const std::string& file) {
  CapturedTensor t;
  t.name = row.at("name").get<std::string>();
  t.file = row.at("file").get<std::string>();
  if (fs::path(t.file).filename() != t.file) {
    fail(ErrorCode::corrupt_data, "{}: tensor {} lies in '{}', which is no file of this folder", file,
         printable(t.name), printable(t.file));
  }
  t.layer = row.value("layer", -1);
  t.module = row.value("module", "");
  t.point = row.value("point", "");
  t.step = row.value("step", int64_t{0});
  t.rank = row.value("rank", int64_t{0});
  t.experts = row.value("experts", std::vector<int32_t>{});
  t.provenance = provenance_named(row.at("provenance").get<std::string>(), file, t.name);
  t.format = row.value("format", "");
  t.scale_domain = row.value("scale_domain", "");
  t.spec = row.value("spec", "");
  return t;
}

CaptureManifest manifest_from_json(const json& document, const std::string& file) {
  CaptureManifest m;
  m.role = document.at("role").get<std::string>();
  m.producer = document.value("producer", "");
  m.contract = io::contract_from_json(document.at("contract"), file);
  if (document.contains("injected") && !document["injected"].is_null())
    m.injected = document["injected"].get<std::string>();
  m.plans = document.value("plans", std::vector<std::string>{});
  m.model = document.value("model", json::object());
  m.selection = document.value("selection", json::object());
  if (document.contains("weights")) {
    m.weights.version = document["weights"].value("version", int64_t{0});
    document["weights"].at("digests").get_to(m.weights.digests);
  }
  for (const json& row : document.at("tensors")) m.tensors.push_back(tensor_from_json(row, file));
  return m;
}

}  // namespace

std::string_view to_string(Provenance provenance) { return kProvenance[static_cast<size_t>(provenance)]; }

RowTable row_table(std::string_view module, std::string_view point) {
  if (module.empty() || point.starts_with("weight")) return RowTable::none;
  if (module.starts_with("experts.")) return RowTable::experts;
  return std::ranges::count(kScored, module) > 0 ? RowTable::scored : RowTable::rows;
}

int64_t CaptureManifest::model_number(const char* field, int64_t otherwise) const {
  const auto it = model.find(field);
  return it != model.end() && it->is_number_integer() ? it->get<int64_t>() : otherwise;
}

void write_capture_manifest(const fs::path& folder, const CaptureManifest& m) {
  json tensors = json::array();
  for (const CapturedTensor& t : m.tensors) tensors.push_back(to_json(t));
  io::write_json_file(folder / "manifest.json",
                      {{"format", kCaptureFormat},
                       {"role", m.role},
                       {"producer", m.producer},
                       {"contract", json(io::to_json(m.contract))},
                       {"injected", m.injected.empty() ? json(nullptr) : json(m.injected)},
                       {"plans", m.plans},
                       {"model", m.model},
                       {"selection", m.selection},
                       {"weights", {{"version", m.weights.version}, {"digests", m.weights.digests}}},
                       {"tensors", tensors}});
}

CaptureManifest read_capture_manifest(const fs::path& folder) {
  const fs::path path = folder / "manifest.json";
  if (!fs::exists(path)) {
    fail(ErrorCode::not_found, "{} is no capture: it has no manifest.json; `minite capture -o DIR` makes one",
         folder.string());
  }
  const json document = io::read_json_file(path);
  const std::string file = path.string();
  const auto format = document.is_object() ? document.find("format") : document.end();
  if (format == document.end() || !format->is_string()) {
    fail(ErrorCode::corrupt_data, "{} is no manifest of a capture: it has no \"format\": \"{}\"", file,
         kCaptureFormat);
  }
  if (*format != kCaptureFormat) {
    fail(ErrorCode::unsupported, "{}: format \"{}\" is not known here; this program reads {}", file,
         printable(format->get<std::string>()), kCaptureFormat);
  }
  try {
    return manifest_from_json(document, file);
  } catch (const json::exception& error) {
    fail(ErrorCode::corrupt_data, "{} is damaged: {}", file, error.what());
  }
}

}  // namespace minite::diagnostics
