#pragma once
// Checkpoints that went wrong: one tensor of model.safetensors replaced.
#include <cstring>
#include <functional>

#include "io/safetensors.h"
#include "support/temp_folder.h"

namespace minite::test_support {

struct EditedTensor {
  io::TensorInfo info;
  std::vector<std::byte> bytes;
};

/// Rewrites folder/model.safetensors with `edit` applied to its tensors.
inline void edit_tensors(const std::filesystem::path& folder,
                         const std::function<void(io::TensorMap&)>& edit) {
  const std::filesystem::path path = folder / "model.safetensors";
  const std::string memory = slurp(path);  // a copy: the file is replaced below
  auto content = io::parse_safetensors({reinterpret_cast<const std::byte*>(memory.data()), memory.size()},
                                       path.string());
  edit(content.tensors);
  io::write_safetensors(path, content.tensors, content.metadata);
}

/// The same for one tensor.
inline void edit_tensor(const std::filesystem::path& folder, const std::string& name,
                        const std::function<void(EditedTensor&)>& edit) {
  EditedTensor edited;  // outlives the writing
  edit_tensors(folder, [&](io::TensorMap& tensors) {
    io::TensorInfo& info = tensors.at(name);
    edited = {info, {info.bytes.begin(), info.bytes.end()}};
    edit(edited);
    info = edited.info;
    info.bytes = edited.bytes;
  });
}

/// Sets BF16 element `index` of tensor `name` to the bits `bits`.
inline void poison_tensor(const std::filesystem::path& folder, const std::string& name, int64_t index,
                          uint16_t bits) {
  edit_tensor(folder, name, [&](EditedTensor& t) { std::memcpy(t.bytes.data() + 2 * index, &bits, 2); });
}

inline constexpr uint16_t kBf16Nan = 0x7FC0, kBf16Infinity = 0x7F80;

}  // namespace minite::test_support
