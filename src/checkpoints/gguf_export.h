#pragma once
// A Hugging Face folder as one GGUF file for llama.cpp, linear layers in NVFP4 or BF16.
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/convert.h"
#include "io/gguf.h"

namespace minite::checkpoints {

enum class TokenizerPart : uint8_t { required, left_out };

/// Writes `target`, which must not exist. Families: the rows of gguf_families() by config.json's model_type.
/// Linear layers become NVFP4 blocks when options.spec is nvfp4 (from BF16 with options.spec.convention, from
/// quantized folders byte by byte: codes and scale bytes as they are, in ggml's order) with the outer scale
/// in `X.scale` and that of activations in `X.input_scale`; embedding, head and left-out layers BF16; norms
/// and routers F32. Rows of q and k of the llama architecture are permuted, codes and scales alike. Scales of
/// keys and values are dropped: llama.cpp has no place for them. The file appears whole at the end. Errors:
/// as convert(); unsupported: another model_type, a tensor without a GGUF name; invalid_argument: K no
/// multiple of 64 (named), a tokenizer that is no byte-level BPE (the sentence says why;
/// TokenizerPart::left_out writes no tokenizer).
ConvertReport export_gguf(const Context& ctx, const std::filesystem::path& source,
                          const std::filesystem::path& target, ConvertOptions options,
                          TokenizerPart tokenizer, const ConvertProgress& progress = {});

/// The tokenizer of `folder` as GGUF values (tokenizer.ggml.*). Errors: not_found without tokenizer.json,
/// unsupported when it is no byte-level BPE or its pre-tokenizer has no name in llama.cpp. `vocab_size` ids
/// are written; those without a token are unused.
void put_gguf_tokenizer(const std::filesystem::path& folder, const nlohmann::json& config,
                        io::GgufValues& values);

/// The GGUF name of a tensor: "model.layers.3.mlp.experts.7.up_proj.weight" is "blk.3.ffn_up_exps.weight",
/// expert
/// 7. `name` is empty when there is none.
struct GgufName {
  std::string name;     ///< without ".weight"
  int64_t expert = -1;  ///< -1: not one of several
};
[[nodiscard]] GgufName gguf_name(const std::string& module);

/// The row of HF that row `row` of a q or k matrix of `heads` heads takes in a GGUF file of the llama
/// architecture: stored row h D + 2 i + b is row h D + b D / 2 + i.
[[nodiscard]] int64_t llama_row(int64_t row, int64_t rows, int64_t heads);

}  // namespace minite::checkpoints
