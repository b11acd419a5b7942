#include "learn/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <set>

#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/text_file.h"
#include "io/safetensors.h"
#include "learn/gguf_config.h"
#include "learn/gguf_model.h"
#include "learn/kv_scales.h"
#include "learn/model_tensors.h"

namespace minite {
namespace {

using io::StoredType;
using io::TensorInfo;

constexpr const char *kHead = "lm_head.weight", *kEmbedding = "model.embed_tokens.weight";

/// Hugging Face stores a norm's weight as a vector.
std::vector<int64_t> stored_shape(int64_t rows, int64_t cols) {
  return rows == 1 ? std::vector<int64_t>{cols} : std::vector<int64_t>{rows, cols};
}

std::span<const std::byte> bytes_of(const TensorView& t) {
  return {static_cast<const std::byte*>(t.data), static_cast<size_t>(t.size() * dtype_size(t.dtype))};
}

template <class File>
const TensorInfo& find(const File& file, const std::string& name, StoredType type,
                       const std::vector<int64_t>& shape) {
  const TensorInfo& t = file.at(name);
  if (t.type != type || t.shape != shape) {
    fail(ErrorCode::invalid_argument, "{}: {} is {} [{}], the model needs {} [{}]", file.path().string(),
         name, io::stored_type(t.type).name, fmt::join(t.shape, ", "), io::stored_type(type).name,
         fmt::join(shape, ", "));
  }
  return t;
}

/// Names of all tensors of the model.
std::set<std::string_view> names_of(const Weights& weights) {
  std::set<std::string_view> known;
  for (const Parameter& p : weights.parameters()) {
    for (const CheckpointPiece& piece : p.spec.pieces) known.insert(piece.name);
  }
  return known;
}

/// A tensor that no parameter reads, of an expert too many for one, means that config.json describes another
/// model: its answers would be wrong without a word.
void refuse_surplus(const ModelTensors& file, const Weights& weights) {
  const std::set<std::string_view> known = names_of(weights);
  for (const auto& [name, info] : file.tensors()) {
    if (known.contains(name) || names_kv_scale(weights, name)) continue;
    // Some writers store a tied head again.
    const bool tied = weights.config().tie_word_embeddings && name == kHead;
    if (tied && std::ranges::equal(info.bytes, file.at(kEmbedding).bytes)) continue;
    fail(ErrorCode::invalid_argument,
         "{}: {} has no place in the model of config.json, which has {} tensors (the file {}); the two files "
         "belong to different models",
         file.path().string(), name, known.size(), file.tensors().size());
  }
}

/// Fills a parameter from its pieces: `read` fills the rows of one.
template <class Read>
void fill_masters(Weights& weights, const Read& read) {
  for (const Parameter& p : weights.parameters()) {
    int64_t row = 0;
    for (const CheckpointPiece& piece : p.spec.pieces) {
      read(piece, p.spec.cols, p.master.row<float>(row));
      row += piece.rows;
    }
  }
}

void load_folder(const std::filesystem::path& folder, Weights& weights) {
  const ModelTensors file(folder);
  fill_masters(weights, [&](const CheckpointPiece& piece, int64_t cols, float* out) {
    const TensorInfo& t = find(file, piece.name, StoredType::bf16, stored_shape(piece.rows, cols));
    for (int64_t i = 0; i < t.count(); ++i) {
      bf16 value;
      std::memcpy(&value, t.bytes.data() + i * 2, 2);
      out[i] = value;
    }
  });
  refuse_surplus(file, weights);
  load_kv_scales(file, weights);
}

void load_gguf(const std::filesystem::path& path, Weights& weights) {
  const learn::GgufModel model(path);
  std::vector<bf16> values;
  fill_masters(weights, [&](const CheckpointPiece& piece, int64_t cols, float* out) {
    const auto found = model.tensors().find(piece.name);
    if (found == model.tensors().end())
      fail(ErrorCode::not_found, "{} has no tensor for {}", path.string(), piece.name);
    const learn::GgufModelTensor& t = found->second;
    require(t.rows == piece.rows && t.cols == cols, "{}: {} is [{}, {}], the model needs [{}, {}]",
            path.string(), t.source_name, t.rows, t.cols, piece.rows, cols);
    values.resize(static_cast<size_t>(t.rows * t.cols));
    model.read(piece.name, values);
    std::copy(values.begin(), values.end(), out);
  });
  const std::set<std::string_view> known = names_of(weights);
  for (const auto& [name, tensor] : model.tensors()) {
    require(known.contains(name), "{}: {} has no place in the model that its values describe", path.string(),
            tensor.source_name);
  }
}

/// One FP32 tensor of trainer.safetensors for each parameter.
struct TrainerPart {
  const char* prefix;
  TensorView Parameter::*view;
};
constexpr std::array<TrainerPart, 3> kTrainerParts = {
    {{"master.", &Parameter::master}, {"m.", &Parameter::m}, {"v.", &Parameter::v}}};

struct Counter {
  const char* name;
  int64_t TrainerState::*value;
};
constexpr std::array<Counter, 3> kCounters = {{{"step", &TrainerState::step},
                                               {"global_step", &TrainerState::global_step},
                                               {"update", &TrainerState::update}}};

const std::string& metadata(const io::SafetensorsFile& file, const char* key) {
  const auto it = file.metadata().find(key);
  if (it == file.metadata().end())
    fail(ErrorCode::corrupt_data, "{}: metadata has no '{}'", file.path().string(), key);
  return it->second;
}

}  // namespace

void save_model(const std::filesystem::path& folder, const Weights& weights) {
  require(weights.compute() == DType::bf16, "save_model: weights are {}, checkpoints hold bf16",
          dtype_name(weights.compute()));
  write_file_atomically(folder / "config.json", to_json(weights.config()));
  io::TensorMap tensors;
  for (const Parameter& p : weights.parameters()) {
    int64_t row = 0;
    for (const CheckpointPiece& piece : p.spec.pieces) {
      tensors[piece.name] = {StoredType::bf16, stored_shape(piece.rows, p.spec.cols),
                             bytes_of(p.weight.slice_rows(row, piece.rows))};
      row += piece.rows;
    }
  }
  add_kv_scales(weights, tensors);
  io::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
}

void save_trainer(const std::filesystem::path& folder, const Weights& weights, const TrainerState& state) {
  io::TensorMap tensors;
  for (const Parameter& p : weights.parameters()) {
    for (const TrainerPart& part : kTrainerParts) {
      tensors[part.prefix + p.spec.name] = {
          StoredType::f32, {p.spec.rows, p.spec.cols}, bytes_of(p.*part.view)};
    }
  }
  add_trainer_kv_scales(weights, tensors);
  io::Metadata metadata{{"stage", state.stage}};
  for (const Counter& counter : kCounters) metadata[counter.name] = std::to_string(state.*counter.value);
  io::write_safetensors(folder / "trainer.safetensors", tensors, metadata);
}

ModelConfig load_model_config(const std::filesystem::path& checkpoint) {
  if (io::begins_as_gguf(checkpoint)) return learn::gguf_config(io::GgufFile(checkpoint));
  const std::filesystem::path path = checkpoint / "config.json", more = checkpoint / "generation_config.json";
  ModelConfig config = parse_model_config(read_text_file(path.string()), path.string());
  std::error_code ignored;
  if (std::filesystem::exists(more, ignored))
    add_generation_config(read_text_file(more.string()), more.string(), config);
  return config;
}

void require_fit(const io::Tokenizer& tokenizer, const ModelConfig& config,
                 const std::filesystem::path& checkpoint) {
  require(tokenizer.vocab_size() <= config.vocab_size && config.ends_sequence(tokenizer.eos_id()),
          "{}: the tokenizer has {} tokens and ends a sequence with {}, the model has vocab_size={} and "
          "eos_token_id={}; they do not belong together",
          checkpoint.string(), tokenizer.vocab_size(), tokenizer.eos_id(), config.vocab_size,
          config.eos_token_id);
}

void load_model(const std::filesystem::path& checkpoint, Weights& weights) {
  if (io::begins_as_gguf(checkpoint)) {
    load_gguf(checkpoint, weights);
  } else {
    load_folder(checkpoint, weights);
  }
  weights.round_masters();
}

TrainerState load_trainer(const std::filesystem::path& folder, Weights& weights) {
  const io::SafetensorsFile file(folder / "trainer.safetensors");
  for (const Parameter& p : weights.parameters()) {
    for (const TrainerPart& part : kTrainerParts) {
      const TensorInfo& t =
          find(file, part.prefix + p.spec.name, StoredType::f32, {p.spec.rows, p.spec.cols});
      std::memcpy((p.*part.view).data, t.bytes.data(), t.bytes.size());
    }
  }
  TrainerState state;
  state.stage = metadata(file, "stage");
  for (const Counter& counter : kCounters) {
    const std::string& text = metadata(file, counter.name);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), state.*counter.value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(ErrorCode::corrupt_data, "{}: metadata '{}' is '{}', expected a number", file.path().string(),
           counter.name, text);
    }
  }
  load_trainer_kv_scales(file, weights);
  weights.round_masters();
  return state;
}

}  // namespace minite
