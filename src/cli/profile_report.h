#pragma once
// The kernel table of a profile as text and JSON.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "diagnostics/profile.h"

namespace minite::cli {

/// Records what runs while it lives, when a file is wanted.
class ProfileSession {
 public:
  /// `file` is where the trace goes; empty: nothing is recorded. Error: not_found when its folder does not
  /// exist.
  explicit ProfileSession(std::string file);

  /// nullptr when nothing is recorded.
  [[nodiscard]] Trace* trace() { return recorder_ ? &*recorder_ : nullptr; }
  /// Ends the recording and writes the file; nothing when nothing is recorded.
  void finish();
  /// Tables of phases and kernels, or "".
  [[nodiscard]] std::string text() const;
  /// The same with times in ms, or null.
  [[nodiscard]] nlohmann::ordered_json json() const;

 private:
  std::string file_;
  std::optional<diagnostics::TraceRecorder> recorder_;
  diagnostics::ProfileTable table_;
};

}  // namespace minite::cli
