#include "io/digest.h"

#include <array>
#include <bit>
#include <cstring>

namespace minite::io {
namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5u;
constexpr size_t kStripe = 32;

template <class T>
T load_le(const std::byte* p) {
  T value;
  std::memcpy(&value, p, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) {
    T swapped = 0;
    for (size_t i = 0; i < sizeof(T); ++i) swapped = (swapped << 8) | ((value >> (8 * i)) & 0xFF);
    value = swapped;
  }
  return value;
}

uint64_t round(uint64_t lane, uint64_t input) { return std::rotl(lane + input * kPrime2, 31) * kPrime1; }
uint64_t merge(uint64_t hash, uint64_t lane) { return (hash ^ round(0, lane)) * kPrime1 + kPrime4; }

// Four independent lanes over whole 32-byte stripes; advances `p`.
uint64_t stripes(const std::byte*& p, const std::byte* end) {
  std::array<uint64_t, 4> lane = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  for (; static_cast<size_t>(end - p) >= kStripe; p += kStripe) {
    for (size_t i = 0; i < 4; ++i) lane[i] = round(lane[i], load_le<uint64_t>(p + 8 * i));
  }
  uint64_t hash =
      std::rotl(lane[0], 1) + std::rotl(lane[1], 7) + std::rotl(lane[2], 12) + std::rotl(lane[3], 18);
  for (const uint64_t l : lane) hash = merge(hash, l);
  return hash;
}

}  // namespace

uint64_t digest64(std::span<const std::byte> bytes) {
  const std::byte* p = bytes.data();
  const std::byte* end = p + bytes.size();
  uint64_t hash = (bytes.size() >= kStripe ? stripes(p, end) : kPrime5) + bytes.size();
  for (; end - p >= 8; p += 8) {
    hash = std::rotl(hash ^ round(0, load_le<uint64_t>(p)), 27) * kPrime1 + kPrime4;
  }
  if (end - p >= 4) {
    hash = std::rotl(hash ^ (load_le<uint32_t>(p) * kPrime1), 23) * kPrime2 + kPrime3;
    p += 4;
  }
  for (; p != end; ++p) hash = std::rotl(hash ^ (static_cast<uint64_t>(*p) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

uint64_t digest64(std::string_view text) {
  return digest64(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace minite::io
