#include "io/manifest.h"

#include <map>
#include <optional>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/digest.h"
#include "io/files.h"
#include "io/json_file.h"
#include "io/mapped_file.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {

std::string digest_text(const MappedFile& file) { return fmt::format("{:016x}", digest64(file.bytes())); }

// A manifest may only speak about files below its folder.
bool stays_inside(const fs::path& name) {
  if (name.empty() || name.is_absolute()) return false;
  for (const auto& part : name) {
    if (part == "..") return false;
  }
  return true;
}

std::optional<std::string> fault_of(const fs::path& folder, const std::string& name,
                                    const nlohmann::json& row) {
  const std::string shown = printable(name);
  const bool shaped = row.is_object() && row.contains("bytes") && row["bytes"].is_number_unsigned() &&
                      row.contains("xxh64") && row["xxh64"].is_string();
  if (!shaped || !stays_inside(name)) return fmt::format("manifest.json has a damaged row for {}", shown);
  try {
    const MappedFile file(folder / name);
    const auto promised = row["bytes"].get<uint64_t>();
    const uint64_t found = file.bytes().size();
    if (found < promised) {
      return fmt::format("{} is cut short: {} bytes, manifest.json promises {}", shown, found, promised);
    }
    if (found > promised) {
      return fmt::format("{} is too long: {} bytes, manifest.json promises {}", shown, found, promised);
    }
    const std::string digest = digest_text(file);
    if (digest != row["xxh64"].get<std::string>()) {
      return fmt::format("{} is damaged: its digest is {}, manifest.json promises {}", shown, digest,
                         printable(row["xxh64"].get<std::string>()));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return fmt::format("{} is missing", shown);
    return std::string(error.what());
  }
  return std::nullopt;
}

}  // namespace

void write_manifest(const fs::path& folder) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& name : list_files(folder)) {
    if (name == kManifestName) continue;
    const MappedFile file(folder / name);
    files[name] = {{"bytes", file.bytes().size()}, {"xxh64", digest_text(file)}};
  }
  write_json_file(folder / kManifestName, {{"files", files}});
}

std::vector<std::string> verify_checkpoint(const fs::path& folder) {
  nlohmann::json manifest;
  try {
    manifest = read_json_file(folder / kManifestName);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return {"manifest.json is missing"};
    return {error.what()};
  }
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object()) {
    return {"manifest.json has no \"files\" object"};
  }
  std::vector<std::string> faults;
  for (const auto& [name, row] : manifest["files"].items()) {
    if (auto fault = fault_of(folder, name, row)) faults.push_back(std::move(*fault));
  }
  return faults;
}

}  // namespace minite::io
