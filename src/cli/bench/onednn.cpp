#include "cli/bench/onednn.h"

#include <fmt/format.h>

#include <cstring>

#include "cli/bench/data.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

// Values of dnnl_types.h and dnnl_config.h, equal in all of version 2.
constexpr int kCpu = 1, kBf16 = 2, kF32 = 3, kAnyLayout = 1, kInOrder = 1;
constexpr int kQueryImplementation = 8, kQueryWeights = 131;
constexpr int kSource = 1, kDestination = 17, kWeights = 33;
constexpr unsigned kSequential = 1, kOpenMp = 2;

/// A call that cannot fail on a valid problem.
void check(int status, const char* what) {
  if (status != 0) fail(ErrorCode::internal, "oneDNN: {} gave status {}", what, status);
}

/// A matrix in oneDNN's hands.
struct Held {
  Buffer data;
  OneDnnApi::Handle memory = nullptr;
};

class MatmulCall : public RivalCall {
 public:
  MatmulCall(const OneDnnApi& api, OneDnnApi::Handle stream) : api_(api), stream_(stream) {}
  ~MatmulCall() override {
    if (primitive != nullptr) api_.primitive_destroy(primitive);
    for (const Held* held : {&x, &w, &y}) {
      if (held->memory != nullptr) api_.memory_destroy(held->memory);
    }
  }
  void run() override {
    const OneDnnApi::Arg args[] = {{kSource, x.memory}, {kWeights, w.memory}, {kDestination, y.memory}};
    check(api_.execute(primitive, stream_, 3, args), "dnnl_primitive_execute");
    check(api_.stream_wait(stream_), "dnnl_stream_wait");
  }
  [[nodiscard]] std::vector<float> product() const override {
    if (result.dtype == DType::bf16) return widened(result);
    return {result.as<const float>(), result.as<const float>() + result.size()};
  }

  OneDnnApi::Handle primitive = nullptr;
  Held x, w, y;
  TensorView result;  ///< of y

 private:
  const OneDnnApi& api_;
  OneDnnApi::Handle stream_;
};

}  // namespace

void OneDnnApi::bind(Library& library) {
  library.bind(version, "dnnl_version");
  library.bind(engine_create, "dnnl_engine_create");
  library.bind(engine_destroy, "dnnl_engine_destroy");
  library.bind(stream_create, "dnnl_stream_create");
  library.bind(stream_destroy, "dnnl_stream_destroy");
  library.bind(stream_wait, "dnnl_stream_wait");
  library.bind(desc_by_strides, "dnnl_memory_desc_init_by_strides");
  library.bind(desc_by_tag, "dnnl_memory_desc_init_by_tag");
  library.bind(desc_size, "dnnl_memory_desc_get_size");
  library.bind(memory_create, "dnnl_memory_create");
  library.bind(memory_destroy, "dnnl_memory_destroy");
  library.bind(matmul_desc, "dnnl_matmul_desc_init");
  library.bind(primitive_desc, "dnnl_primitive_desc_create");
  library.bind(reorder_desc, "dnnl_reorder_primitive_desc_create");
  library.bind(query_md, "dnnl_primitive_desc_query_md");
  library.bind(query, "dnnl_primitive_desc_query");
  library.bind(primitive_desc_destroy, "dnnl_primitive_desc_destroy");
  library.bind(primitive_create, "dnnl_primitive_create");
  library.bind(primitive_destroy, "dnnl_primitive_destroy");
  library.bind(execute, "dnnl_primitive_execute");
}

namespace {

using Handle = OneDnnApi::Handle;
using MemoryDesc = OneDnnApi::MemoryDesc;

/// Builds one MatmulCall.
class Builder {
 public:
  Builder(const OneDnnApi& api, Handle engine, Handle stream, DType dtype)
      : api_(api), engine_(engine), stream_(stream), dtype_(dtype) {}

  Found<RivalCall> build(const Problem& problem, const std::string& name) const {
    const int64_t m = problem.x.rows, n = problem.w.rows, k = problem.x.cols;
    const MemoryDesc x = plain({m, k}, {k, 1}), w = plain({k, n}, {1, k}), y = plain({m, n}, {n, 1});
    OneDnnApi::MatmulDesc desc;
    const MemoryDesc any = any_layout({k, n});
    check(api_.matmul_desc(&desc, &x, &any, nullptr, &y), "dnnl_matmul_desc_init");
    Handle made = nullptr;
    if (api_.primitive_desc(&made, &desc, nullptr, engine_, nullptr) != 0)
      return absent<RivalCall>(name + " is not supported on this processor");
    auto call = std::make_unique<MatmulCall>(api_, stream_);
    const char* implementation = "";
    check(api_.query(made, kQueryImplementation, 0, &implementation), "dnnl_primitive_desc_query");
    call->name = fmt::format("{} {}", name, implementation);
    call->x = hold(&x, problem.x);
    call->w = packed(&w, problem.w, api_.query_md(made, kQueryWeights, 0));
    call->y = hold(&y, {});
    call->result = TensorView(call->y.data.data(), dtype_, m, n);
    check(api_.primitive_create(&call->primitive, made), "dnnl_primitive_create");
    api_.primitive_desc_destroy(made);
    return {std::move(call), ""};
  }

 private:
  struct Pair {
    int64_t first, second;
  };
  [[nodiscard]] int type() const { return dtype_ == DType::bf16 ? kBf16 : kF32; }
  [[nodiscard]] MemoryDesc plain(Pair shape, Pair strides) const {
    const OneDnnApi::Dims dims = {shape.first, shape.second}, steps = {strides.first, strides.second};
    MemoryDesc desc;
    check(api_.desc_by_strides(&desc, 2, dims, type(), steps), "dnnl_memory_desc_init_by_strides");
    return desc;
  }
  [[nodiscard]] MemoryDesc any_layout(Pair shape) const {
    const OneDnnApi::Dims dims = {shape.first, shape.second};
    MemoryDesc desc;
    check(api_.desc_by_tag(&desc, 2, dims, type(), kAnyLayout), "dnnl_memory_desc_init_by_tag");
    return desc;
  }
  /// Memory of `desc` with the values of a plain matrix, or zeros without one.
  [[nodiscard]] Held hold(const MemoryDesc* desc, const TensorView& values) const {
    Held held{Buffer(static_cast<int64_t>(api_.desc_size(desc)))};
    if (values.data != nullptr && dtype_ == DType::bf16) {
      std::memcpy(held.data.data(), values.data, static_cast<size_t>(held.data.size()));
    } else if (values.data != nullptr) {
      std::copy_n(values.as<const bf16>(), values.size(), reinterpret_cast<float*>(held.data.data()));
    }
    check(api_.memory_create(&held.memory, desc, engine_, held.data.data()), "dnnl_memory_create");
    return held;
  }
  /// Weights in the layout `target`.
  [[nodiscard]] Held packed(const MemoryDesc* source, const TensorView& values,
                            const MemoryDesc* target) const {
    const Held from = hold(source, values);
    Held to = hold(target, {});
    Handle made = nullptr, reorder = nullptr;
    check(api_.reorder_desc(&made, source, engine_, target, engine_, nullptr), "reorder of weights");
    check(api_.primitive_create(&reorder, made), "dnnl_primitive_create");
    const OneDnnApi::Arg args[] = {{kSource, from.memory}, {kDestination, to.memory}};
    check(api_.execute(reorder, stream_, 2, args), "dnnl_primitive_execute");
    check(api_.stream_wait(stream_), "dnnl_stream_wait");
    api_.primitive_destroy(reorder);
    api_.primitive_desc_destroy(made);
    api_.memory_destroy(from.memory);
    return to;
  }

  const OneDnnApi& api_;
  Handle engine_, stream_;
  DType dtype_;
};

}  // namespace

Found<OneDnn> OneDnn::open() {
  Library library({"libdnnl.so.2", "libdnnl.so", "libdnnl.so.3"});
  if (!library.found()) return absent<OneDnn>("oneDNN is not installed (Debian: libdnnl2)");
  auto* version = library.optional<const OneDnnApi::Version*()>("dnnl_version");
  if (version == nullptr) return absent<OneDnn>("oneDNN without dnnl_version is not measured");
  const OneDnnApi::Version v = *version();
  const std::string name = fmt::format("oneDNN {}.{}.{}", v.major, v.minor, v.patch);
  if (v.major != 2) return absent<OneDnn>(name + " is not measured: its interface is not that of version 2");
  auto dnn = std::make_unique<OneDnn>();
  dnn->name_ = name;
  dnn->api_.bind(library);
  if (!library.missing().empty())
    return absent<OneDnn>(fmt::format("{} without {} is not measured", name, library.missing()));
  if (v.cpu_runtime == kOpenMp) dnn->set_threads_ = library.optional<void(int)>("omp_set_num_threads");
  if (dnn->set_threads_ == nullptr && v.cpu_runtime != kSequential) {
    return absent<OneDnn>(
        name + " is not measured: its threads are not OpenMP's, so that their number cannot be set");
  }
  check(dnn->api_.engine_create(&dnn->engine_, kCpu, 0), "dnnl_engine_create");
  check(dnn->api_.stream_create(&dnn->stream_, dnn->engine_, kInOrder), "dnnl_stream_create");
  return {std::move(dnn), ""};
}

OneDnn::~OneDnn() {
  if (stream_ != nullptr) api_.stream_destroy(stream_);
  if (engine_ != nullptr) api_.engine_destroy(engine_);
}

Found<RivalCall> OneDnn::matmul(const Problem& problem, DType dtype) const {
  if (set_threads_ != nullptr) {
    set_threads_(problem.threads);
  } else if (problem.threads != 1) {
    return absent<RivalCall>(name_ + " was built for one thread");
  }
  return Builder(api_, engine_, stream_, dtype)
      .build(problem, fmt::format("{} {}", name_, dtype_name(dtype)));
}

}  // namespace minite::cli
