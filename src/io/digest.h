#pragma once
// A fast 64-bit digest that detects damage (not tampering).
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace minite::io {

/// XXH64 with seed 0 of Yann Collet's xxHash (the specification is doc/xxhash_spec.md of that project):
/// the same value as `xxhsum -H1`. Reads bytes as little endian on every machine.
[[nodiscard]] uint64_t digest64(std::span<const std::byte> bytes);
[[nodiscard]] uint64_t digest64(std::string_view text);

}  // namespace minite::io
