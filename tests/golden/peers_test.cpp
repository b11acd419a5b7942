// Codes, block scales, stored globals and decoded values of every peer's reference quantizer, byte for byte,
// on every backend that runs here. tests/golden/README.md says where the vectors come from and lists what is
// not compared and why; `test_golden --peers=FILE` checks another file of the same keys (ORACLE/CASE/FIELD).
#include <set>

#include "backends/registry.h"
#include "formats/peer_math.h"
#include "golden/golden.h"
#include "ops/ops.h"

namespace minite {
namespace {

using golden::Bytes;

/// How an oracle's vectors are checked.
struct Oracle {
  const char* name;
  QuantSpec spec;
  bool group = false;  ///< q and v of one fused tensor share the global
};
constexpr QuantSpec nvfp4(Convention convention, OuterScale outer = OuterScale::tensor,
                          ScaleSearch search = ScaleSearch::amax, int16_t scale_max = 448) {
  return {.format = FormatId::nvfp4,
          .outer = outer,
          .convention = convention,
          .search = search,
          .scale_max = scale_max};
}
constexpr QuantSpec mx(FormatId format, Convention convention) {
  return {.format = format, .convention = convention};
}
using C = Convention;
using S = ScaleSearch;
constexpr auto kNone = OuterScale::none, kTensor = OuterScale::tensor, kRow = OuterScale::row;
constexpr auto kFp8 = FormatId::mxfp8, kFp4 = FormatId::mxfp4, kE5m2 = FormatId::mxfp8_e5m2;
constexpr QuantSpec kTe2d = {.format = FormatId::nvfp4, .outer = kTensor, .blocks = BlockShape::tile};
constexpr Oracle kOracles[] = {
    {"ct", nvfp4(C::compressed_tensors)},
    {"ct_f32stats", nvfp4(C::compressed_tensors_f32)},
    {"ct_qkv_shared", nvfp4(C::compressed_tensors), true},
    {"ct_mxfp4", mx(kFp4, C::compressed_tensors)},
    {"ct_mxfp8", mx(kFp8, C::compressed_tensors)},
    {"modelopt", nvfp4(C::modelopt)},
    {"modelopt_qkv_shared", nvfp4(C::modelopt), true},
    {"modelopt_mxfp4", mx(kFp4, C::modelopt)},
    {"modelopt_mxfp8", mx(kFp8, C::modelopt)},
    {"torchao", nvfp4(C::torchao)},
    {"torchao_1level", nvfp4(C::torchao_1level, kNone)},
    {"torchao_mxfp8_FLOOR", mx(kFp8, C::floor)},
    {"torchao_mxfp4_FLOOR", mx(kFp4, C::floor)},
    {"torchao_mxfp8_RCEIL", mx(kFp8, C::rceil)},
    {"torchao_mxfp4_RCEIL", mx(kFp4, C::rceil)},
    {"torchao_mxfp8_CEIL", mx(kFp8, C::ceil)},
    {"torchao_mxfp4_CEIL", mx(kFp4, C::ceil)},
    {"torchao_mxfp8_EVEN", mx(kFp8, C::even)},
    {"torchao_mxfp4_EVEN", mx(kFp4, C::even)},
    {"te", nvfp4(C::te)},
    {"te_row", nvfp4(C::te, kRow)},
    {"te_2d", kTe2d},
    {"te_46_448", nvfp4(C::te, kTensor, S::four_six_mae)},
    {"te_46_256", nvfp4(C::te, kTensor, S::four_six_mae, 256)},
    {"vllm", nvfp4(C::vllm)},
    {"flashinfer_ref", nvfp4(C::flashinfer_test)},
    {"flashinfer_te", nvfp4(C::flashinfer)},
    {"flashinfer_te_row", nvfp4(C::flashinfer, kRow)},
    {"fouroversix_static_6", nvfp4(C::fouroversix)},
    {"fouroversix_static_4", nvfp4(C::fouroversix, kTensor, S::amax4)},
    {"fouroversix_mse", nvfp4(C::fouroversix, kTensor, S::four_six_mse, 256)},
    {"fouroversix_mae", nvfp4(C::fouroversix, kTensor, S::four_six_mae, 256)},
    {"fouroversix_abs_max", nvfp4(C::fouroversix, kTensor, S::four_six_abs_max, 256)},
    {"microxcaling_fp4_nearest", mx(kFp4, C::microxcaling)},
    {"microxcaling_fp4_even", mx(kFp4, C::floor)},
    {"microxcaling_fp8_e4m3_nearest", mx(kFp8, C::microxcaling)},
    {"microxcaling_fp8_e4m3_even", mx(kFp8, C::floor)},
    {"microxcaling_fp8_e5m2_nearest", mx(kE5m2, C::microxcaling)},
    {"microxcaling_fp8_e5m2_even", mx(kE5m2, C::floor)},
};

class Peers : public ::testing::Test {
 protected:
  io::SafetensorsFile file_{golden::files.peers};
  ThreadPool pool_{2};
  int compared_ = 0, codes_ = 0;
  int64_t excused_ = 0;

  [[nodiscard]] const io::TensorInfo* find(const std::string& key) const {
    const auto it = file_.tensors().find(key);
    return it == file_.tensors().end() ? nullptr : &it->second;
  }

  void check_bytes(const std::string& key, const uint8_t* got, int64_t bytes) {
    const io::TensorInfo* want = find(key);
    if (want == nullptr) return;
    EXPECT_EQ(static_cast<int64_t>(want->bytes.size()), bytes) << key;
    EXPECT_EQ(golden::first_difference(want->bytes.data(), got, bytes), "") << key;
    ++compared_;
  }

  void check_globals(const std::string& key, const QTensor& q) {
    const io::TensorInfo* want = find(key);
    if (want == nullptr) return;
    std::vector<float> got;
    for (int64_t r = 0; r < q.outer_count(); ++r) got.push_back(q.stored_global(r));
    EXPECT_EQ(want->count(), q.outer_count()) << key;
    EXPECT_EQ(golden::first_float_difference(golden::floats_of(*want).data(), got.data(), q.outer_count()),
              "")
        << key;
    ++compared_;
  }

  /// Under an E8M0 byte 0xFF the vectors hold code * 2^128 = inf; here, as in OCP MX, the block is NaN.
  void check_decode(const std::string& key, const Context& ctx, const QTensor& q) {
    const io::TensorInfo* want = find(key);
    if (want == nullptr) return;
    std::vector<float> expected = golden::floats_of(*want), y(expected.size());
    ops::dequantize(ctx, {q, TensorView(y.data(), q.rows, q.cols)});
    for (int64_t i = 0; q.spec.format != FormatId::nvfp4 && i < q.rows * q.cols; ++i) {
      const auto at = static_cast<size_t>(i);
      const int64_t block = i / q.cols * q.scale_stride() + i % q.cols / 32;
      if (q.block_scales[block] != 0xFF || !std::isinf(expected[at]) || !std::isnan(y[at])) continue;
      expected[at] = y[at];
      ++excused_;
    }
    EXPECT_EQ(golden::first_float_difference(expected.data(), y.data(), q.rows * q.cols), "") << key;
    ++compared_;
  }

  void check_case(const Context& ctx, const Oracle& oracle, const std::string& name) {
    const std::string at = std::string(oracle.name) + "/" + name + "/";
    Buffer x_memory;
    const TensorView x = golden::view_of(*find("inputs/" + name), x_memory);
    Buffer memory(QTensor::bytes(oracle.spec, x.rows, x.cols));
    QTensor q = QTensor::place(oracle.spec, x.rows, x.cols, memory.data());
    ops::quantize(ctx, {x, Orientation::rows, q, {}});
    check_bytes(at + "codes", q.codes, q.rows * q.code_stride());
    check_bytes(at + "scales", q.block_scales, q.rows * q.scale_stride());
    check_globals(at + "gs", q);
    check_decode(at + "deq", ctx, q);
  }

  /// q and v, stacked, are one quantization unit.
  void check_group(const Context& ctx, const Oracle& oracle) {
    const io::TensorInfo *q_info = find("inputs/qkv_q_32x64"), *v_info = find("inputs/qkv_v_32x64");
    if (q_info == nullptr || v_info == nullptr) return;
    const int64_t q_rows = q_info->shape[0], rows = q_rows + v_info->shape[0], cols = q_info->shape[1];
    Buffer both(static_cast<int64_t>(q_info->bytes.size() + v_info->bytes.size()));
    std::memcpy(both.data(), q_info->bytes.data(), q_info->bytes.size());
    std::memcpy(static_cast<std::byte*>(both.data()) + q_info->bytes.size(), v_info->bytes.data(),
                v_info->bytes.size());
    Buffer memory(QTensor::bytes(oracle.spec, rows, cols));
    const QTensor all = QTensor::place(oracle.spec, rows, cols, memory.data());
    ops::quantize(ctx, {{both.data(), DType::bf16, rows, cols}, Orientation::rows, all, {}});
    const std::string at = std::string(oracle.name) + "/";
    for (const auto& [name, part] : {std::pair{"qkv_q_32x64", all.slice_rows(0, q_rows)},
                                     std::pair{"qkv_v_32x64", all.slice_rows(q_rows, rows - q_rows)}}) {
      check_bytes(at + name + "/codes", part.codes, part.rows * part.code_stride());
      check_bytes(at + name + "/scales", part.block_scales, part.rows * part.scale_stride());
      check_globals(at + name + "/gs", part);
      check_decode(at + name + "/deq", ctx, part);
    }
  }
};

TEST_F(Peers, EveryByteOnEveryBackend) {
  std::set<std::string> checked;
  for (const Backend& backend : backends()) {
    if (backend.table == nullptr) continue;
    SCOPED_TRACE(std::string(backend.name));
    const Context ctx{backend.table, &pool_, nullptr, {}};
    for (const Oracle& oracle : kOracles) {
      const std::string start = std::string(oracle.name) + "/";
      std::set<std::string> cases;
      for (const auto& [key, info] : file_.tensors()) {
        if (!key.starts_with(start)) continue;
        cases.insert(key.substr(start.size(), key.rfind('/') - start.size()));
        checked.insert(key.substr(0, key.find('/')));
      }
      if (oracle.group) {
        check_group(ctx, oracle);
        continue;
      }
      for (const std::string& name : cases) check_case(ctx, oracle, name);
    }
  }
  RecordProperty("tensors_compared", compared_);
  RecordProperty("infinities_that_are_nan_here", static_cast<int>(excused_));
  EXPECT_GT(compared_, 1000);
  // Nothing in the file is passed over: every oracle has a row above.
  for (const auto& [key, info] : file_.tensors()) {
    const std::string oracle = key.substr(0, key.find('/'));
    if (oracle == "inputs" || oracle == "cast") continue;
    EXPECT_TRUE(checked.contains(oracle)) << oracle;
  }
}

/// torch's cast, which peers use for scale bytes: 464 rounds to 448, above is NaN.
TEST_F(Peers, CastToE4m3) {
  const io::TensorInfo *in = find("cast/e4m3/in"), *out = find("cast/e4m3/out"),
                       *back = find("cast/e4m3/decode");
  ASSERT_TRUE(in != nullptr && out != nullptr && back != nullptr);
  const std::vector<float> x = golden::floats_of(*in), decoded = golden::floats_of(*back);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(peer::cast_e4m3(x[i]), static_cast<uint8_t>(out->bytes[i])) << x[i];
  for (size_t code = 0; code < decoded.size(); ++code) {
    const float value = peer::widen_e4m3(static_cast<uint8_t>(code));
    EXPECT_TRUE(value == decoded[code] || (std::isnan(value) && std::isnan(decoded[code]))) << code;
  }
}

}  // namespace
}  // namespace minite
