#include "fuzz/targets.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "checkpoints/stored_module.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "diagnostics/capture_manifest.h"
#include "diagnostics/probe_rules.h"
#include "io/checkpoint_folder.h"
#include "io/gguf.h"
#include "io/safetensors.h"
#include "io/tokenizer.h"
#include "learn/gguf_model.h"
#include "minite/error.h"
#include "minite/model.h"
#include "minite/recipe.h"
#include "support/temp_folder.h"
#include "tasks/jsonl.h"

namespace {

std::atomic<int64_t> g_live{0}, g_peak{0};

void* counted(std::size_t size, std::size_t alignment) {
  void* p = alignment <= alignof(std::max_align_t)
                ? std::malloc(size == 0 ? 1 : size)
                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  const int64_t live = g_live += static_cast<int64_t>(malloc_usable_size(p));
  if (live > g_peak) g_peak = live;
  return p;
}
void released(void* p) {
  if (p == nullptr) return;
  g_live -= static_cast<int64_t>(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t size, std::align_val_t a) {
  return counted(size, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { released(p); }
void operator delete[](void* p) noexcept { released(p); }
void operator delete(void* p, std::size_t) noexcept { released(p); }
void operator delete[](void* p, std::size_t) noexcept { released(p); }
void operator delete(void* p, std::align_val_t) noexcept { released(p); }
void operator delete[](void* p, std::align_val_t) noexcept { released(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { released(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { released(p); }

namespace minite::fuzz {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
fs::path put(const fs::path& folder, const char* name, std::string_view bytes) {
  test_support::spill(folder / name, std::string(bytes));
  return folder / name;
}

void safetensors(std::string_view bytes, const fs::path&) {
  (void)io::parse_safetensors(as_bytes(bytes), "input");
}
void gguf(std::string_view bytes, const fs::path&) { (void)io::parse_gguf(as_bytes(bytes), "input"); }
/// The configuration, names and tokenizer of a GGUF file, and a tensor of it.
void gguf_model(std::string_view bytes, const fs::path& folder) {
  const fs::path file = put(folder, "model.gguf", bytes);
  const learn::GgufModel model(file);
  if (!model.tensors().empty()) {
    const auto& [name, tensor] = *model.tensors().begin();
    std::vector<bf16> values(static_cast<size_t>(tensor.rows * tensor.cols));
    model.read(name, values);
  }
  if (model.file().has("tokenizer.ggml.model")) (void)io::load_tokenizer(file)->encode_prompt("the 12+1= x");
}
void tokenizer(std::string_view bytes, const fs::path& folder) {
  put(folder, "tokenizer.json", bytes);
  (void)io::load_tokenizer(folder)->encode("the 12 'll x\n  y");
}
void model_config(std::string_view bytes, const fs::path&) {
  (void)to_json(parse_model_config(std::string(bytes), "input"));
}
/// The configuration and tensors of a quantized folder: JSON, a zero byte, safetensors.
void quantized_folder(std::string_view bytes, const fs::path& folder) {
  const size_t cut = bytes.find('\0');
  put(folder, "config.json", bytes.substr(0, cut));
  put(folder, "model.safetensors", cut == std::string_view::npos ? "" : bytes.substr(cut + 1));
  (void)checkpoints::open_quantized(folder, checkpoints::OnFault::listed);
}
void shard_index(std::string_view bytes, const fs::path& folder) {
  put(folder, "model.safetensors.index.json", bytes);
  (void)io::CheckpointFolder(folder);
}
void problems(std::string_view bytes, const fs::path& folder) {
  (void)tasks::read_problems(put(folder, "data.jsonl", bytes));
}
void rules(std::string_view bytes, const fs::path&) { (void)parse_rules(std::string(bytes), "input"); }
void probe_rules(std::string_view bytes, const fs::path&) {
  (void)diagnostics::parse_probe_rules(std::string(bytes), "input");
}
void capture_manifest(std::string_view bytes, const fs::path& folder) {
  put(folder, "manifest.json", bytes);
  (void)diagnostics::read_capture_manifest(folder);
}

constexpr Target kTargets[] = {
    {"safetensors", safetensors},
    {"gguf", gguf},
    {"gguf_model", gguf_model},
    {"tokenizer", tokenizer},
    {"model_config", model_config},
    {"quantized_folder", quantized_folder},
    {"shard_index", shard_index},
    {"problems", problems},
    {"rules", rules},
    {"probe_rules", probe_rules},
    {"capture_manifest", capture_manifest},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target_named(std::string_view name) {
  for (const Target& target : kTargets) {
    if (target.name == name) return target;
  }
  std::string known;
  for (const Target& target : kTargets) known += fmt::format(" {}", target.name);
  fail(ErrorCode::not_found, "no reader '{}'; known:{}", name, known);
}

Result run(const Target& target, std::string_view bytes, const fs::path& folder) {
  Result result;
  const int64_t before = g_live;
  g_peak = before;
  try {
    target.read(bytes, folder);
  } catch (const Error& error) {
    result.outcome = Outcome::refused;
    result.error = error.what();
  }
  result.peak = g_peak - before;
  for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry.path());
  return result;
}

}  // namespace minite::fuzz
