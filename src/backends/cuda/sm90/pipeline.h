#pragma once
// Barriers in shared memory and the bulk tensor copy engine (TMA).
#include <cuda.h>

#include <cstdint>

#include "backends/cuda/common/copy_async.h"

namespace minite::cuda::sm90 {

/// An mbarrier: `count` arrivals and the announced bytes complete a phase; phases alternate 0, 1, 0, ...
struct Barrier {
  uint64_t state;

  __device__ void init(uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&state)), "r"(count));
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&state)) : "memory");
  }
  __device__ void arrive_expecting(uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&state)),
                 "r"(bytes)
                 : "memory");
  }
  /// Returns when the phase of this parity is complete.
  __device__ void wait(uint32_t parity) {
    asm volatile(
        "{ .reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again; }" ::"r"(shared_address(&state)),
        "r"(parity)
        : "memory");
  }
};

/// Waits for all threads of the cluster; what they wrote to shared memory before is visible after.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}

/// The two halves of a cluster's barrier. Orders barriers that fence_barrier_init() published, nothing else.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

/// Where `p` of this block lies in block `rank` of the cluster.
__device__ inline uint32_t address_in(const void* p, int rank) {
  uint32_t there = 0;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
  return there;
}
/// Stores 16 bytes in another block's shared memory; its barrier counts them.
__device__ inline void store_async(uint32_t there, const float (&x)[4], uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          there),
      "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]), "r"(barrier)
      : "memory");
}

/// Makes initialized barriers visible to the copy engine.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// Starts the copy of a box at (x, y) of `map`, x along the contiguous dimension; `barrier` counts its bytes.
/// What lies outside the tensor arrives as zeros.
__device__ inline void load_box(void* to, const CUtensorMap& map, int x, int y, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier.state)), "r"(x), "r"(y)
      : "memory");
}
/// The same from matrix z of a stack.
__device__ inline void load_box(void* to, const CUtensorMap& map, int x, int y, int z, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier.state)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
/// Starts the copy of `bytes` bytes to shared memory; `barrier` counts them. Addresses and count are
/// multiples of 16.
__device__ inline void load_bytes(void* to, const void* from, uint32_t bytes, Barrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&barrier.state))
      : "memory");
}
/// Starts the copy of a box in shared memory to (x, y) of `map`; what lies outside the tensor is left out.
/// Belongs to the thread's current group of stores.
__device__ inline void store_box(const CUtensorMap& map, const void* from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map),
               "r"(shared_address(from)), "r"(x), "r"(y)
               : "memory");
}
__device__ inline void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until all but the last kPending groups of stores have read shared memory.
template <int kPending>
__device__ inline void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
/// Makes this thread's writes to shared memory visible to the copy engine.
__device__ inline void fence_for_copy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Programmatic dependent launch: the next kernel of the stream may start while this one runs. What it does
// before it waits must not depend on memory that a kernel writes; fetching into the L2 does not.

/// Lets the next kernel start once every block has said so.
__device__ inline void let_next_grid_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/// Waits until the kernel before has ended and its writes are visible.
__device__ inline void wait_for_grid_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/// Fetches `bytes` bytes into the L2; address and count are multiples of 16.
__device__ inline void fetch_into_l2(const void* from, uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

/// Registers a thread: what producers give up, consumers take.
template <int kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

/// A place in a ring of `kStages` buffers and the parity of its round.
template <int kStages>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace minite::cuda::sm90
