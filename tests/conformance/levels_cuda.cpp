#include <bit>
#include <map>
#include <vector>

#include "backends/cuda/cuda.h"
#include "backends/cuda/memory.h"
#include "conformance/levels.h"

namespace minite::conformance {

Candidate find_candidate(std::string_view) {
  const Backend backend = cuda::backend();
  return {backend.table, backend.reason};
}

namespace {

/// Page-locked memory is slow to get and to give back: buffers are kept by size, a power of two, for the
/// next.
std::shared_ptr<std::byte> pooled(int64_t bytes) {
  static std::map<uint64_t, std::vector<std::shared_ptr<std::byte>>> kept;
  const uint64_t size = std::bit_ceil(static_cast<uint64_t>(bytes));
  std::vector<std::shared_ptr<std::byte>>& same = kept[size];
  std::shared_ptr<std::byte> owner;
  if (same.empty()) {
    owner = cuda::shared_bytes(static_cast<int64_t>(size));
  } else {
    owner = std::move(same.back());
    same.pop_back();
  }
  std::byte* data = owner.get();
  return {data, [size, owner](std::byte*) { kept[size].push_back(owner); }};
}

}  // namespace

Allocate allocate_for(const OpTable&) { return pooled; }

}  // namespace minite::conformance
