#pragma once
// Weights into the order of fragments.h, once an update of the weights.
#include "minite/format.h"

namespace minite::cuda::sm90 {

/// Writes fragment_bytes(q.rows, q.cols) to `out`, from a 16-byte boundary. q is NVFP4.
void prepack_fragments(const QTensor& q, std::byte* out, void* stream);

}  // namespace minite::cuda::sm90
