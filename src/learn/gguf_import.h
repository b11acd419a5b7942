#pragma once
// A GGUF file as a Hugging Face folder in BF16.
#include <filesystem>
#include <functional>

#include "checkpoints/convert.h"

namespace minite::learn {

/// Writes the model of a GGUF file (gguf_model.h) into the folder `target`, which must not exist: weights in
/// BF16 under the names and in the row order of Hugging Face, shard by shard in TARGET.partial
/// (io/sharded_folder.h), config.json, generation_config.json, and the tokenizer's files where the file holds
/// a tokenizer. One tensor is in memory at a time. The bytes depend on the file and the shard size only.
/// Errors: as GgufModel, its tokenizer (io/tokenizer.h) and io::ShardedFolder.
checkpoints::ConvertReport import_gguf(const std::filesystem::path& source,
                                       const std::filesystem::path& target, int64_t shard_bytes,
                                       const checkpoints::ConvertProgress& progress = {});

}  // namespace minite::learn
