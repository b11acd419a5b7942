#include "backends/recording.h"

#include "core/fail.h"

namespace minite {
namespace {

/// Where the wrapped functions find their backend and their listener.
struct State {
  const OpTable* inner = nullptr;
  Trace* trace = nullptr;
};
State state;

std::string shape(const TensorView& t) { return fmt::format("{}x{}", t.rows, t.cols); }

std::string_view format_name(const Operand& x) { return format(x.format()).name; }

/// The shape of what an op works on: the field that it has.
template <class Args>
std::string describe(const Args& args) {
  if constexpr (requires { args.permute; }) {
    return shape(args.permute.y) + " -> " + to_string(args.out.spec);
  } else if constexpr (requires { args.norm; }) {
    return shape(args.norm.x) + " -> " + to_string(args.out.spec);
  } else if constexpr (requires { args.act; }) {
    return shape(args.act.x) + " -> " + to_string(args.out.spec);
  } else if constexpr (requires { args.x; }) {
    return shape(args.x);
  } else if constexpr (requires { args.logits; }) {
    return shape(args.logits);
  } else if constexpr (requires { args.y; }) {
    return shape(args.y);
  } else if constexpr (requires { args.dy; }) {
    return shape(args.dy);
  } else if constexpr (requires { args.prob; }) {
    return shape(args.prob);
  } else if constexpr (requires { args.master; }) {
    return shape(args.master);
  } else if constexpr (requires { args.kv; }) {
    return fmt::format("{} rows, {} KV heads of {}", args.seq.size(), args.kv.kv_heads, args.kv.head_dim);
  } else if constexpr (requires { args.slot_of; }) {
    return fmt::format("{} slots", args.slot_of.size());
  } else {
    return fmt::format("{}x{} {}", args.q.rows, args.q.cols, to_string(args.q.spec));
  }
}
std::string describe(const GemmArgs& g) {
  return fmt::format("M={} N={} K={} {} x {} -> {}", g.y.rows, g.y.cols, g.a.depth(), format_name(g.a),
                     format_name(g.b), dtype_name(g.y.dtype));
}
std::string describe(const GroupedGemmArgs& g) {
  return fmt::format("{} groups, M={} at most, N={} K={} {} x {} -> {}", g.groups.count, g.y.rows, g.y.cols,
                     g.a.depth(), format_name(g.a), format_name(g.b), dtype_name(g.y.dtype));
}
std::string describe(const QuantizeArgs& q) {
  return fmt::format("{}x{} {}", q.out.rows, q.out.cols, to_string(q.out.spec));
}
std::string describe(const QuantizeBothArgs& q) { return describe(q.rows) + ", " + describe(q.columns); }
std::string describe(std::span<const GemmArgs> products) {
  int64_t rows = 0;
  for (const GemmArgs& g : products) rows += g.y.rows;
  if (products.empty()) return "no product";
  const GemmArgs& g = products.front();
  return fmt::format("{} products, M={} in all, N={} {} x {} -> {}", products.size(), rows, g.y.cols,
                     format_name(g.a), format_name(g.b), dtype_name(g.y.dtype));
}

/// The kernel that runs, where the backend can say.
template <class Args>
std::string_view kernel(const Args&) {
  return {};
}
std::string_view kernel(const GemmArgs& g) {
  return state.inner
      ->supports_gemm({g.a.format(), g.b.format(), g.y.dtype, g.y.cols, g.a.depth(), g.epilogue, g.order})
      .kernel;
}
std::string_view kernel(std::span<const GemmArgs> products) {
  return products.empty() ? std::string_view() : kernel(products.front());
}
std::string_view kernel(const QuantizeArgs& q) { return state.inner->supports_quantize(q.out.spec).kernel; }
std::string_view kernel(const QuantizeBothArgs& q) { return kernel(q.rows); }
std::string_view kernel(const DequantizeArgs& q) { return state.inner->supports_quantize(q.q.spec).kernel; }

/// Ends the span when the op ends or throws.
class OpSpan {
 public:
  OpSpan() = default;
  ~OpSpan() { state.trace->end(); }
  OpSpan(const OpSpan&) = delete;
  OpSpan& operator=(const OpSpan&) = delete;
};

/// An op's name and kind, filled by record().
struct Row {
  std::string_view name;
  SpanKind kind = SpanKind::compute;
};
template <auto kMember>
Row row;

/// The function that stands for `kMember` of the backend.
template <auto kMember>
struct Recorded;
template <class Args, void (*OpTable::*kMember)(Args, const Exec&)>
struct Recorded<kMember> {
  static void run(Args args, const Exec& exec) {
    state.trace->begin(row<kMember>.kind, row<kMember>.name, describe(args), kernel(args));
    const OpSpan span;
    (state.inner->*kMember)(args, exec);
  }
};

template <auto kMember>
void record(OpTable& table, std::string_view name, SpanKind kind) {
  row<kMember> = {name, kind};
  table.*kMember = Recorded<kMember>::run;
}

constexpr size_t kOps = 38;  ///< that record_all() wraps
static_assert(sizeof(OpTable) == sizeof(std::string_view) + (8 + kOps) * sizeof(void*),
              "an op was added: give it a line in record_all()");

void record_all(OpTable& t) {
  using T = OpTable;
  using enum SpanKind;
  record<&T::gemm>(t, "gemm", compute);
  record<&T::gemms>(t, "gemms", compute);
  record<&T::grouped_gemm>(t, "grouped_gemm", compute);
  record<&T::grouped_wgrad>(t, "grouped_wgrad", compute);
  record<&T::grouped_quantize>(t, "grouped_quantize", preparation);
  record<&T::quantize>(t, "quantize", preparation);
  record<&T::quantize_both>(t, "quantize_both", preparation);
  record<&T::dequantize>(t, "dequantize", preparation);
  record<&T::transpose_codes>(t, "transpose_codes", preparation);
  record<&T::prepack>(t, "prepack", preparation);
  record<&T::norm>(t, "norm", compute);
  record<&T::norm_backward>(t, "norm_backward", compute);
  record<&T::norm_quantize>(t, "norm_quantize", compute);
  record<&T::rope>(t, "rope", compute);
  record<&T::kv_write>(t, "kv_write", preparation);
  record<&T::attention>(t, "attention", compute);
  record<&T::attention_backward>(t, "attention_backward", compute);
  record<&T::swiglu>(t, "swiglu", compute);
  record<&T::swiglu_backward>(t, "swiglu_backward", compute);
  record<&T::swiglu_quantize>(t, "swiglu_quantize", compute);
  record<&T::add_norm_quantize>(t, "add_norm_quantize", compute);
  record<&T::add>(t, "add", compute);
  record<&T::bias_backward>(t, "bias_backward", compute);
  record<&T::route>(t, "route", compute);
  record<&T::route_backward>(t, "route_backward", compute);
  record<&T::router_balance>(t, "router_balance", compute);
  record<&T::dispatch>(t, "dispatch", preparation);
  record<&T::permute>(t, "permute", preparation);
  record<&T::permute_quantize>(t, "permute_quantize", preparation);
  record<&T::combine>(t, "combine", preparation);
  record<&T::combine_backward>(t, "combine_backward", preparation);
  record<&T::embedding>(t, "embedding", preparation);
  record<&T::embedding_backward>(t, "embedding_backward", preparation);
  record<&T::logprob>(t, "logprob", compute);
  record<&T::logprob_backward>(t, "logprob_backward", compute);
  record<&T::choose>(t, "choose", compute);
  record<&T::adamw>(t, "adamw", compute);
  record<&T::sum_squares>(t, "sum_squares", compute);
}

}  // namespace

Recording::Recording(const OpTable& inner, Trace& trace) : table_(inner) {
  if (state.inner != nullptr) fail(ErrorCode::internal, "profile: one recording at a time");
  state = {&inner, &trace};
  record_all(table_);
}

Recording::~Recording() { state = {}; }

}  // namespace minite
