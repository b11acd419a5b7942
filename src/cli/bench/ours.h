#pragma once
// Our side of a row: operands and the call that is timed.
#include <optional>
#include <string>
#include <vector>

#include "backends/op_table.h"
#include "cli/bench/data.h"
#include "cli/bench/specs.h"
#include "core/thread_pool.h"

namespace minite::cli {

class Ours {
 public:
  /// Operands of `spec`, quantized to NVFP4 as its job says, for the kernels of `table`.
  Ours(const Spec& spec, const OpTable& table, int threads);

  void run();
  /// x w^T of the last run [m, n]; empty for a quantizer.
  [[nodiscard]] std::vector<float> product() const;
  /// The operands before they were quantized.
  [[nodiscard]] Problem problem() const;
  [[nodiscard]] std::string description() const;

  /// Work of one call: elements, operations or packed bytes, in units of 1e9.
  [[nodiscard]] double work() const;
  /// Bytes that one call must move from or to memory, in units of 1e9; 0 when arithmetic bounds it.
  [[nodiscard]] double bytes() const;

 private:
  void place(int64_t rows, Buffer& memory, QTensor& q) const;

  const Spec& spec_;
  const OpTable& table_;
  ThreadPool pool_;
  NormalMatrix x_;
  std::optional<NormalMatrix> w_;
  Buffer codes_x_, codes_w_, y_, scratch_;
  QTensor x_q_, w_q_;
  GemmArgs args_;
  std::string kernel_;
};

}  // namespace minite::cli
