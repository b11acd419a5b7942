#pragma once
// What a backend is: one function an op. Arguments have been validated by ops/.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/thread_pool.h"
#include "ops/grouped_args.h"
#include "ops/moe_args.h"

namespace minite {

/// Resources of one call. A plan states the scratch bytes it needs; the caller gives them, in the backend's
/// memory.
struct Exec {
  ThreadPool* pool = nullptr;
  std::span<std::byte> scratch;
  void* stream = nullptr;  ///< of a device (cudaStream_t): the call returns before the work is done
};

/// Memory of a backend whose operands do not lie in the host's. Errors: resource with the bytes asked
/// for and those that are free, internal for what the driver says.
struct DeviceMemory {
  void* (*allocate)(int64_t bytes);
  void (*release)(void* data);
  void (*copy_in)(void* device, const void* host, int64_t bytes, void* stream);   ///< in the stream's order
  void (*copy_out)(void* host, const void* device, int64_t bytes, void* stream);  ///< likewise
  void (*synchronize)(void* stream);  ///< waits, and throws what went wrong since the last wait
};

/// Static part of a product: everything but the number of rows.
struct GemmProblem {
  FormatId a = FormatId::bf16, b = FormatId::bf16;
  DType y = DType::bf16;
  int64_t n = 0, k = 0;
  Epilogue epilogue = Epilogue::minite;
  SumOrder order = SumOrder::backend;
};

/// Whether and how a backend runs a problem.
struct Support {
  bool ok = false;
  std::string_view kernel;     ///< name of the kernel that will run
  std::string_view order;      ///< accumulation order in words
  bool row_invariant = false;  ///< whether a row's bits depend on that row alone
  std::string reason;          ///< a sentence when !ok
};

struct OpTable {
  std::string_view name;                 ///< "ref", "simd/avx512", ...
  const DeviceMemory* memory = nullptr;  ///< nullptr: operands lie in the host's memory
  Support (*supports_gemm)(const GemmProblem&);
  Support (*supports_quantize)(const QuantSpec&);  ///< what quantize and dequantize run for a spec
  int64_t (*gemm_scratch)(const GemmProblem&, int64_t m, int threads);  ///< bytes
  /// Bytes of a prepacked weight [rows, cols]; 0 where products read the codes as they lie.
  int64_t (*prepacked_bytes)(const QuantSpec&, int64_t rows, int64_t cols);
  /// Bytes that grouped_gemm needs for R packed rows and E weights of the problem's N and K.
  int64_t (*grouped_scratch)(const GemmProblem&, int64_t rows, int64_t groups, int threads);
  int64_t (*choose_scratch)(int64_t vocab, int threads);                          ///< bytes
  int64_t (*attention_scratch)(int64_t max_keys, int64_t head_dim, int threads);  ///< bytes, both directions

  void (*gemm)(const GemmArgs&, const Exec&);
  /// Independent products of one N and one pair of formats; scratch of the largest serves all.
  void (*gemms)(std::span<const GemmArgs>, const Exec&);
  void (*grouped_gemm)(const GroupedGemmArgs&, const Exec&);
  void (*grouped_wgrad)(const GroupedWgradArgs&, const Exec&);
  void (*grouped_quantize)(const GroupedQuantizeArgs&, const Exec&);
  void (*quantize)(const QuantizeArgs&, const Exec&);
  void (*quantize_both)(const QuantizeBothArgs&, const Exec&);
  void (*dequantize)(const DequantizeArgs&, const Exec&);
  void (*transpose_codes)(const TransposeCodesArgs&, const Exec&);
  void (*prepack)(const PrepackArgs&, const Exec&);
  void (*norm)(const NormArgs&, const Exec&);
  void (*norm_backward)(const NormBackwardArgs&, const Exec&);
  void (*norm_quantize)(const NormQuantizeArgs&, const Exec&);
  void (*rope)(const RopeArgs&, const Exec&);
  void (*kv_write)(const KvWriteArgs&, const Exec&);
  void (*attention)(const AttentionArgs&, const Exec&);
  void (*attention_backward)(const AttentionBackwardArgs&, const Exec&);
  void (*swiglu)(const SwigluArgs&, const Exec&);
  void (*swiglu_backward)(const SwigluBackwardArgs&, const Exec&);
  void (*swiglu_quantize)(const SwigluQuantizeArgs&, const Exec&);
  void (*add_norm_quantize)(const AddNormQuantizeArgs&, const Exec&);
  void (*add)(const AddArgs&, const Exec&);
  void (*bias_backward)(const BiasBackwardArgs&, const Exec&);
  void (*route)(const RouteArgs&, const Exec&);
  void (*route_backward)(const RouteBackwardArgs&, const Exec&);
  void (*router_balance)(const RouterBalanceArgs&, const Exec&);
  void (*dispatch)(const DispatchArgs&, const Exec&);
  void (*permute)(const PermuteArgs&, const Exec&);
  void (*permute_quantize)(const PermuteQuantizeArgs&, const Exec&);
  void (*combine)(const CombineArgs&, const Exec&);
  void (*combine_backward)(const CombineBackwardArgs&, const Exec&);
  void (*embedding)(const EmbeddingArgs&, const Exec&);
  void (*embedding_backward)(const EmbeddingBackwardArgs&, const Exec&);
  void (*logprob)(const LogprobArgs&, const Exec&);
  void (*logprob_backward)(const LogprobBackwardArgs&, const Exec&);
  void (*choose)(const ChooseArgs&, const Exec&);
  void (*adamw)(const AdamWArgs&, const Exec&);
  void (*sum_squares)(const SumSquaresArgs&, const Exec&);
};

}  // namespace minite
