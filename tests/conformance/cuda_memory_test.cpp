// Every quantizing op on memory of the device alone, with poison around each buffer: once, thirty times with
// equal bytes, and captured into a CUDA graph. Under compute-sanitizer this is the suite that says something.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "backends/cuda/cuda.h"
#include "backends/ref/table.h"
#include "core/philox.h"

namespace minite::conformance {
namespace {

constexpr int64_t kBytes = 8 << 20;
constexpr int64_t kGuard = 256;

/// Buffers of one op, laid out alike on both sides: `at` is what arguments point to, `host` where the bytes
/// can be written and read.
class Space {
 public:
  explicit Space(std::byte* at)
      : host_(static_cast<size_t>(kBytes), std::byte{0xFF}), at_(at ? at : host_.data()) {}

  template <class T>
  T* take(int64_t count) {
    const int64_t begin = used_ + kGuard;
    used_ = (begin + count * static_cast<int64_t>(sizeof(T)) + kGuard + 63) / 64 * 64;
    EXPECT_LE(used_, kBytes);
    return reinterpret_cast<T*>(at_ + begin);
  }
  /// Where the host sees what `p` points to.
  template <class T>
  T* seen(T* p) {
    return reinterpret_cast<T*>(host_.data() + (reinterpret_cast<std::byte*>(p) - at_));
  }
  TensorView matrix(int64_t rows, int64_t cols, int64_t extra, bool filled, float spread = 1.0f) {
    const TensorView t(take<bf16>(rows * (cols + extra)), DType::bf16, rows, cols, cols + extra);
    for (int64_t r = 0; filled && r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const auto w = Philox::generate(7, static_cast<uint64_t>(r * cols + c), static_cast<uint64_t>(used_));
        const float v = (Philox::unit(w[0]) + Philox::unit(w[1]) + Philox::unit(w[2]) - 1.5f) * 2.0f * spread;
        seen(t.as<bf16>())[r * t.stride + c] = bf16(w[3] % 97 == 0 ? v * 40.0f : v);
      }
    }
    return t;
  }
  QTensor codes(const QuantSpec& spec, int64_t rows, int64_t cols) {
    QTensor q;
    q.spec = spec;
    q.rows = rows;
    q.cols = cols;
    q.codes = take<uint8_t>(rows * q.code_stride());
    q.block_scales = take<uint8_t>(rows * q.scale_stride());
    if (q.outer_count() == 0) return q;
    q.outer = take<float>(q.outer_count());
    q.amax = take<float>(q.outer_count());
    return q;
  }
  std::vector<std::byte>& host() { return host_; }

 private:
  std::vector<std::byte> host_;
  std::byte* at_;
  int64_t used_ = 0;
};

/// Builds the arguments and returns what runs the op.
using Launch = std::function<void(const OpTable&, const Exec&)>;
struct Op {
  std::string name;
  std::function<Launch(Space&)> build;
};

Op quantize_op(const QuantSpec& spec, Orientation along, int64_t rows, int64_t cols, int64_t extra,
               bool decoded) {
  const std::string name = to_string(spec) + (along == Orientation::rows ? "" : " by columns");
  return {name + (decoded ? ", decoded" : ""), [=](Space& s) -> Launch {
            const bool by_rows = along == Orientation::rows;
            const TensorView x = s.matrix(rows, cols, extra, true);
            const int64_t r = by_rows ? rows : cols, c = spec.stored_cols(by_rows ? cols : rows);
            QuantizeArgs args = {x, along, s.codes(spec, r, c), {99, 5}};
            if (decoded) args.decoded = s.matrix(r, c, 0, false);
            return [=](const OpTable& t, const Exec& exec) { t.quantize(args, exec); };
          }};
}

Op both_op(const QuantSpec& by_rows, const QuantSpec& by_columns) {
  return {to_string(by_rows) + " and " + to_string(by_columns) + " by columns", [=](Space& s) -> Launch {
            const TensorView x = s.matrix(144, 272, 0, true);
            const QuantizeBothArgs both = {{x, Orientation::rows, s.codes(by_rows, 144, 272), {99, 5}},
                                           {x, Orientation::columns, s.codes(by_columns, 272, 144), {99, 6}}};
            return [=](const OpTable& t, const Exec& exec) { t.quantize_both(both, exec); };
          }};
}

NormArgs norm_of(Space& s, const TensorView& x) {
  NormArgs args;
  args.x = x;
  args.weight = s.matrix(1, x.cols, 0, true);
  args.eps = 1e-5f;
  args.y = s.matrix(x.rows, x.cols, 0, false);
  args.rstd = TensorView(s.take<float>(x.rows), x.rows, 1);
  return args;
}

constexpr QuantSpec kRow{FormatId::nvfp4, OuterScale::row}, kTensor{FormatId::nvfp4, OuterScale::tensor};

void add_producers(std::vector<Op>& ops) {
  for (const int64_t extra : {0, 3}) {  // one pass, and op after op
    ops.push_back({"norm_quantize", [=](Space& s) -> Launch {
                     const NormArgs norm = norm_of(s, s.matrix(37, 256, extra, true));
                     const QTensor out = s.codes(kRow, 37, 256);
                     return [=](const OpTable& t, const Exec& exec) { t.norm_quantize({norm, out}, exec); };
                   }});
    ops.push_back({"add_norm_quantize", [=](Space& s) -> Launch {
                     const TensorView a = s.matrix(37, 256, extra, true), b = s.matrix(37, 256, extra, true);
                     const TensorView sum = s.matrix(37, 256, 0, false);
                     const NormArgs norm = norm_of(s, sum);
                     const QTensor out = s.codes(kRow, 37, 256);
                     return [=](const OpTable& t, const Exec& exec) {
                       t.add_norm_quantize({{a, b, sum}, norm, out}, exec);
                     };
                   }});
    ops.push_back(
        {"swiglu_quantize", [=](Space& s) -> Launch {
           const TensorView x = s.matrix(37, 512, extra, true, 8.0f), y = s.matrix(37, 256, 0, false);
           const QTensor out = s.codes(kRow, 37, 256);
           return [=](const OpTable& t, const Exec& exec) { t.swiglu_quantize({{x, y}, out}, exec); };
         }});
    ops.push_back({"permute_quantize", [=](Space& s) -> Launch {
                     const TensorView x = s.matrix(20, 256, extra, true), y = s.matrix(40, 256, 0, false);
                     auto* slot_of = s.take<int32_t>(40);
                     for (int32_t i = 0; i < 40; ++i) s.seen(slot_of)[i] = (i * 7) % 40;
                     const QTensor out = s.codes(kRow, 40, 256);
                     return [=](const OpTable& t, const Exec& exec) {
                       t.permute_quantize({{x, {slot_of, 40}, y}, out}, exec);
                     };
                   }});
  }
}

void add_decoders(std::vector<Op>& ops) {
  ops.push_back({"quantize, dequantize", [](Space& s) -> Launch {
                   const TensorView x = s.matrix(30, 272, 0, true), y = s.matrix(30, 272, 0, false);
                   const QTensor q = s.codes(kRow, 30, 272);
                   return [=](const OpTable& t, const Exec& exec) {
                     t.quantize({x, Orientation::rows, q}, exec);
                     t.dequantize({q, y}, exec);
                   };
                 }});
  ops.push_back({"quantize, transpose_codes", [](Space& s) -> Launch {
                   QuantSpec spec = kTensor;
                   spec.blocks = BlockShape::tile;
                   const TensorView x = s.matrix(48, 80, 0, true);
                   const QTensor q = s.codes(spec, 48, 80), out = s.codes(spec, 80, 48);
                   return [=](const OpTable& t, const Exec& exec) {
                     t.quantize({x, Orientation::rows, q}, exec);
                     t.transpose_codes({q, out}, exec);
                   };
                 }});
}

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  QuantSpec tile = kTensor, search = kTensor, noise = kRow, turned = kTensor;
  tile.blocks = search.blocks = BlockShape::tile;
  search.search = ScaleSearch::four_six_mse;
  noise.rounding = Rounding::stochastic;
  turned.rotation = Rotation::hadamard;
  const QuantSpec none{FormatId::nvfp4}, mxfp8{FormatId::mxfp8}, mxfp4{FormatId::mxfp4};
  for (const QuantSpec& spec : {none, kTensor, kRow, tile, search, noise, mxfp8, mxfp4}) {
    for (const bool decoded : {false, true}) {
      ops.push_back(quantize_op(spec, Orientation::rows, 70, 1040, 0, decoded));
      ops.push_back(quantize_op(spec, Orientation::rows, 21, 77, 5, decoded));
      ops.push_back(quantize_op(spec, Orientation::columns, 144, 272, 0, decoded));
      ops.push_back(quantize_op(spec, Orientation::columns, 21, 77, 5, decoded));
    }
  }
  ops.push_back(quantize_op(turned, Orientation::columns, 50, 96, 0, true));
  QuantSpec plain_tile = tile, turned_noise = noise;
  plain_tile.outer = OuterScale::none;
  turned_noise.rotation = Rotation::hadamard;
  for (const auto& [by_rows, by_columns] : {std::pair{kRow, kRow},
                                            {kTensor, turned},
                                            {tile, tile},
                                            {plain_tile, plain_tile},
                                            {noise, turned_noise}})
    ops.push_back(both_op(by_rows, by_columns));
  add_decoders(ops);
  add_producers(ops);
  return ops;
}

/// Bytes of the device, released at the end.
class DeviceBytes {
 public:
  explicit DeviceBytes(const DeviceMemory& memory)
      : memory_(memory), data_(static_cast<std::byte*>(memory.allocate(kBytes))) {}
  ~DeviceBytes() { memory_.release(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  const DeviceMemory& memory_;
  std::byte* data_;
};

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    const Backend backend = cuda::backend();
    if (backend.table == nullptr) GTEST_SKIP() << backend.reason;
    table_ = backend.table;
  }
  /// What the reference leaves behind.
  static std::vector<std::byte> expected(const Op& op) {
    Space space(nullptr);
    op.build(space)(ref::table(), Exec{});
    return space.host();
  }
  /// "" or where two pictures of the memory differ first.
  static std::string difference(const std::vector<std::byte>& want, const std::vector<std::byte>& got) {
    for (size_t i = 0; i < want.size(); ++i) {
      if (want[i] != got[i]) return "byte " + std::to_string(i) + " differs";
    }
    return {};
  }
  /// Runs `again` on fresh inputs, with the op's arguments on `stream`, and returns the memory.
  std::vector<std::byte> run(const DeviceBytes& bytes, Space& space, void* stream,
                             const std::function<void()>& again) {
    table_->memory->copy_in(bytes.data(), space.host().data(), kBytes, stream);
    again();
    std::vector<std::byte> got(static_cast<size_t>(kBytes));
    table_->memory->copy_out(got.data(), bytes.data(), kBytes, stream);
    table_->memory->synchronize(stream);
    return got;
  }

  const OpTable* table_ = nullptr;
};

TEST_F(CudaMemory, BytesAndPoisonAreThoseOfTheReference) {
  const DeviceBytes bytes(*table_->memory);
  for (const Op& op : all_ops()) {
    Space space(bytes.data());
    const Launch launch = op.build(space);
    const auto got = run(bytes, space, nullptr, [&] { launch(*table_, Exec{}); });
    EXPECT_EQ(difference(expected(op), got), "") << op.name;
  }
}

TEST_F(CudaMemory, ThirtyRepeatsGiveEqualBytes) {
  const DeviceBytes bytes(*table_->memory);
  for (const Op& op : all_ops()) {
    Space space(bytes.data());
    const Launch launch = op.build(space);
    const auto first = run(bytes, space, nullptr, [&] { launch(*table_, Exec{}); });
    for (int i = 0; i < 29; ++i) {
      const auto got = run(bytes, space, nullptr, [&] { launch(*table_, Exec{}); });
      ASSERT_EQ(difference(first, got), "") << op.name << ", repeat " << i;
    }
  }
}

TEST_F(CudaMemory, EveryOpIsCapturedIntoAGraphAndReplayed) {
  const DeviceBytes bytes(*table_->memory);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  for (const Op& op : all_ops()) {
    Space space(bytes.data());
    const Launch launch = op.build(space);
    Exec exec;
    exec.stream = stream;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    launch(*table_, exec);
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << op.name;
    ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess) << op.name;
    const auto want = expected(op);
    for (int i = 0; i < 3; ++i) {
      const auto got =
          run(bytes, space, stream, [&] { ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess); });
      EXPECT_EQ(difference(want, got), "") << op.name << ", replay " << i;
    }
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace minite::conformance
