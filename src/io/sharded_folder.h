#pragma once
// A Hugging Face folder that is written shard by shard, and goes on where an interrupted writer stopped.
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/safetensors.h"

namespace minite::io {

/// A tensor of the output.
struct NamedShape {
  std::string name;
  TensorShape shape;
  [[nodiscard]] int64_t bytes() const;
};
/// Tensors that are made together; they stay in one shard.
using ShardUnit = std::vector<NamedShape>;

struct Shard {
  std::string file;           ///< "model-00001-of-00003.safetensors", or "model.safetensors" of a single one
  size_t begin = 0, end = 0;  ///< units
  int64_t bytes = 0;          ///< of its tensors
};
/// Fills shards with units in their order, none with more than `most_bytes` unless one unit alone has more.
/// Without units there is one empty shard. Errors: invalid_argument (most_bytes < 1, two units with one
/// name).
[[nodiscard]] std::vector<Shard> plan_shards(const std::vector<ShardUnit>& units, int64_t most_bytes);

/// Fills TARGET.partial and renames it to TARGET at commit(). Shards appear in it one by one, each durable; a
/// second writer with the same identity and the same tensors keeps those that are there. work.json in the
/// folder says to what they belong, and holds a lock while somebody writes.
class ShardedFolder {
 public:
  /// `identity` says what the bytes depend on: source, options. Errors: invalid_argument (TARGET exists;
  /// TARGET.partial belongs to something else: the first field that differs is named; another process writes
  /// it), io.
  ShardedFolder(const std::filesystem::path& target, const nlohmann::json& identity,
                std::vector<ShardUnit> units, int64_t most_bytes, const Metadata& metadata = {});
  /// Where other files of the folder go before commit().
  [[nodiscard]] const std::filesystem::path& path() const { return work_; }
  [[nodiscard]] const std::vector<Shard>& shards() const { return shards_; }
  /// Whether a shard was there from before.
  [[nodiscard]] bool done(size_t shard) const { return done_[shard]; }
  [[nodiscard]] size_t done_count() const;

  /// Puts every tensor of a unit, in any order.
  using Produce = std::function<void(size_t unit, SafetensorsWriter& writer)>;
  /// Writes the shard unless it is done.
  void write(size_t shard, const Produce& produce);
  /// Writes the index where there are several shards, makes everything durable and renames. Error: internal
  /// when a shard was not written.
  void commit();

 private:
  void claim(const nlohmann::json& identity);
  void write_index() const;

  std::filesystem::path target_, work_;
  std::vector<ShardUnit> units_;
  std::vector<Shard> shards_;
  std::vector<bool> done_;
  Metadata metadata_;
  /// A descriptor that holds the lock.
  struct Lock {
    int descriptor = -1;
    Lock() = default;
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
  } lock_;
};

}  // namespace minite::io
