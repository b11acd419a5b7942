// Spans by a clock that a test moves: nesting, sums of parts, the trace as JSON.
#include "diagnostics/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/recording.h"
#include "backends/registry.h"
#include "ops/ops.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace minite::diagnostics {
namespace {

using nlohmann::json;

int64_t now = 0;
int64_t test_clock() { return now; }

void op(TraceRecorder& recorder, SpanKind kind, std::string_view name, int64_t ns) {
  recorder.begin(kind, name, "2x3", "k");
  now += ns;
  recorder.end();
}

/// 100 ns: 5 outside, a step of 80 with a rollout of 40 in it, 15 of an op outside.
void record(TraceRecorder& recorder) {
  now += 5;
  {
    const Span step(&recorder, "step");
    now += 3;
    {
      const Span rollout(&recorder, "rollout");
      op(recorder, SpanKind::compute, "gemm", 25);
      now += 5;
      op(recorder, SpanKind::preparation, "quantize", 10);
    }
    op(recorder, SpanKind::compute, "gemm", 35);
    now += 2;
  }
  op(recorder, SpanKind::preparation, "quantize", 15);
  recorder.finish();
}

TEST(Profile, PartsAddUpExactly) {
  TraceRecorder recorder(test_clock);
  record(recorder);
  const ProfileTable t = profile_table(recorder);
  EXPECT_EQ(t.total, 100);
  EXPECT_EQ(t.compute, 60);
  EXPECT_EQ(t.preparation, 25);
  EXPECT_EQ(t.gap, 15);
  ASSERT_EQ(t.kernels.size(), 2u);
  EXPECT_EQ(t.kernels[0].name, "gemm");
  EXPECT_EQ(t.kernels[0].calls, 2);
  EXPECT_EQ(t.kernels[1].ns, 25);
  ASSERT_EQ(t.phases.size(), 3u);
  const auto row = [&](size_t i) {
    const PhaseRow& r = t.phases[i];
    return std::tuple(r.name, r.ns, r.compute, r.preparation, r.gap);
  };
  EXPECT_EQ(row(0), std::tuple("step", 80, 35, 0, 5));
  EXPECT_EQ(row(1), std::tuple("rollout", 40, 25, 10, 5));
  EXPECT_EQ(row(2), std::tuple("(outside)", 20, 0, 15, 5));
}

TEST(Profile, AnErrorLeavesSpansThatFinishEnds) {
  TraceRecorder recorder(test_clock);
  recorder.begin(SpanKind::phase, "step", {}, {});
  now += 4;
  recorder.finish();
  EXPECT_EQ(recorder.events().at(0).end, 4);
  test_support::expect_error(ErrorCode::internal, {"a span ends that did not begin"},
                             [&] { recorder.end(); });
}

TEST(Profile, TheTraceIsChromesJson) {
  TraceRecorder recorder(test_clock);
  record(recorder);
  const test_support::TempFolder folder;
  write_trace(folder / "t.json", recorder);
  const json trace = json::parse(test_support::slurp(folder / "t.json"));
  ASSERT_EQ(trace["traceEvents"].size(), 2u + 6u);
  const json& rollout = trace["traceEvents"][3];
  EXPECT_EQ(rollout,
            json::parse(R"({"name":"rollout","cat":"phase","ph":"X","ts":0.008,"dur":0.040,"pid":1,"tid":1,
                                     "args":{}})"));
  EXPECT_EQ(trace["traceEvents"][4]["args"], json::parse(R"({"shape":"2x3","kernel":"k"})"));
}

TEST(Profile, ARecordedBackendGivesTheSameBitsAndNamesItsOps) {
  TraceRecorder recorder(test_clock);
  ThreadPool pool(1);
  std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, plain(4), recorded(4);
  const OpTable& inner = backend("ref");
  const auto run = [&](const OpTable& table, std::vector<float>& y) {
    const Context ctx{&table, &pool, nullptr, {}};
    const GemmPlan plan =
        plan_gemm(table, {FormatId::fp32, FormatId::fp32, DType::f32, 2, 2}, Policy{}, "test");
    std::vector<std::byte> scratch(static_cast<size_t>(plan.scratch(2, 1)));
    Context with = ctx;
    with.scratch = scratch;
    ops::gemm(with, plan,
              {Operand::of(TensorView(a.data(), 2, 2)),
               Operand::of(TensorView(b.data(), 2, 2)),
               {},
               TensorView(y.data(), 2, 2),
               Output::overwrite});
    ops::add(with, {TensorView(y.data(), 2, 2), TensorView(a.data(), 2, 2), TensorView(y.data(), 2, 2)});
  };
  run(inner, plain);
  {
    const Recording recording(inner, recorder);
    run(recording.table(), recorded);
    test_support::expect_error(ErrorCode::internal, {"one recording at a time"},
                               [&] { const Recording second(inner, recorder); });
  }
  EXPECT_EQ(plain, recorded);
  ASSERT_EQ(recorder.events().size(), 2u);
  EXPECT_EQ(recorder.events()[0].name, "gemm");
  EXPECT_EQ(recorder.events()[0].kernel, "ref_fma_chain");
  EXPECT_EQ(recorder.events()[0].shape, "M=2 N=2 K=2 fp32 x fp32 -> f32");
  EXPECT_EQ(recorder.events()[1].name, "add");
  const Recording again(inner, recorder);  // the first one is gone
}

}  // namespace
}  // namespace minite::diagnostics
