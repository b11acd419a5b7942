#include "cli/bench/specs.h"

#include <regex>

#include "core/fail.h"

namespace minite::cli {
namespace {

constexpr Goal kQuantizeGoals[] = {{RivalId::none, 2, 5}, {RivalId::ggml_nvfp4, 18, 0}};
constexpr Goal kW4a4Goals[] = {{RivalId::openblas_f32, 1.25, 2},
                               {RivalId::onednn_f32},
                               {RivalId::onednn_bf16},
                               {RivalId::ggml_nvfp4, 6, 10}};
constexpr Goal kAvx2Goals[] = {{RivalId::ggml_nvfp4, 1.2, 3}};
constexpr Goal kW4a16Goals[] = {
    {RivalId::openblas_f32, 0.85, 0.95}, {RivalId::onednn_f32}, {RivalId::onednn_bf16}};
constexpr Goal kGemvGoals[] = {
    {RivalId::read_bandwidth, 0.60, 0.75}, {RivalId::onednn_bf16}, {RivalId::ggml_nvfp4, 1.9, 0, 1}};
constexpr Goal kFourRowsGoals[] = {{RivalId::read_bandwidth}};

constexpr Spec kSpecs[] = {
    {"quantize/nvfp4_te_row", Job::quantize, "auto", 1, 4096, 0, 4096, kQuantizeGoals},
    {"gemm/w4a4/m64", Job::w4a4, "auto", 0, 64, 4096, 4096, kW4a4Goals},
    {"gemm/w4a4/m256", Job::w4a4, "auto", 0, 256, 2048, 2048, kW4a4Goals},
    {"gemm/w4a4/m1024", Job::w4a4, "auto", 0, 1024, 1024, 1024, kW4a4Goals},
    {"gemm/w4a4_avx2/m256", Job::w4a4, "avx2", 0, 256, 2048, 2048, kAvx2Goals},
    {"gemm/w4a16/m64", Job::w4a16, "auto", 0, 64, 4096, 4096, kW4a16Goals},
    {"gemm/w4a16/m256", Job::w4a16, "auto", 0, 256, 2048, 2048, kW4a16Goals},
    {"gemv/w4a16/m1", Job::gemv, "auto", 0, 1, 16384, 8192, kGemvGoals},
    {"gemv/w4a16/m4", Job::gemv, "auto", 0, 4, 16384, 8192, kFourRowsGoals},
};

}  // namespace

const char* unit_of(Job job) {
  if (job == Job::quantize) return "G elements/s";
  return job == Job::gemv ? "GB/s of packed weights" : "GFLOP/s";
}

std::regex parse_filter(const std::string& filter) {
  try {
    return std::regex(filter);
  } catch (const std::regex_error& error) {
    fail(ErrorCode::invalid_argument, "--filter {}: not a regular expression ({})", filter, error.what());
  }
}

std::vector<Spec> chosen(const std::string& filter) {
  std::vector<Spec> specs;
  const std::regex expression = parse_filter(filter);
  for (const Spec& spec : kSpecs) {
    if (std::regex_search(spec.name, expression)) specs.push_back(spec);
  }
  if (specs.empty()) {
    fail(ErrorCode::invalid_argument, "--filter {}: no kernel has such a name; names look like {}", filter,
         kSpecs[1].name);
  }
  return specs;
}

}  // namespace minite::cli
