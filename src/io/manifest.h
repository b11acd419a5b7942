#pragma once
// manifest.json of a checkpoint folder: the size and digest of every file in it.
#include <filesystem>
#include <string>
#include <vector>

namespace minite::io {

inline constexpr const char* kManifestName = "manifest.json";

/// Lists every regular file below `folder` (names relative, sorted; the manifest itself is left out) and
/// writes folder/manifest.json: {"files": {"NAME": {"bytes": N, "xxh64": "16 hex digits"}}}.
void write_manifest(const std::filesystem::path& folder);

/// What is wrong with a checkpoint folder, one sentence a fault; empty when every listed file is there with
/// its size and digest. A missing or damaged manifest is a fault, not an exception; files that the manifest
/// does not list are none of its business.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

}  // namespace minite::io
