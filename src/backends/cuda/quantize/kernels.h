#pragma once
// Launchers of the quantization kernels; host code chooses among them (quantize.cpp).
#include "backends/cuda/quantize/job.h"
#include "backends/op_table.h"

namespace minite::cuda {

/// Threads of a launch with one for each of `count` items; throws unsupported past 2^32 - 2^16 of them.
[[nodiscard]] uint32_t item_count(const char* op, int64_t count);

/// Outer amaxes into out.amax; nothing without outer scales.
void nvfp4_amax(const QuantizeJob& job, const Exec& exec);
/// Everything else, with the amaxes at hand.
void nvfp4_quantize(const QuantizeJob& job, const Exec& exec);
/// Whether the fast path along rows takes a call, and that path, amaxes included.
[[nodiscard]] bool rows_fit(const QuantizeArgs& args);
void quantize_rows(const QuantizeArgs& args, const Exec& exec);
/// Whether rows are quantized, each with its own scale to nearest, in a pass that finds the amaxes of x's
/// columns too; and that pass, which leaves them in columns[x.cols].
[[nodiscard]] bool rows_amax_fit(const QuantizeArgs& rows);
void quantize_rows_amax(const QuantizeArgs& rows, float* columns, const Exec& exec);
/// Likewise for MXFP8 (along rows, BF16).
[[nodiscard]] bool mx_rows_fit(const QuantizeArgs& args);
void mx_quantize_rows(const QuantizeArgs& args, const Exec& exec);
/// The rows of groups; OuterScale::expert is one scale a group.
void quantize_rows(const QuantizeArgs& args, const DeviceGroups& groups, const Exec& exec);
void mx_quantize(const QuantizeJob& job, const QuantSpec& spec, const Exec& exec);

/// Groups of rows, any shape and stride: amaxes and codes of NVFP4, codes of MX formats. job.groups has
/// bounds.
void nvfp4_groups(const QuantizeJob& job, const Exec& exec);
void mx_groups(const QuantizeJob& job, const QuantSpec& spec, const Exec& exec);
/// Whether the fast path along columns takes a job, and that path.
[[nodiscard]] bool group_columns_fit(const QuantizeJob& job);
void quantize_group_columns(const QuantizeJob& job, const Exec& exec);
/// Outer scales of a job with groups.
[[nodiscard]] int64_t outer_count(const QuantizeJob& job);

void decode(const DequantizeArgs& args, const Exec& exec);
void transpose(const TransposeCodesArgs& args, const Exec& exec);

}  // namespace minite::cuda
