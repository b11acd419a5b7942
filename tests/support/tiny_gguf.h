#pragma once
// A model as a GGUF file, as llama.cpp's converter names and orders it: matrices in BF16, norms in F32.
#include <functional>
#include <map>

#include "io/gguf.h"
#include "support/temp_folder.h"
#include "support/tiny_bpe_gguf.h"
#include "support/tiny_model.h"

namespace minite::test_support {

struct GgufImage {
  struct Tensor {
    io::GgufType type;
    std::vector<int64_t> shape;
    std::string bytes;
  };
  std::map<std::string, Tensor> tensors;
  std::function<void(io::GgufValues&)> more_values = [](io::GgufValues&) {};

  void write(const std::filesystem::path& path, const ModelConfig& c, const std::string& architecture) const {
    io::GgufValues v;
    const auto put = [&](const char* key, int64_t value) {
      v.put_integer(architecture + "." + key, io::GgufValueType::u32, value);
    };
    v.put_text("general.architecture", architecture);
    put("block_count", c.num_hidden_layers);
    put("context_length", c.max_position_embeddings);
    put("embedding_length", c.hidden_size);
    put("feed_forward_length", c.intermediate_size);
    put("attention.head_count", c.num_attention_heads);
    put("attention.head_count_kv", c.num_key_value_heads);
    put("attention.key_length", c.head_dim);
    put("attention.value_length", c.head_dim);
    if (c.num_experts > 0) {
      put("expert_count", c.num_experts);
      put("expert_used_count", c.num_experts_per_tok);
      put("expert_feed_forward_length", c.moe_intermediate_size);
    }
    v.put_number(architecture + ".rope.freq_base", static_cast<float>(c.rope_theta));
    v.put_number(architecture + ".attention.layer_norm_rms_epsilon", c.rms_norm_eps);
    put_tiny_bpe(v, "gpt-2");
    more_values(v);
    std::vector<io::GgufTensorShape> shapes;
    for (const auto& [name, t] : tensors) shapes.push_back({name, t.type, t.shape});
    io::GgufWriter writer(path, v, shapes);
    for (const auto& [name, t] : tensors)
      writer.put(name, {reinterpret_cast<const std::byte*>(t.bytes.data()), t.bytes.size()});
    writer.commit();
  }
};

/// Rows of `w` from `first`, in BF16; rows of `heads` heads in ggml's order: of each head 0, D/2, 1, D/2 + 1
/// ...
inline std::string gguf_rows(const TensorView& w, int64_t first, int64_t rows, int64_t heads) {
  std::string bytes;
  const auto put_row = [&](int64_t r) {
    bytes.append(reinterpret_cast<const char*>(w.row<bf16>(first + r)), static_cast<size_t>(w.cols) * 2);
  };
  if (heads == 0) {
    for (int64_t r = 0; r < rows; ++r) put_row(r);
    return bytes;
  }
  const int64_t head = rows / heads;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < head / 2; ++i) {
      put_row(h * head + i);
      put_row(h * head + head / 2 + i);
    }
  }
  return bytes;
}

inline GgufImage gguf_image(const Weights& weights) {
  const ModelConfig& c = weights.config();
  GgufImage image;
  const auto matrix = [&](const std::string& name, const std::string& parameter, int64_t first, int64_t rows,
                          int64_t heads = 0) {
    const TensorView& w = weights.at(parameter).weight;
    image.tensors[name] = {io::GgufType::bf16, {rows, w.cols}, gguf_rows(w, first, rows, heads)};
  };
  const auto norm = [&](const std::string& name, const std::string& parameter) {
    const TensorView& w = weights.at(parameter).weight;
    std::string bytes;
    for (int64_t i = 0; i < w.size(); ++i) {
      const float x = w.as<bf16>()[i];
      bytes.append(reinterpret_cast<const char*>(&x), 4);
    }
    image.tensors[name] = {io::GgufType::f32, {w.cols}, bytes};
  };
  const bool permuted = c.family == "llama", experts = c.num_experts > 0;
  matrix("token_embd.weight", "embed", 0, c.vocab_size);
  if (!c.tie_word_embeddings) matrix("output.weight", "lm_head", 0, c.vocab_size);
  norm("output_norm.weight", "final_norm");
  for (int64_t l = 0; l < c.num_hidden_layers; ++l) {
    const std::string to = "blk." + std::to_string(l) + ".", from = "layers." + std::to_string(l) + ".";
    norm(to + "attn_norm.weight", from + "attn_norm");
    norm(to + "ffn_norm.weight", from + "mlp_norm");
    matrix(to + "attn_q.weight", from + "qkv", 0, c.q_size(), permuted ? c.num_attention_heads : 0);
    matrix(to + "attn_k.weight", from + "qkv", c.q_size(), c.kv_size(), permuted ? c.num_key_value_heads : 0);
    matrix(to + "attn_v.weight", from + "qkv", c.q_size() + c.kv_size(), c.kv_size());
    matrix(to + "attn_output.weight", from + "o", 0, c.hidden_size);
    if (!permuted) {
      norm(to + "attn_q_norm.weight", from + "q_norm");
      norm(to + "attn_k_norm.weight", from + "k_norm");
    }
    if (!experts) {
      matrix(to + "ffn_gate.weight", from + "gate_up", 0, c.intermediate_size);
      matrix(to + "ffn_up.weight", from + "gate_up", c.intermediate_size, c.intermediate_size);
      matrix(to + "ffn_down.weight", from + "down", 0, c.hidden_size);
      continue;
    }
    matrix(to + "ffn_gate_inp.weight", from + "router", 0, c.num_experts);
    const int64_t f = c.moe_intermediate_size;
    GgufImage::Tensor gate{io::GgufType::bf16, {c.num_experts, f, c.hidden_size}, ""},
        up = gate, down{io::GgufType::bf16, {c.num_experts, c.hidden_size, f}, ""};
    for (int64_t e = 0; e < c.num_experts; ++e) {
      const TensorView& both = weights.at(from + "experts.gate_up").weight;
      gate.bytes += gguf_rows(both, 2 * e * f, f, 0);
      up.bytes += gguf_rows(both, (2 * e + 1) * f, f, 0);
      down.bytes += gguf_rows(weights.at(from + "experts.down").weight, e * c.hidden_size, c.hidden_size, 0);
    }
    image.tensors[to + "ffn_gate_exps.weight"] = gate;
    image.tensors[to + "ffn_up_exps.weight"] = up;
    image.tensors[to + "ffn_down_exps.weight"] = down;
  }
  return image;
}

}  // namespace minite::test_support
