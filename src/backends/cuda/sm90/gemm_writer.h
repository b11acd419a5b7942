#pragma once
// The way of a tile's sums from the registers of a warpgroup to y.
#include "backends/cuda/common/epilogue.h"
#include "backends/cuda/sm90/pipeline.h"

namespace minite::cuda::sm90 {

inline constexpr int kConsumers = 2;  ///< warpgroups that multiply

/// How y is written.
enum class Store : uint8_t {
  boxes,   ///< by the copy engine, while the next tile is multiplied; for an overwritten y whose rows it can
           ///< address
  direct,  ///< by the threads: any y, and what is added to y
  mixed,   ///< boxes for 64 whole rows; directly what is cut short by a group's end
};

/// Shared memory of one warpgroup's way out: boxes of 64 rows by 128 bytes, or for direct stores 16 rows by
/// 32 FP32 a warp (16 x 40 x 4 bytes, 10 KB in all). A tile of 256 columns leaves room for two boxes; one
/// of 192 for one beside five stages, or three beside four.
template <int kN, int kOutBoxes = kN == 256 ? 2 : 1>
struct WayOut {
  static constexpr int kBoxBytes = 64 * 128, kBoxes = kOutBoxes;
  static constexpr int kPitch =
      40;  ///< FP32 between rows of a warp's direct way: 8 rows fall on different banks
  static constexpr int kDirectBytes = 4 * 16 * kPitch * 4;
  static constexpr int kMost = kBoxes * kBoxBytes > kDirectBytes ? kBoxes* kBoxBytes : kDirectBytes;
  static constexpr int kBytes = (kMost + 1023) / 1024 * 1024;  ///< boxes start at multiples of 1024
};

template <int kN, Store kStore, class W = WayOut<kN>>
class Writer {
 public:
  /// m, n: size of y; `out`: the warpgroup's way out; `scales`: the block's, kN of them.
  __device__ Writer(const CUtensorMap& map, const DeviceEpilogue& epilogue, int m, int n, uint8_t* out,
                    float* scales)
      : map_(map), epilogue_(epilogue), m_(m), n_(n), out_(out), scales_(scales) {}

  /// Rows from `m` on are not the next tile's.
  __device__ void end_rows(int m) { m_ = m; }

  /// Starts loading what rows and columns are multiplied with; before the tile's products.
  __device__ void fetch_scales(int row0, int col0) { fetch_scales(row0, col0, epilogue_.a, epilogue_.b); }
  /// The same from scales of the tile's own: a[row], b[column], or nullptr for 1.
  __device__ void fetch_scales(int row0, int col0, const float* a, const float* b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row0 + 16 * warp_ + 8 * half + lane_ / 4;
      row_scale_[half] = a == nullptr || r >= m_ ? 1.0f : a[r * epilogue_.a_step];
    }
    const int i = static_cast<int>(threadIdx.x) - 128, c = col0 + i;
    column_scale_ = b == nullptr || i >= kN || c >= n_ ? 1.0f : b[c * epilogue_.b_step];
  }

  /// By both warpgroups, before either writes the tile.
  __device__ void share_scales() {
    consumers_together();  // nobody reads the scales of the tile before
    if (threadIdx.x - 128 < kN) scales_[threadIdx.x - 128] = column_scale_;
    consumers_together();
  }

  /// Writes the 64 rows of this warpgroup.
  __device__ void tile(const float (&d)[kN / 2], int row0, int col0) {
    share_scales();
    write(d, row0, col0);
  }
  __device__ void write(const float (&d)[kN / 2], int row0, int col0) {
    if (kStore == Store::direct || (kStore == Store::mixed && row0 + 64 > m_)) {
      if (kStore == Store::mixed) take_boxes_back();
#pragma unroll
      for (int j = 0; j < kN / 32; ++j) slice(d + 16 * j, row0 + 16 * warp_, col0, 32 * j);
    } else if (epilogue_.to_bf16) {
#pragma unroll
      for (int j = 0; j < kN / 64; ++j) box(d + 32 * j, row0, col0, 64 * j);
    } else {
#pragma unroll
      for (int j = 0; j < kN / 32; ++j) wide_box(d + 16 * j, row0, col0, 32 * j);
    }
  }

  /// Before the block ends: the copy engine still reads its memory.
  __device__ void finish() const {
    if (kStore != Store::direct && threadIdx.x % 128 == 0) store_wait_read<0>();
  }

 private:
  static __device__ void consumers_together() {
    asm volatile("bar.sync 1, %0;" ::"n"(128 * kConsumers) : "memory");
  }
  __device__ void group_together() const {
    asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
  }

  /// The way out is free for direct stores.
  __device__ void take_boxes_back() const {
    if (threadIdx.x % 128 == 0) store_wait_read<0>();
    group_together();
  }

  /// Two neighbouring columns of row `half` of this thread, scaled and with bias.
  __device__ float2 finished(float x, float y, int half, int col0, int c) const {
    const float2 s = *reinterpret_cast<const float2*>(scales_ + c);
    float2 v = {scaled(epilogue_, x, row_scale_[half], s.x), scaled(epilogue_, y, row_scale_[half], s.y)};
    if (epilogue_.bias != nullptr) {
      if (col0 + c < n_) v.x = v.x + __ldg(epilogue_.bias + col0 + c);
      if (col0 + c + 1 < n_) v.y = v.y + __ldg(epilogue_.bias + col0 + c + 1);
    }
    return v;
  }

  /// Waits for a free box, lets `fill` write it, and sends it to columns `c` of y.
  template <class Fill>
  __device__ void send(int row0, int c, const Fill& fill) {
    uint8_t* to = out_ + next_ * W::kBoxBytes;
    next_ = next_ + 1 == W::kBoxes ? 0 : next_ + 1;
    const bool sends = threadIdx.x % 128 == 0;
    if (sends) store_wait_read<W::kBoxes - 1>();
    group_together();
    fill(to);
    fence_for_copy();
    group_together();
    if (!sends) return;
    store_box(map_, to, c, row0);
    store_commit();
  }
  /// Place of byte `at` of a row of a box in 128-byte swizzle.
  static __device__ uint8_t* place(uint8_t* box, int row, int at) {
    return box + row * 128 + ((at / 16 ^ row % 8) * 16 | at % 16);
  }

  /// 64 columns in BF16.
  __device__ void box(const float* d, int row0, int col0, int offset) {
    send(row0, col0 + offset, [&](uint8_t* to) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int c = 8 * j + 2 * (lane_ % 4), r = 16 * warp_ + 8 * half + lane_ / 4;
          const float2 v = finished(d[4 * j + 2 * half], d[4 * j + 2 * half + 1], half, col0, offset + c);
          *reinterpret_cast<uint32_t*>(place(to, r, 2 * c)) = pack_bf16(v.x, v.y);
        }
      }
    });
  }
  /// 32 columns in FP32.
  __device__ void wide_box(const float* d, int row0, int col0, int offset) {
    send(row0, col0 + offset, [&](uint8_t* to) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int c = 8 * j + 2 * (lane_ % 4), r = 16 * warp_ + 8 * half + lane_ / 4;
          *reinterpret_cast<float2*>(place(to, r, 4 * c)) =
              finished(d[4 * j + 2 * half], d[4 * j + 2 * half + 1], half, col0, offset + c);
        }
      }
    });
  }

  /// 16 rows by 32 columns of a warp, turned in shared memory so that a thread has 8 consecutive columns of a
  /// row.
  __device__ void slice(const float* d, int row0, int col0, int offset) const {
    float* out = reinterpret_cast<float*>(out_) + warp_ * 16 * W::kPitch;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* to = out + lane_ / 4 * W::kPitch + 8 * j + 2 * (lane_ % 4);
      const int c = offset + 8 * j + 2 * (lane_ % 4);
      *reinterpret_cast<float2*>(to) = finished(d[4 * j], d[4 * j + 1], 0, col0, c);
      *reinterpret_cast<float2*>(to + 8 * W::kPitch) = finished(d[4 * j + 2], d[4 * j + 3], 1, col0, c);
    }
    __syncwarp();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = 8 * half + lane_ / 4, c = 8 * (lane_ % 4), m = row0 + r, n = col0 + offset + c;
      if (m >= m_ || n >= n_) continue;
      float y[8];
#pragma unroll
      for (int i = 0; i < 8; i += 4)
        *reinterpret_cast<float4*>(y + i) = *reinterpret_cast<const float4*>(out + r * W::kPitch + c + i);
      store_columns(epilogue_, m, n, min(8, n_ - n), y);
    }
  }

  const CUtensorMap& map_;
  const DeviceEpilogue& epilogue_;
  int m_, n_;
  uint8_t* out_;
  float* scales_;
  float row_scale_[2] = {}, column_scale_ = 1.0f;
  int next_ = 0;  ///< box to be written
  int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32 % 4;
};

}  // namespace minite::cuda::sm90
