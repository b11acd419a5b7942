#pragma once
// File system helpers with errors that carry the path, the system's words and a remedy.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace minite::io {

/// Throws for `error_number` (an errno) of a failed `what` ("write", "create", ...) on `path`: the system's
/// text and a remedy. A missing folder or file is not_found, every other cause is io.
[[noreturn]] void fail_errno(int error_number, std::string_view what, const std::filesystem::path& path);

/// mkdir -p.
void create_folders(const std::filesystem::path& path);

/// The regular files below `folder` at any depth, as sorted paths relative to it, '/' between the parts.
[[nodiscard]] std::vector<std::string> list_files(const std::filesystem::path& folder);

/// Names of the entries directly inside `folder`, sorted; a missing folder holds none.
[[nodiscard]] std::vector<std::string> list_entries(const std::filesystem::path& folder);

/// fsync of a file.
void sync_file(const std::filesystem::path& path);

/// fsync of a folder, so that the names in it survive a power cut.
void sync_folder(const std::filesystem::path& path);

}  // namespace minite::io
