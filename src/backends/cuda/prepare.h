#pragma once
// Operands of a product in the form that the tensor-core kernels read: BF16 that the copy engine can address.
#include <string_view>

#include "backends/cuda/sm90/fragments.h"
#include "backends/cuda/sm90/major.h"
#include "backends/op_table.h"

namespace minite::cuda {

[[nodiscard]] constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/// Whether the tensor cores take an operand: it is BF16, or decodes to BF16.
[[nodiscard]] constexpr bool on_tensor_cores(FormatId id) { return id != FormatId::fp32; }

/// Bytes of an operand of R rows as BF16 with rows that the copy engine can read; 0 when it can as it is.
[[nodiscard]] int64_t copy_bytes(FormatId id, int64_t rows, int64_t k);

/// Scratch, taken from the front.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> memory) : memory_(memory) {}
  /// Null when there is too little.
  std::byte* take(int64_t bytes) {
    if (static_cast<int64_t>(memory_.size()) < round_up(bytes, 256)) return nullptr;
    std::byte* p = memory_.data();
    memory_ = memory_.subspan(static_cast<size_t>(round_up(bytes, 256)));
    return p;
  }

 private:
  std::span<std::byte> memory_;
};

/// An operand in BF16 without its outer scale.
struct Prepared {
  TensorView view;
  sm90::Major major = sm90::Major::k;
};
/// As it is, its decoded values, or a copy in scratch. Refuses for `op` when the scratch is too small.
[[nodiscard]] Prepared prepare(std::string_view op, const Operand& x, std::string_view name, Scratch& scratch,
                               const Exec& exec);

/// NVFP4 weights in the order of the kernels for packed codes: as given, or made in scratch. Refuses for `op`
/// when the scratch is too small.
[[nodiscard]] sm90::Fragments prepacked(std::string_view op, const Operand& w, Scratch& scratch,
                                        const Exec& exec);

}  // namespace minite::cuda
