// Codes, block scales, amaxes and decoded values of Transformer Engine's reference quantizer, byte for byte,
// on every backend that runs here. tests/golden/README.md says where the vectors come from; `test_golden
// --te=FILE` checks another file of the same keys (FAMILY/DTYPE/SHAPE/PATTERN/FIELD).
#include <map>
#include <set>

#include "backends/registry.h"
#include "golden/golden.h"
#include "ops/ops.h"

namespace minite {
namespace {

using golden::Bytes;
using golden::view_of;

struct Family {
  const char* name;
  QuantSpec spec;
};
constexpr QuantSpec nvfp4(OuterScale outer, BlockShape blocks = BlockShape::row,
                          ScaleSearch search = ScaleSearch::amax, int16_t scale_max = 448) {
  return {
      .format = FormatId::nvfp4, .outer = outer, .blocks = blocks, .search = search, .scale_max = scale_max};
}
constexpr auto kTensor = OuterScale::tensor, kRow = OuterScale::row;
constexpr auto k1d = BlockShape::row, k2d = BlockShape::tile;
constexpr auto kMae = ScaleSearch::four_six_mae, kMse = ScaleSearch::four_six_mse;
constexpr Family kFamilies[] = {
    {"tensor1d", nvfp4(kTensor)},
    {"tensor2d", nvfp4(kTensor, k2d)},
    {"row1d", nvfp4(kRow)},
    {"tensor1d_4o6_mae_448", nvfp4(kTensor, k1d, kMae)},
    {"tensor1d_4o6_mae_256", nvfp4(kTensor, k1d, kMae, 256)},
    {"tensor1d_4o6_mse_448", nvfp4(kTensor, k1d, kMse)},
    {"tensor1d_4o6_mse_256", nvfp4(kTensor, k1d, kMse, 256)},
    {"tensor2d_4o6_mae_448", nvfp4(kTensor, k2d, kMae)},
    {"tensor2d_4o6_mae_256", nvfp4(kTensor, k2d, kMae, 256)},
    {"tensor2d_4o6_mse_448", nvfp4(kTensor, k2d, kMse)},
    {"tensor2d_4o6_mse_256", nvfp4(kTensor, k2d, kMse, 256)},
    {"row1d_4o6_mae_448", nvfp4(kRow, k1d, kMae)},
    {"row1d_4o6_mae_256", nvfp4(kRow, k1d, kMae, 256)},
    {"row1d_4o6_mse_448", nvfp4(kRow, k1d, kMse)},
    {"row1d_4o6_mse_256", nvfp4(kRow, k1d, kMse, 256)},
    {"mxfp8_1d", {FormatId::mxfp8}},
    {"mxfp8_2d", {.format = FormatId::mxfp8, .blocks = BlockShape::tile}},
};

/// "row1d/bf16/16x16/boundary" of "row1d/bf16/16x16/boundary/codes".
std::string case_of(const std::string& key) { return key.substr(0, key.rfind('/')); }

class TransformerEngine : public ::testing::Test {
 protected:
  io::SafetensorsFile file_{golden::files.te};
  ThreadPool pool_{2};
  int compared_ = 0;

  [[nodiscard]] const io::TensorInfo* find(const std::string& key) const {
    const auto it = file_.tensors().find(key);
    return it == file_.tensors().end() ? nullptr : &it->second;
  }

  void check_bytes(const std::string& key, const void* got, int64_t bytes, Bytes how = Bytes::exact) {
    const io::TensorInfo* want = find(key);
    if (want == nullptr) return;
    EXPECT_EQ(golden::first_difference(want->bytes.data(), got, bytes, how), "") << key;
    ++compared_;
  }

  void check_half(const std::string& name, const std::string& suffix, const Context& ctx, const TensorView& x,
                  Orientation along, const QuantSpec& spec) {
    if (find(name + "/codes" + suffix) == nullptr) return;
    const bool rows = along == Orientation::rows;
    const int64_t m = rows ? x.rows : x.cols, k = rows ? x.cols : x.rows;
    Buffer memory(QTensor::bytes(spec, m, k));
    const QTensor q = QTensor::place(spec, m, k, memory.data());
    ops::quantize(ctx, {x, along, q, {}});
    check_bytes(name + "/codes" + suffix, q.codes, m * q.code_stride());
    check_bytes(name + "/scale" + suffix, q.block_scales, m * q.scale_stride(),
                spec.format == FormatId::nvfp4 ? Bytes::e4m3_nan : Bytes::exact);
    const io::TensorInfo* amax = find(name + "/amax" + suffix);
    if (amax != nullptr) {
      EXPECT_EQ(golden::first_float_difference(golden::floats_of(*amax).data(), q.amax, amax->count()), "")
          << name << " amax" << suffix;
      ++compared_;
    }
    const io::TensorInfo* deq = suffix.empty() ? find(name + "/deq") : nullptr;
    if (deq == nullptr) return;
    std::vector<float> y(static_cast<size_t>(m * k));
    ops::dequantize(ctx, {q, TensorView(y.data(), m, k)});
    EXPECT_EQ(golden::first_float_difference(golden::floats_of(*deq).data(), y.data(), deq->count()), "")
        << name << " deq";
    ++compared_;
  }

  void check_family(const OpTable& table, const std::string& prefix, const Family& family) {
    const Context ctx{&table, &pool_, nullptr, {}};
    std::set<std::string> cases;
    const std::string start = prefix + family.name + "/";
    for (const auto& [key, info] : file_.tensors()) {
      if (key.starts_with(start)) cases.insert(case_of(key));
    }
    for (const std::string& name : cases) {
      const std::string tail = name.substr(start.size());
      const io::TensorInfo* input = find(prefix + "inputs/" + tail);
      ASSERT_NE(input, nullptr) << name;
      Buffer memory;
      const TensorView x = view_of(*input, memory);
      check_half(name, "", ctx, x, Orientation::rows, family.spec);
      check_half(name, "_t", ctx, x, Orientation::columns, family.spec);
    }
  }
};

/// The caster gives the reference's bytes on the reference's z. Ours sums the transform in another order,
/// which may move z by one BF16 rounding: how many code bytes differ is counted. Left out of the count are
/// inputs whose sums overflow (`maxes`) and subnormals, which the reference's matrix product flushes
/// (`denormals`).
TEST_F(TransformerEngine, RandomHadamard) {
  QuantSpec rotated = nvfp4(kTensor);
  rotated.rotation = Rotation::hadamard;
  int64_t bytes = 0, differing = 0;
  for (const auto& [key, info] : file_.tensors()) {
    if (!key.starts_with("tensor1d_rht/") || !key.ends_with("/rht_t")) continue;
    const std::string name = case_of(key);
    const io::TensorInfo* input = find("inputs/" + name.substr(name.find('/') + 1));
    ASSERT_NE(input, nullptr) << name;
    Buffer x_memory, z_memory;
    const TensorView x = view_of(*input, x_memory), z = view_of(info, z_memory);
    for (const Backend& backend : backends()) {
      if (backend.table == nullptr) continue;
      const Context ctx{backend.table, &pool_, nullptr, {}};
      check_half(name, "_t", ctx, z, Orientation::rows, nvfp4(kTensor));
      check_half(name, "", ctx, x, Orientation::rows, nvfp4(kTensor));
      if (name.ends_with("/maxes") || name.ends_with("/denormals")) continue;
      Buffer memory(QTensor::bytes(rotated, x.cols, x.rows));
      const QTensor q = QTensor::place(rotated, x.cols, x.rows, memory.data());
      ops::quantize(ctx, {x, Orientation::columns, q});
      const io::TensorInfo& want = *find(name + "/codes_t");
      for (int64_t i = 0; i < q.rows * q.code_stride(); ++i, ++bytes)
        differing += static_cast<uint8_t>(want.bytes[static_cast<size_t>(i)]) != q.codes[i] ? 1 : 0;
    }
  }
  ASSERT_GT(bytes, 0);
  RecordProperty("code_bytes", static_cast<int>(bytes));
  RecordProperty("code_bytes_of_another_order", static_cast<int>(differing));
  EXPECT_LT(static_cast<double>(differing), 1e-3 * static_cast<double>(bytes));
}

TEST_F(TransformerEngine, EveryByteOnEveryBackend) {
  for (const Backend& backend : backends()) {
    if (backend.table == nullptr) continue;
    SCOPED_TRACE(std::string(backend.name));
    for (const Family& family : kFamilies) {
      for (const char* prefix : {"", "nonfinite/"}) check_family(*backend.table, prefix, family);
    }
  }
  RecordProperty("tensors_compared", compared_);
  EXPECT_GT(compared_, 500);
}

}  // namespace
}  // namespace minite
