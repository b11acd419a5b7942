#include "learn/gguf_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/ggml_blocks.h"
#include "model/families/table.h"
#include "model/rope.h"

namespace minite::learn {
namespace {

using io::GgufFile;

constexpr std::array<GgufArchitecture, 3> kArchitectures = {{{"llama", "llama", true, false},
                                                             {"qwen3", "qwen3", false, false},
                                                             {"qwen3moe", "qwen3_moe", false, true}}};
constexpr const char* kRopeFactors = "rope_freqs.weight";

/// Values under "ARCHITECTURE.".
class Values {
 public:
  Values(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + '.') {}

  [[nodiscard]] bool has(const std::string& key) const { return file_.has(prefix_ + key); }
  [[nodiscard]] int64_t integer(const std::string& key) const { return file_.integer(prefix_ + key); }
  [[nodiscard]] int64_t integer(const std::string& key, int64_t absent) const {
    return has(key) ? integer(key) : absent;
  }
  [[nodiscard]] double number(const std::string& key) const { return file_.number(prefix_ + key); }
  /// Refuses a value other than `expected`, which an absent one means.
  void only(const std::string& key, int64_t expected, std::string_view why) const {
    const int64_t value = integer(key, expected);
    if (value == expected) return;
    fail(ErrorCode::unsupported, "{}: {}{}={} is not supported, only {}: {}", file_.path().string(), prefix_,
         key, value, expected, why);
  }
  void only_text(const std::string& key, std::string_view expected, std::string_view why) const {
    if (!has(key)) return;
    const std::string_view value = file_.text(prefix_ + key);
    if (value == expected) return;
    fail(ErrorCode::unsupported, "{}: {}{}='{}' is not supported, only '{}': {}", file_.path().string(),
         prefix_, key, printable(value), expected, why);
  }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

struct SizeKey {
  const char* key;
  int64_t ModelConfig::*member;
};
constexpr std::array<SizeKey, 5> kSizes = {{{"embedding_length", &ModelConfig::hidden_size},
                                            {"feed_forward_length", &ModelConfig::intermediate_size},
                                            {"block_count", &ModelConfig::num_hidden_layers},
                                            {"attention.head_count", &ModelConfig::num_attention_heads},
                                            {"context_length", &ModelConfig::max_position_embeddings}}};
constexpr std::array<SizeKey, 3> kExpertSizes = {
    {{"expert_count", &ModelConfig::num_experts},
     {"expert_used_count", &ModelConfig::num_experts_per_tok},
     {"expert_feed_forward_length", &ModelConfig::moe_intermediate_size}}};

void read_sizes(const Values& values, const ModelFamily& family, ModelConfig& c) {
  for (const SizeKey& row : kSizes) c.*row.member = values.integer(row.key);
  c.num_key_value_heads = values.integer("attention.head_count_kv", c.num_attention_heads);
  const bool divides = c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads == 0;
  if (!values.has("attention.key_length"))
    require(divides,
            "attention.key_length is missing and embedding_length={} does not divide by head_count={}",
            c.hidden_size, c.num_attention_heads);
  c.head_dim = values.has("attention.key_length") ? values.integer("attention.key_length")
                                                  : c.hidden_size / c.num_attention_heads;
  values.only("attention.value_length", c.head_dim, "keys and values have heads of one size");
  values.only("rope.dimension_count", c.head_dim, "all of a head is rotated");
  if (family.mlp == MlpKind::experts) {
    for (const SizeKey& row : kExpertSizes) c.*row.member = values.integer(row.key);
    values.only("expert_shared_count", 0, "there are no shared experts");
  } else {
    values.only("expert_count", 0, "this architecture has no experts here");
  }
}

/// Llama 3.1 files hold the divisors of the frequencies, [head_dim / 2], in place of the formula's constants,
/// which are the same for every published model but for the factor: the largest divisor.
RopeScaling scaling_of(const GgufFile& file, const ModelConfig& c) {
  const io::GgufTensor& t = file.tensor(kRopeFactors);
  std::vector<float> stored(static_cast<size_t>(t.rows() * t.cols()));
  io::decode_blocks(t.type, t.bytes, stored);
  RopeScaling scaling;
  for (const float f : stored) scaling.factor = std::max(scaling.factor, static_cast<double>(f));
  const std::vector<double> meant = rope_factors(c.rope_theta, c.head_dim / 2, scaling);
  const bool equal = std::ranges::equal(
      stored, meant, [](float a, double b) { return std::abs(static_cast<double>(a) - b) <= 1e-4 * b; });
  if (!equal) {
    fail(ErrorCode::unsupported,
         "{}: {} holds other factors than Llama 3.1's scaling of rotary embeddings by {}",
         file.path().string(), kRopeFactors, scaling.factor);
  }
  return scaling;
}

void read_rope(const GgufFile& file, const Values& values, ModelConfig& c) {
  c.rope_theta = values.has("rope.freq_base") ? values.number("rope.freq_base") : 10000.0;
  values.only_text("rope.scaling.type", "none",
                   "only Llama 3.1's scaling, stored as rope_freqs.weight, is known");
  if (file.content().tensors.contains(kRopeFactors)) c.rope_scaling = scaling_of(file, c);
}

void read_tokens(const GgufFile& file, ModelConfig& c) {
  const auto id = [&](const char* name) -> int32_t {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (!file.has(key)) return -1;
    const int64_t value = file.integer(key);
    require(value >= 0 && value < c.vocab_size, "{}: {}={} must be below the vocabulary's {}",
            file.path().string(), key, value, c.vocab_size);
    return static_cast<int32_t>(value);
  };
  c.bos_token_id = id("bos");
  c.eos_token_id = id("eos");
  c.pad_token_id = id("padding");
  // End of a turn and of a message, where they are others than the end of a text.
  for (const char* name : {"eot", "eom"}) {
    const int32_t stop = id(name);
    if (stop >= 0 && !c.ends_sequence(stop)) c.stop_token_ids.push_back(stop);
  }
}

}  // namespace

const GgufArchitecture& gguf_architecture(const GgufFile& file) {
  const std::string_view name = file.text("general.architecture");
  std::vector<std::string_view> known;
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.name == name) return row;
    known.push_back(row.name);
  }
  fail(ErrorCode::unsupported, "{}: general.architecture '{}' is not supported, only {}",
       file.path().string(), printable(name), fmt::join(known, ", "));
}

ModelConfig gguf_config(const GgufFile& file) {
  const GgufArchitecture& architecture = gguf_architecture(file);
  const Values values(file, architecture.name);
  ModelConfig c;
  c.family = architecture.family;
  c.norm_topk_prob = architecture.norm_topk_prob;
  const io::GgufTensor& embedding = file.tensor("token_embd.weight");
  c.vocab_size = embedding.rows();
  c.tie_word_embeddings = !file.content().tensors.contains("output.weight");
  try {
    read_sizes(values, model_family(c.family), c);
    c.rms_norm_eps = static_cast<float>(values.number("attention.layer_norm_rms_epsilon"));
    c.validate();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file.path().string(), error.what());
  }
  read_rope(file, values, c);
  read_tokens(file, c);
  c.validate();
  return c;
}

}  // namespace minite::learn
