#include "cli/bench/ggml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "cli/bench/data.h"
#include "core/cpu.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

// Values of enum ggml_type, and what they stand for.
constexpr int kF32 = 0, kNvfp4 = 40;
constexpr std::string_view kName = "nvfp4";
constexpr int64_t kBlock = 64;
constexpr size_t kBlockBytes = 36;  ///< four scale bytes, 32 bytes of codes

/// Weights are scaled before ggml quantizes them, as its converters do with a scale beside the tensor,
/// because a block's scale is E4M3 and nothing else. The largest block gets this scale: from 248 on, ggml's
/// encoder rounds up to 448.
constexpr double kLargestScale = 240;

class ProductCall : public RivalCall {
 public:
  ProductCall(const GgmlApi& api, const Problem& problem)
      : api_(api), m_(problem.x.rows), n_(problem.w.rows), k_(problem.x.cols) {
    const size_t data =
        api.row_size(kNvfp4, n_ * k_) + sizeof(float) * static_cast<size_t>(m_ * k_ + m_ * n_);
    constexpr size_t kAlign = 4096;
    context_ = api.init({data + api.graph_overhead() + 3 * (api.tensor_overhead() + kAlign), nullptr, false});
    if (context_ == nullptr) fail(ErrorCode::resource, "ggml could not allocate {} bytes", data);
    void* w = api.new_tensor(context_, kNvfp4, k_, n_);
    void* x = api.new_tensor(context_, kF32, k_, m_);
    y_ = api.mul_mat(context_, w, x);
    std::copy_n(problem.x.as<const bf16>(), m_ * k_, static_cast<float*>(api.data(x)));
    quantize_weights(problem.w, static_cast<std::byte*>(api.data(w)));
    graph_ = api.new_graph(context_);
    api.expand(graph_, y_);
    backend_ = api.backend_init();
    api.set_threads(backend_, problem.threads);
  }
  ~ProductCall() override {
    api_.backend_free(backend_);
    api_.free(context_);
  }
  void run() override {
    const int status = api_.compute(backend_, graph_);
    if (status != 0) fail(ErrorCode::internal, "ggml_backend_graph_compute gave status {}", status);
  }
  [[nodiscard]] std::vector<float> product() const override {
    const auto* y = static_cast<const float*>(api_.data(y_));
    std::vector<float> values(y, y + m_ * n_);
    for (float& value : values) value /= scale_;
    return values;
  }

 private:
  void quantize_weights(const TensorView& w, std::byte* out) {
    float amax = 0;
    for (int64_t i = 0; i < w.size(); ++i) amax = std::max(amax, std::fabs(float(w.as<const bf16>()[i])));
    scale_ = static_cast<float>(kLargestScale * 6 / amax);
    std::vector<float> row(static_cast<size_t>(k_));
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < k_; ++j) row[static_cast<size_t>(j)] = scale_ * w.as<const bf16>()[i * k_ + j];
      out += api_.quantize(kNvfp4, row.data(), out, 0, 1, k_, nullptr);
    }
  }

  const GgmlApi& api_;
  int64_t m_, n_, k_;
  GgmlApi::Handle context_ = nullptr, y_ = nullptr, graph_ = nullptr, backend_ = nullptr;
  float scale_ = 1;
};

class QuantizeCall : public RivalCall {
 public:
  QuantizeCall(const GgmlApi& api, const TensorView& x)
      : api_(api),
        rows_(x.rows),
        cols_(x.cols),
        x_(widened(x)),
        out_(static_cast<int64_t>(api.row_size(kNvfp4, x.size()))) {}
  void run() override {
    const size_t bytes = api_.quantize(kNvfp4, x_.data(), out_.data(), 0, rows_, cols_, nullptr);
    if (static_cast<int64_t>(bytes) != out_.size())
      fail(ErrorCode::internal, "ggml_quantize_chunk wrote {} bytes instead of {}", bytes, out_.size());
  }
  [[nodiscard]] std::vector<float> product() const override { return {}; }

 private:
  const GgmlApi& api_;
  int64_t rows_, cols_;
  std::vector<float> x_;
  Buffer out_;
};

/// The names of a library: as its developers' link, as packages install it.
std::vector<std::string> files(const std::string& folder, const std::string& stem) {
  const std::string path = folder.empty() ? stem : folder + "/" + stem;
  return {path + ".so", path + ".so.0"};
}

}  // namespace

void GgmlApi::bind(Library& base, Library& cpu) {
  base.bind(type_name, "ggml_type_name");
  base.bind(block_size, "ggml_blck_size");
  base.bind(type_size, "ggml_type_size");
  base.bind(row_size, "ggml_row_size");
  base.bind(quantize, "ggml_quantize_chunk");
  base.bind(init, "ggml_init");
  base.bind(free, "ggml_free");
  base.bind(graph_overhead, "ggml_graph_overhead");
  base.bind(tensor_overhead, "ggml_tensor_overhead");
  base.bind(new_tensor, "ggml_new_tensor_2d");
  base.bind(data, "ggml_get_data");
  base.bind(mul_mat, "ggml_mul_mat");
  base.bind(new_graph, "ggml_new_graph");
  base.bind(expand, "ggml_build_forward_expand");
  base.bind(compute, "ggml_backend_graph_compute");
  base.bind(backend_free, "ggml_backend_free");
  cpu.bind(backend_init, "ggml_backend_cpu_init");
  cpu.bind(set_threads, "ggml_backend_cpu_set_n_threads");
}

Found<Ggml> Ggml::open(const std::string& folder) {
  Library base(files(folder, "libggml-base"));
  if (!base.found())
    return absent<Ggml>(fmt::format("ggml was not found ({}); --ggml DIR names it", base.error()));
  Library cpu(files(folder, "libggml-cpu"));
  if (!cpu.found()) return absent<Ggml>(fmt::format("ggml's CPU backend was not found ({})", cpu.error()));
  auto ggml = std::make_unique<Ggml>();
  ggml->api_.bind(base, cpu);
  for (const Library* library : {&base, &cpu}) {
    if (!library->missing().empty())
      return absent<Ggml>(fmt::format("a ggml without {} is not measured", library->missing()));
  }
  const char* name = ggml->api_.type_name(kNvfp4);
  const int64_t block = ggml->api_.block_size(kNvfp4);
  const size_t bytes = ggml->api_.type_size(kNvfp4);
  if (name == nullptr || name != kName || block != kBlock || bytes != kBlockBytes) {
    return absent<Ggml>(
        fmt::format("this ggml is not measured: its type {} is {} with {} elements in {} bytes, "
                    "not {} with {} in {}",
                    kNvfp4, name == nullptr ? "unnamed" : name, block, bytes, kName, kBlock, kBlockBytes));
  }
  ggml->describe(base, cpu);
  return {std::move(ggml), ""};
}

void Ggml::describe(const Library& base, const Library& cpu) {
  name_ = "ggml";
  if (auto* version = base.optional<const char*()>("ggml_version")) name_ += std::string(" ") + version();
  const auto built_for = [&](const char* function) {
    auto* has = cpu.optional<int()>(function);
    return has != nullptr && has() != 0;
  };
  const auto best_of = [](bool avx512, bool avx2) {
    return avx512 ? SimdLevel::avx512 : avx2 ? SimdLevel::avx2 : SimdLevel::none;
  };
  const SimdLevel built = best_of(built_for("ggml_cpu_has_avx512"), built_for("ggml_cpu_has_avx2"));
  const SimdLevel here =
      best_of(has_simd(cpu_info(), SimdLevel::avx512), has_simd(cpu_info(), SimdLevel::avx2));
  if (built != SimdLevel::none) name_ += fmt::format(" {}", to_string(built));
  if (built < here)
    doubt_ = fmt::format("ggml was built without {}, which this processor has", to_string(here));
}

Found<RivalCall> Ggml::call(const Problem& problem) const {
  std::unique_ptr<RivalCall> call;
  if (problem.w.rows == 0) {
    call = std::make_unique<QuantizeCall>(api_, problem.x);
  } else {
    call = std::make_unique<ProductCall>(api_, problem);
  }
  call->name = name_ + " nvfp4";
  return {std::move(call), ""};
}

}  // namespace minite::cli
