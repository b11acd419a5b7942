#pragma once
// oneDNN as a rival: its C interface of version 2 (Debian 12 has 2.6.3). Version 3 replaced the structs of
// version 2 by handles and is refused.
#include <cstdint>

#include "cli/bench/library.h"
#include "cli/bench/rival.h"

namespace minite::cli {

/// The functions that are called, as dnnl.h of version 2 declares them. Status is 0 for success; primitives,
/// memories, streams and engines are handles. Memory and operation descriptors are structs that only oneDNN
/// reads and writes.
struct OneDnnApi {
  using Status = int;
  using Handle = void*;
  struct Version {
    int major, minor, patch;
    const char* hash;
    unsigned cpu_runtime, gpu_runtime;
  };
  struct alignas(8) MemoryDesc {
    std::byte bytes[1024];  ///< 696 are used by 2.6
  };
  struct alignas(8) MatmulDesc {
    std::byte bytes[4096];  ///< 2800 are used by 2.6
  };
  struct Arg {
    int which;
    Handle memory;
  };
  using Dims = int64_t[12];

  const Version* (*version)();
  Status (*engine_create)(Handle*, int kind, size_t index);
  Status (*engine_destroy)(Handle);
  Status (*stream_create)(Handle*, Handle engine, unsigned flags);
  Status (*stream_destroy)(Handle);
  Status (*stream_wait)(Handle);
  Status (*desc_by_strides)(MemoryDesc*, int ndims, const Dims dims, int type, const Dims strides);
  Status (*desc_by_tag)(MemoryDesc*, int ndims, const Dims dims, int type, int tag);
  size_t (*desc_size)(const MemoryDesc*);
  Status (*memory_create)(Handle*, const MemoryDesc*, Handle engine, void* data);
  Status (*memory_destroy)(Handle);
  Status (*matmul_desc)(MatmulDesc*, const MemoryDesc* src, const MemoryDesc* weights, const MemoryDesc* bias,
                        const MemoryDesc* dst);
  Status (*primitive_desc)(Handle*, const void* desc, Handle attr, Handle engine, Handle hint);
  Status (*reorder_desc)(Handle*, const MemoryDesc* src, Handle src_engine, const MemoryDesc* dst,
                         Handle dst_engine, Handle attr);
  const MemoryDesc* (*query_md)(Handle primitive_desc, int what, int index);
  Status (*query)(Handle primitive_desc, int what, int index, void* result);
  Status (*primitive_desc_destroy)(Handle);
  Status (*primitive_create)(Handle*, Handle primitive_desc);
  Status (*primitive_destroy)(Handle);
  Status (*execute)(Handle primitive, Handle stream, int count, const Arg*);

  void bind(Library& library);
};

class OneDnn {
 public:
  [[nodiscard]] static Found<OneDnn> open();
  OneDnn() = default;
  OneDnn(const OneDnn&) = delete;
  OneDnn& operator=(const OneDnn&) = delete;
  ~OneDnn();

  /// x w^T with x, w and the result of dtype f32 or bf16, weights in the layout that oneDNN prefers.
  [[nodiscard]] Found<RivalCall> matmul(const Problem& problem, DType dtype) const;
  /// "oneDNN 2.6.3".
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  OneDnnApi api_{};
  OneDnnApi::Handle engine_ = nullptr, stream_ = nullptr;
  void (*set_threads_)(int) = nullptr;  ///< of OpenMP; nullptr when oneDNN was built without threads
  std::string name_;
};

}  // namespace minite::cli
