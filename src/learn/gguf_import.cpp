#include "learn/gguf_import.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "io/checkpoint_folder.h"
#include "io/sharded_folder.h"
#include "io/tokenizer.h"
#include "learn/gguf_model.h"
#include "minite/version.h"

namespace minite::learn {
namespace {

using checkpoints::ConvertReport, checkpoints::Fate;

/// Where a tensor comes from, in the order of the folder.
struct Piece {
  std::string name;
  const GgufModelTensor* from;
};

std::vector<Piece> pieces_of(const GgufModel& model) {
  std::vector<Piece> pieces;
  for (const auto& [name, tensor] : model.tensors()) pieces.push_back({name, &tensor});
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return io::natural_less(a.name, b.name); });
  return pieces;
}

std::vector<int64_t> shape_of(const Piece& piece) {
  const GgufModelTensor& t = *piece.from;
  return t.source->shape.size() == 1 ? std::vector<int64_t>{t.cols} : std::vector<int64_t>{t.rows, t.cols};
}

std::string generation_config(const ModelConfig& config) {
  nlohmann::ordered_json document;
  if (config.bos_token_id >= 0) document["bos_token_id"] = config.bos_token_id;
  document["eos_token_id"] = config.eos_token_id;
  if (!config.stop_token_ids.empty()) document["eos_token_id"] = config.stop_token_ids;
  return document.dump(2) + "\n";
}

/// config.json, generation_config.json and the tokenizer.
std::vector<std::string> write_files(const GgufModel& model, const std::filesystem::path& source,
                                     const std::filesystem::path& folder) {
  write_file_atomically(folder / "config.json", to_json(model.config()));
  write_file_atomically(folder / "generation_config.json", generation_config(model.config()));
  std::vector<std::string> files = {"config.json", "generation_config.json"};
  if (!model.file().has("tokenizer.ggml.model")) return files;
  io::load_tokenizer(source)->save(folder);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("tokenizer") || name.starts_with("chat_template")) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

ConvertReport import_gguf(const std::filesystem::path& source, const std::filesystem::path& target,
                          int64_t shard_bytes, const checkpoints::ConvertProgress& progress) {
  const GgufModel model(source);
  const std::vector<Piece> pieces = pieces_of(model);
  std::vector<io::ShardUnit> units;
  units.reserve(pieces.size());
  for (const Piece& piece : pieces) units.push_back({{piece.name, {io::StoredType::bf16, shape_of(piece)}}});
  const auto size = static_cast<int64_t>(std::filesystem::file_size(source));
  io::ShardedFolder folder(target,
                           {{"import", std::filesystem::absolute(source).lexically_normal().string()},
                            {"bytes", size},
                            {"modified", std::filesystem::last_write_time(source).time_since_epoch().count()},
                            {"shard_bytes", shard_bytes},
                            {"version", MINITE_VERSION_STRING}},
                           units, shard_bytes, {{"format", "pt"}});
  ConvertReport report;
  report.from = "gguf";
  report.to = "bf16";
  report.source_bytes = size;
  report.shards = static_cast<int64_t>(folder.shards().size());
  report.kept_shards = static_cast<int64_t>(folder.done_count());
  int64_t done = 0;
  for (const io::Shard& shard : folder.shards()) report.bytes += shard.bytes;
  std::vector<bf16> values;
  for (size_t s = 0; s < folder.shards().size(); ++s) {
    if (folder.done(s)) done += folder.shards()[s].bytes;
    folder.write(s, [&](size_t u, io::SafetensorsWriter& writer) {
      const Piece& piece = pieces[u];
      values.resize(static_cast<size_t>(piece.from->rows * piece.from->cols));
      model.read(piece.name, values);
      writer.put(piece.name, std::as_bytes(std::span<const bf16>(values)));
      done += static_cast<int64_t>(values.size() * sizeof(bf16));
      if (progress) progress(done, report.bytes);
    });
  }
  for (const Piece& piece : pieces)
    report.tensors.push_back({piece.from->source_name, piece.name, Fate::decoded,
                              std::string(io::gguf_type(piece.from->source->type).name)});
  report.files = write_files(model, source, folder.path());
  folder.commit();
  return report;
}

}  // namespace minite::learn
