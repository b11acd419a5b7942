#pragma once
// What is in a GGUF file, and what is wrong with it.
#include <filesystem>

#include "cli/output.h"

namespace minite::cli {

/// Prints values and tensors; with `check`, reads every byte and prints the faults. Returns the exit code.
int inspect_gguf(const std::filesystem::path& path, bool check, ReportStyle style);

}  // namespace minite::cli
