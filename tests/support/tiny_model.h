#pragma once
// A small random Qwen3 and the two sides that run it. Weights are far larger than a fresh model's, so that
// log-probs differ from token to token and a wrong bit is not lost in a uniform distribution.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/ref/table.h"
#include "backends/simd/isa_table.h"
#include "core/cpu.h"
#include "core/philox.h"
#include "learn/learner.h"
#include "sample/sampler.h"

namespace minite::test_support {

/// head_dim 24 is no multiple of a vector; hidden and intermediate sizes are no powers of two.
inline ModelConfig tiny_config(int64_t head_dim = 32, bool tied = false) {
  ModelConfig c;
  c.vocab_size = 40;
  c.hidden_size = 64;
  c.intermediate_size = 96;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = head_dim;
  c.max_position_embeddings = 224;
  c.rope_theta = 10000;
  c.tie_word_embeddings = tied;
  return c;
}

/// The same with 6 experts in every layer, 3 a token.
inline ModelConfig tiny_experts(int64_t head_dim = 32, bool tied = false) {
  ModelConfig c = tiny_config(head_dim, tied);
  c.family = "qwen3_moe";
  c.num_experts = 6;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 32;
  c.norm_topk_prob = true;
  return c;
}

/// Llama: no norms on q and k.
inline ModelConfig tiny_llama(int64_t head_dim = 32, bool tied = false) {
  ModelConfig c = tiny_config(head_dim, tied);
  c.family = "llama";
  return c;
}

/// Initializes and scales up: matrices to about 1/sqrt(fan-in), embeddings to 1, norms around 1.
inline void fill_strong(Weights& weights, uint64_t seed) {
  weights.initialize(seed);
  for (const Parameter& p : weights.parameters()) {
    for (int64_t i = 0; i < p.master.size(); ++i) {
      float& x = p.master.as<float>()[i];
      if (p.spec.rows == 1) {
        const auto word = Philox::generate(seed, static_cast<uint64_t>(i), 999)[0];
        x = 0.75f + 0.5f * static_cast<float>(word >> 8) * 0x1p-24f;
      } else {
        x *= p.spec.name == "embed" ? 50.0f : p.spec.name == "lm_head" ? 20.0f : 8.0f;
      }
    }
  }
  weights.round_masters();
}

/// The same with columns of the layers' matrices in blocks of very different size: sums of products of blocks
/// of one size are often exact, and then their order would not show.
inline void fill_uneven(Weights& weights, uint64_t seed) {
  fill_strong(weights, seed);
  for (const Parameter& p : weights.parameters()) {
    if (p.spec.rows == 1 || p.spec.name == "embed" || p.spec.name == "lm_head") continue;
    for (int64_t i = 0; i < p.master.size(); ++i)
      p.master.as<float>()[i] *= std::ldexp(2.0f, -3 * static_cast<int>(i % p.spec.cols / 16 % 4));
  }
  weights.round_masters();
}

/// Scales of FP8 keys and values that are no powers of two and differ between layers.
inline std::vector<KvScale> uneven_kv_scales(const ModelConfig& config) {
  std::vector<KvScale> scales;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto layer = static_cast<float>(i);
    scales.push_back({0.03f + 0.011f * layer, 0.017f + 0.007f * layer});
  }
  return scales;
}

/// Tables of every backend that this processor runs; ref first.
inline std::vector<const OpTable*> cpu_tables() {
  std::vector<const OpTable*> tables = {&ref::table()};
  const CpuInfo& cpu = cpu_info();
  if (has_simd(cpu, SimdLevel::avx2)) tables.push_back(&simd::avx2::table());
  if (has_simd(cpu, SimdLevel::avx512)) tables.push_back(&simd::avx512::table());
  if (has_simd(cpu, SimdLevel::avx512vnni)) tables.push_back(&simd::avx512vnni::table());
  return tables;
}
/// The widest of them: what most cases run on.
inline const OpTable& fast_table() { return *cpu_tables().back(); }

struct SideOptions {
  std::string recipe = "nvfp4_per_token";
  const OpTable* table = &fast_table();
  int threads = 1;
  SamplerLimits sampler{33, 192, 4096};
  LearnerLimits learner{4096, 192};
  Policy policy{};
  KvFormat kv = KvFormat::bf16;
};

/// Learner and sampler of one recipe on one table over weights that somebody else owns.
struct Sides {
  ThreadPool pool;
  WeightCache cache;
  Network network;
  Learner learner;
  Sampler sampler;

  Sides(Weights& weights, const SideOptions& o)
      : pool(o.threads),
        cache(weights),
        network(weights, cache,
                resolve(o.recipe, {}, linear_modules(weights.config()),
                        static_cast<int>(weights.config().num_hidden_layers)),
                *o.table, o.policy, o.kv),
        learner(weights, network, *o.table, pool, o.learner),
        sampler(network, *o.table, pool, o.sampler) {
    cache.refresh(learner.context());
  }
};

/// Tokens that depend on (seed, stream) alone.
inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed, uint64_t stream) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const auto word = Philox::generate(seed, static_cast<uint64_t>(i), stream)[0];
    tokens.push_back(static_cast<int32_t>(word % static_cast<uint32_t>(vocab)));
  }
  return tokens;
}

/// Requests with prompts of the given lengths; ids are far apart and in no order.
inline std::vector<SampleRequest> requests_of(const std::vector<int64_t>& lengths, int64_t vocab) {
  std::vector<SampleRequest> requests;
  for (size_t i = 0; i < lengths.size(); ++i) {
    requests.push_back({random_tokens(lengths[i], vocab, 11, i), (i * 2654435761u) % 100003u});
  }
  return requests;
}

/// What was sampled, as the learner sees it.
inline std::vector<Sequence> sequences_of(const std::vector<SampleRequest>& requests,
                                          const std::vector<Sample>& samples) {
  std::vector<Sequence> sequences;
  for (size_t i = 0; i < samples.size(); ++i) {
    Sequence s{requests[i].prompt, static_cast<int64_t>(requests[i].prompt.size())};
    s.tokens.insert(s.tokens.end(), samples[i].tokens.begin(), samples[i].tokens.end());
    sequences.push_back(std::move(s));
  }
  return sequences;
}

/// Log-probs and entropies of response tokens, sequence after sequence.
struct Scores {
  std::vector<float> logp, entropy;
};
inline Scores scores_of(std::span<const Sample> samples) {
  Scores all;
  for (const Sample& s : samples) {
    all.logp.insert(all.logp.end(), s.logp.begin(), s.logp.end());
    all.entropy.insert(all.entropy.end(), s.entropy.begin(), s.entropy.end());
  }
  return all;
}
inline Scores score(Learner& learner, std::span<const Sequence> sequences, float temperature = 1.0f) {
  int64_t n = 0;
  for (const Sequence& s : sequences) n += s.response();
  Scores scores{std::vector<float>(static_cast<size_t>(n)), std::vector<float>(static_cast<size_t>(n))};
  learner.score(sequences, temperature, scores.logp, scores.entropy);
  return scores;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
inline bool same_bits(const Scores& a, const Scores& b) {
  return same_bits(a.logp, b.logp) && same_bits(a.entropy, b.entropy);
}
inline bool same_bits(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Sample& x, const Sample& y) {
    return x.tokens == y.tokens && same_bits(x.logp, y.logp) && same_bits(x.entropy, y.entropy);
  });
}
/// Fills memory with bytes that read as NaN in every dtype.
inline void poison(const Buffer& b) {
  if (b.size() > 0) std::memset(b.data(), 0xFF, static_cast<size_t>(b.size()));
}
/// The bytes of a view whose rows are contiguous.
inline std::vector<std::byte> bytes_of(const TensorView& t) {
  const auto* p = static_cast<const std::byte*>(t.data);
  return {p, p + t.size() * dtype_size(t.dtype)};
}

}  // namespace minite::test_support
