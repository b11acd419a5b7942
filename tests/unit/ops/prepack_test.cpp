// prepack: what it asks for, and that backends which read codes as they lie ask for nothing.
#include <gtest/gtest.h>

#include <vector>

#include "backends/registry.h"
#include "core/memory.h"
#include "minite/error.h"
#include "ops/ops.h"

namespace minite::ops {
namespace {

constexpr QuantSpec kWeights{FormatId::nvfp4, OuterScale::tensor};

class Prepack : public testing::Test {
 protected:
  std::string refusal(const PrepackArgs& args) {
    try {
      prepack(ctx_, args);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  }
  ThreadPool pool_{1};
  Context ctx_{&backend("ref"), &pool_, nullptr, {}};
  Buffer memory_{QTensor::bytes(kWeights, 32, 128)};
  QTensor q_ = QTensor::place(kWeights, 32, 128, memory_.data());
};

TEST_F(Prepack, ACpuReadsCodesAsTheyLie) {
  for (const char* name : {"ref", "simd"}) {
    ctx_.table = &backend(name);
    EXPECT_EQ(ctx_.table->prepacked_bytes(kWeights, 32, 128), 0) << name;
    EXPECT_EQ(refusal({q_, {}}), "") << name;
  }
}

TEST_F(Prepack, RefusesAPlaceOfAnotherSize) {
  std::vector<std::byte> place(64);
  EXPECT_EQ(refusal({q_, place}), "prepack: 64 bytes for nvfp4[te,outer=tensor] 32x128, backend ref takes 0");
}

TEST_F(Prepack, ValuesHaveNoPrepackedForm) {
  std::vector<float> values(32 * 16), out(32 * 32);
  const TensorView x(values.data(), 32, 16);
  Operand b = Operand::of(x);
  b.prepacked = reinterpret_cast<const std::byte*>(values.data());
  const GemmPlan plan =
      plan_gemm(*ctx_.table, {FormatId::fp32, FormatId::fp32, DType::f32, 32, 16}, Policy{}, "test");
  try {
    gemm(ctx_, plan, {Operand::of(x), b, {}, TensorView(out.data(), 32, 32)});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "qgemm: b is fp32 and has a prepacked form beside it");
  }
}

TEST_F(Prepack, RefusesWhatHasNoCodes) {
  EXPECT_EQ(refusal({QTensor{{FormatId::bf16}, 32, 128}, {}}), "prepack: bf16 has no codes");
}

}  // namespace
}  // namespace minite::ops
