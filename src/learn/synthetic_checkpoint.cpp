#include "learn/synthetic_checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/philox.h"
#include "io/digest.h"
#include "io/sharded_folder.h"
#include "minite/version.h"
#include "model/families/table.h"

namespace minite {
namespace {

constexpr int64_t kAtOnce = int64_t{1} << 22;  ///< elements that are made at a time
constexpr uint32_t kOutliers = 64;             ///< one channel in so many

/// Shapes as the fields of config.json: hidden, intermediate, layers, heads, key-value heads, head size.
ModelConfig sizes(std::string_view family, int64_t vocab, std::array<int64_t, 6> s, bool tied, double theta,
                  int64_t positions) {
  ModelConfig c;
  c.family = family;
  c.vocab_size = vocab;
  c.hidden_size = s[0];
  c.intermediate_size = s[1];
  c.num_hidden_layers = s[2];
  c.num_attention_heads = s[3];
  c.num_key_value_heads = s[4];
  c.head_dim = s[5];
  c.tie_word_embeddings = tied;
  c.rope_theta = theta;
  c.max_position_embeddings = positions;
  c.eos_token_id = static_cast<int32_t>(std::min<int64_t>(vocab - 1, 2));
  return c;
}
ModelConfig qwen3(std::array<int64_t, 6> s, bool tied) { return sizes("qwen3", 151936, s, tied, 1e6, 40960); }
ModelConfig experts(ModelConfig c, int64_t count, int64_t a_token, int64_t size) {
  c.family = "qwen3_moe";
  c.num_experts = count;
  c.num_experts_per_tok = a_token;
  c.moe_intermediate_size = size;
  c.norm_topk_prob = true;
  return c;
}
ModelConfig llama(int64_t vocab, std::array<int64_t, 6> s, bool tied, double theta, int64_t positions) {
  ModelConfig c = sizes("llama", vocab, s, tied, theta, positions);
  c.rms_norm_eps = 1e-5f;
  return c;
}

constexpr std::array<SyntheticArchitecture, 12> kArchitectures = {{
    {"qwen3-tiny", "2 layers of 64, for tests",
     [] {
       return sizes("qwen3", 512, {64, 192, 2, 4, 2, 32}, true, 1e4, 512);
     }},
    {"qwen3-moe-tiny", "the same with 8 experts, 2 a token",
     [] {
       return experts(sizes("qwen3", 512, {64, 192, 2, 4, 2, 32}, false, 1e4, 512), 8, 2, 64);
     }},
    {"llama-tiny", "2 layers of 64 without norms on q and k",
     [] {
       return llama(512, {64, 192, 2, 4, 2, 16}, true, 1e4, 512);
     }},
    {"smollm2-135m", "SmolLM2-135M",
     [] {
       return llama(49152, {576, 1536, 30, 9, 3, 64}, true, 1e5, 8192);
     }},
    {"llama-2-7b", "Llama 2 7B",
     [] {
       return llama(32000, {4096, 11008, 32, 32, 32, 128}, false, 1e4, 4096);
     }},
    {"qwen3-0.6b", "Qwen3-0.6B",
     [] {
       return qwen3({1024, 3072, 28, 16, 8, 128}, true);
     }},
    {"qwen3-1.7b", "Qwen3-1.7B",
     [] {
       return qwen3({2048, 6144, 28, 16, 8, 128}, true);
     }},
    {"qwen3-4b", "Qwen3-4B",
     [] {
       return qwen3({2560, 9728, 36, 32, 8, 128}, true);
     }},
    {"qwen3-8b", "Qwen3-8B",
     [] {
       return qwen3({4096, 12288, 36, 32, 8, 128}, false);
     }},
    {"qwen3-14b", "Qwen3-14B",
     [] {
       return qwen3({5120, 17408, 40, 40, 8, 128}, false);
     }},
    {"qwen3-32b", "Qwen3-32B",
     [] {
       return qwen3({5120, 25600, 64, 64, 8, 128}, false);
     }},
    {"qwen3-30b-a3b", "Qwen3-30B-A3B: 128 experts, 8 a token",
     [] {
       return experts(qwen3({2048, 6144, 48, 32, 4, 128}, false), 128, 8, 768);
     }},
}};

/// Student's t with 4 degrees of freedom by 65536 equally likely values, of variance 1. The inverse of its
/// distribution function is closed: with a = 4 u (1 - u) and q = cos(acos(sqrt a) / 3) / sqrt a it is
/// sign(u - 1/2) 2 sqrt(q - 1); its variance is 2.
std::vector<float> heavy_table() {
  std::vector<float> table(65536);
  for (size_t i = 0; i < table.size(); ++i) {
    const double u = (static_cast<double>(i) + 0.5) / 65536.0, a = 4 * u * (1 - u), root = std::sqrt(a);
    const double q = std::cos(std::acos(std::min(1.0, root)) / 3) / root;
    table[i] = static_cast<float>((u < 0.5 ? -1 : 1) * std::sqrt(2 * std::max(0.0, q - 1)));
  }
  return table;
}

class Synthesizer {
 public:
  Synthesizer(uint64_t seed, ThreadPool& pool) : seed_(seed), pool_(&pool), heavy_(heavy_table()) {}

  using Take = std::function<void(std::span<const std::byte>)>;
  /// The elements of one tensor in order.
  void make(const io::NamedShape& tensor, Init init, double std_dev, const Take& take) {
    const bool norm = init == Init::ones;
    const int64_t cols = tensor.shape.shape.back();
    const int64_t rows = norm ? 1 : tensor.shape.shape[0];
    const uint64_t stream = io::digest64(tensor.name);
    std::vector<float> channel(static_cast<size_t>(cols));
    for (int64_t c = 0; c < cols; ++c)
      channel[static_cast<size_t>(c)] = norm ? norm_weight(c, stream) : input_channel(c, stream);
    const int64_t at_once = std::max<int64_t>(1, kAtOnce / cols);
    for (int64_t begin = 0; begin < rows; begin += at_once) {
      const int64_t count = std::min(at_once, rows - begin);
      values_.resize(static_cast<size_t>(count * cols));
      pool_->parallel_for(count, [&](int64_t r, int) {
        bf16* to = values_.data() + r * cols;
        if (norm) {
          for (int64_t c = 0; c < cols; ++c) to[c] = bf16(channel[static_cast<size_t>(c)]);
        } else {
          fill_row(to, channel, begin + r, stream, std_dev);
        }
      });
      take(std::as_bytes(std::span(values_)));
    }
  }

 private:
  [[nodiscard]] float heavy(uint32_t bits) const { return heavy_[bits & 0xFFFFu]; }

  /// The same channels for every tensor of this width.
  [[nodiscard]] bool is_outlier(int64_t c) const {
    return Philox::generate(seed_, static_cast<uint64_t>(c), 1)[0] % kOutliers == 0;
  }
  [[nodiscard]] float norm_weight(int64_t c, uint64_t stream) const {
    const auto words = Philox::generate(seed_, static_cast<uint64_t>(c), stream ^ 2);
    return is_outlier(c) ? 4.0f + 8.0f * Philox::unit(words[0]) : 1.0f + 0.05f * heavy(words[1]);
  }
  [[nodiscard]] float input_channel(int64_t c, uint64_t stream) const {
    const auto words = Philox::generate(seed_, static_cast<uint64_t>(c), stream ^ 3);
    return words[0] % kOutliers == 0 ? 1.0f + 3.0f * Philox::unit(words[1]) : 1.0f;
  }

  void fill_row(bf16* to, const std::vector<float>& channel, int64_t row, uint64_t stream,
                double std_dev) const {
    const auto cols = static_cast<int64_t>(channel.size());
    const auto words = Philox::generate(seed_, static_cast<uint64_t>(row), stream ^ 4);
    // A sum of four uniforms is near enough to a normal for the scales of rows.
    double normal = -2;
    for (const uint32_t word : words) normal += Philox::unit(word);
    const auto scale = static_cast<float>(std_dev * std::exp(0.25 * normal * std::sqrt(3.0)));
    const auto groups = static_cast<uint64_t>((cols + 7) / 8);
    for (uint64_t g = 0; g < groups; ++g) {
      const auto bits = Philox::generate(seed_, static_cast<uint64_t>(row) * groups + g, stream);
      const auto first = static_cast<int64_t>(8 * g), last = std::min(cols, first + 8);
      for (int64_t c = first; c < last; ++c) {
        const uint32_t word = bits[static_cast<size_t>((c - first) / 2)];
        to[c] = bf16(scale * channel[static_cast<size_t>(c)] * heavy((c & 1) != 0 ? word >> 16 : word));
      }
    }
  }

  uint64_t seed_;
  ThreadPool* pool_;
  std::vector<float> heavy_;
  std::vector<bf16> values_;
};

}  // namespace

std::span<const SyntheticArchitecture> synthetic_architectures() { return kArchitectures; }

const SyntheticArchitecture& synthetic_architecture(std::string_view name) {
  std::vector<std::string_view> names;
  for (const SyntheticArchitecture& row : kArchitectures) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown architecture '{}'; known: {}{}", name, fmt::join(names, ", "),
       did_you_mean(name, names));
}

void write_synthetic_checkpoint(const std::filesystem::path& target,
                                const SyntheticArchitecture& architecture, uint64_t seed, int64_t shard_bytes,
                                ThreadPool& pool,
                                const std::function<void(int64_t done, int64_t total)>& progress) {
  const ModelConfig config = architecture.config();
  config.validate();
  std::vector<io::ShardUnit> units;
  std::vector<Init> inits;
  for (const ParameterSpec& spec : model_family(config.family).parameters(config)) {
    for (const CheckpointPiece& piece : spec.pieces) {
      const bool vector = spec.init == Init::ones;
      units.push_back({{piece.name,
                        {io::StoredType::bf16, vector ? std::vector<int64_t>{spec.cols}
                                                      : std::vector<int64_t>{piece.rows, spec.cols}}}});
      inits.push_back(spec.init);
    }
  }
  io::ShardedFolder folder(target,
                           {{"synth", architecture.name},
                            {"seed", seed},
                            {"shard_bytes", shard_bytes},
                            {"version", MINITE_VERSION_STRING}},
                           units, shard_bytes, {{"format", "pt"}});
  const double normal = 0.02,
               residual = normal / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
  int64_t total = 0, done = 0;
  for (const io::Shard& shard : folder.shards()) total += shard.bytes;
  Synthesizer synthesizer(seed, pool);
  for (size_t s = 0; s < folder.shards().size(); ++s) {
    if (folder.done(s)) done += folder.shards()[s].bytes;
    folder.write(s, [&](size_t u, io::SafetensorsWriter& writer) {
      const io::NamedShape& tensor = units[u].front();
      synthesizer.make(tensor, inits[u], inits[u] == Init::residual ? residual : normal,
                       [&](std::span<const std::byte> bytes) {
                         writer.put_next(tensor.name, bytes);
                         done += static_cast<int64_t>(bytes.size());
                         if (progress) progress(done, total);
                       });
    });
  }
  write_file_atomically(folder.path() / "config.json", to_json(config));
  const nlohmann::ordered_json generation = {{"eos_token_id", config.eos_token_id}, {"temperature", 1.0}};
  write_file_atomically(folder.path() / "generation_config.json", generation.dump(2) + "\n");
  folder.commit();
}

}  // namespace minite
