// Products of Transformer Engine's reference: both operands' codes, scales and amaxes, and y = x w^T in FP32
// and BF16 with Epilogue::te, byte for byte, on every backend that runs here.
#include <set>

#include "backends/ref/table.h"
#include "backends/registry.h"
#include "golden/golden.h"
#include "ops/ops.h"
#include "ops/plan.h"
#include "support/expect_error.h"

namespace minite {
namespace {

/// "gemm/row1d_w2d/16x64x32": how x is quantized, how w is.
struct Family {
  const char* name;
  OuterScale x;
  BlockShape w;
};
constexpr Family kFamilies[] = {
    {"tensor1d_w1d", OuterScale::tensor, BlockShape::row},
    {"tensor1d_w2d", OuterScale::tensor, BlockShape::tile},
    {"row1d_w1d", OuterScale::row, BlockShape::row},
    {"row1d_w2d", OuterScale::row, BlockShape::tile},
};

class TransformerEngineGemm : public ::testing::Test {
 protected:
  io::SafetensorsFile file_{golden::files.te};
  ThreadPool pool_{2};
  int products_ = 0;

  [[nodiscard]] const io::TensorInfo& at(const std::string& key) const { return file_.tensors().at(key); }

  /// Quantizes `key` and compares what comes out.
  QTensor operand(const Context& ctx, const std::string& key, const QuantSpec& spec, Buffer& memory) {
    Buffer x_memory;
    const TensorView x = golden::view_of(at(key), x_memory);
    memory = Buffer(QTensor::bytes(spec, x.rows, x.cols));
    const QTensor q = QTensor::place(spec, x.rows, x.cols, memory.data());
    ops::quantize(ctx, {x, Orientation::rows, q, {}});
    const auto same = [&](const char* field, const uint8_t* got, int64_t bytes) {
      EXPECT_EQ(golden::first_difference(at(key + field).bytes.data(), got, bytes), "") << key << field;
    };
    same("_codes", q.codes, q.rows * q.code_stride());
    same("_scale", q.block_scales, q.rows * q.scale_stride());
    same("_amax", reinterpret_cast<const uint8_t*>(q.amax), q.outer_count() * 4);
    return q;
  }

  template <class T>
  void product(const OpTable& table, const std::string& key, const QTensor& x, const QTensor& w) {
    std::vector<T> y(static_cast<size_t>(x.rows * w.rows));
    const TensorView out(y.data(), x.rows, w.rows);
    const GemmPlan plan = plan_gemm(
        table, {x.spec.format, w.spec.format, out.dtype, w.rows, x.cols, Epilogue::te}, Policy{}, "golden");
    Buffer scratch(plan.scratch(x.rows, pool_.threads()));
    const Context ctx{&table, &pool_, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}};
    GemmArgs args{Operand::of(x), Operand::of(w), {}, out};
    args.epilogue = Epilogue::te;
    ops::gemm(ctx, plan, args);
    if constexpr (std::is_same_v<T, float>) {
      EXPECT_EQ(golden::first_difference(at(key).bytes.data(), y.data(), static_cast<int64_t>(y.size() * 4)),
                "")
          << key;
    } else {
      Buffer memory;
      const TensorView want = golden::view_of(at(key), memory);
      EXPECT_EQ(golden::first_difference(want.data, y.data(), static_cast<int64_t>(y.size() * 2)), "") << key;
    }
    ++products_;
  }
};

TEST_F(TransformerEngineGemm, EveryFamilyOnEveryBackend) {
  for (const Backend& backend : backends()) {
    if (backend.table == nullptr) continue;
    SCOPED_TRACE(std::string(backend.name));
    const Context ctx{backend.table, &pool_, nullptr, {}};
    for (const Family& family : kFamilies) {
      const std::string start = std::string("gemm/") + family.name + "/";
      for (const auto& [key, info] : file_.tensors()) {
        if (!key.starts_with(start) || !key.ends_with("/y_f32")) continue;
        const std::string name = key.substr(0, key.rfind('/'));
        Buffer x_memory, w_memory;
        const QTensor x = operand(ctx, name + "/x", {.format = FormatId::nvfp4, .outer = family.x}, x_memory);
        const QTensor w =
            operand(ctx, name + "/w",
                    {.format = FormatId::nvfp4, .outer = OuterScale::tensor, .blocks = family.w}, w_memory);
        product<float>(*backend.table, name + "/y_f32", x, w);
        product<bf16>(*backend.table, name + "/y_bf16", x, w);
      }
    }
  }
  RecordProperty("products", products_);
  EXPECT_GE(products_, 24);
}

/// Operands without outer amaxes, and a plan for another epilogue, are named.
TEST_F(TransformerEngineGemm, NeedsOuterAmaxes) {
  const OpTable& table = ref::table();
  const QuantSpec spec = {.format = FormatId::nvfp4, .outer = OuterScale::none};
  Buffer memory(QTensor::bytes(spec, 1, 16));
  const QTensor q = QTensor::place(spec, 1, 16, memory.data());
  float y = 0;
  GemmArgs args{Operand::of(q), Operand::of(q), {}, TensorView(&y, 1, 1)};
  args.epilogue = Epilogue::te;
  const GemmPlan plan =
      plan_gemm(table, {q.spec.format, q.spec.format, DType::f32, 1, 16, Epilogue::te}, Policy{}, "golden");
  EXPECT_NE(to_string(plan).find("epilogue te"), std::string::npos);
  Buffer scratch(plan.scratch(1, 1));
  const Context ctx{&table, &pool_, nullptr, {scratch.data(), static_cast<size_t>(scratch.size())}};
  test_support::expect_error(ErrorCode::invalid_argument, {"epilogue te needs outer amaxes", "a is nvfp4"},
                             [&] { ops::gemm(ctx, plan, args); });
}

}  // namespace
}  // namespace minite
