#include "io/sharded_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>

#include "core/fail.h"
#include "core/utf8.h"
#include "io/atomic_folder.h"
#include "io/checkpoint_folder.h"
#include "io/files.h"
#include "io/json_file.h"

namespace minite::io {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

constexpr const char* kWorkName = "work.json";

fs::path without_slash(const fs::path& path) { return path.filename().empty() ? path.parent_path() : path; }
fs::path parent_of(const fs::path& path) {
  return path.parent_path().empty() ? fs::path(".") : path.parent_path();
}

/// Where two documents part first: "options.format is \"nvfp4\" there and \"mxfp8\" here".
std::string difference(const json& there, const json& here, const std::string& at = "") {
  const auto text = [](const json& value) {
    return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 80);
  };
  if (there.is_object() && here.is_object()) {
    for (const auto& [key, value] : here.items()) {
      const std::string name = at.empty() ? key : at + "." + key;
      if (!there.contains(key)) return fmt::format("{} is missing there", name);
      if (there[key] != value) return difference(there[key], value, name);
    }
    for (const auto& [key, value] : there.items()) {
      if (!here.contains(key))
        return fmt::format("{} is there and not here", at.empty() ? key : at + "." + key);
    }
  }
  return fmt::format("{} is {} there and {} here", at, text(there), text(here));
}

std::string shard_name(size_t index, size_t count) {
  return count == 1 ? kSingleName : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

}  // namespace

int64_t NamedShape::bytes() const {
  int64_t bytes = stored_type(shape.type).bytes;
  for (const int64_t dim : shape.shape)
    require(dim >= 0 && !__builtin_mul_overflow(bytes, dim, &bytes), "tensor \"{}\" has shape [{}]",
            printable(name), fmt::join(shape.shape, ", "));
  return bytes;
}

std::vector<Shard> plan_shards(const std::vector<ShardUnit>& units, int64_t most_bytes) {
  require(most_bytes > 0, "a shard size of {} bytes; give at least 1", most_bytes);
  std::vector<Shard> shards = {{}};
  std::set<std::string_view> names;
  for (size_t u = 0; u < units.size(); ++u) {
    int64_t bytes = 0;
    for (const NamedShape& tensor : units[u]) {
      require(names.insert(tensor.name).second, "two tensors of the output are named \"{}\"",
              printable(tensor.name));
      bytes += tensor.bytes();
    }
    if (shards.back().bytes > 0 && shards.back().bytes + bytes > most_bytes) shards.push_back({{}, u, u, 0});
    shards.back().end = u + 1;
    shards.back().bytes += bytes;
  }
  for (size_t s = 0; s < shards.size(); ++s) shards[s].file = shard_name(s, shards.size());
  return shards;
}

ShardedFolder::ShardedFolder(const fs::path& target, const json& identity, std::vector<ShardUnit> units,
                             int64_t most_bytes, const Metadata& metadata)
    : target_(without_slash(target)),
      work_(target_),
      units_(std::move(units)),
      shards_(plan_shards(units_, most_bytes)),
      metadata_(metadata) {
  work_ += ".partial";
  std::error_code ignored;
  require(!fs::exists(fs::symlink_status(target_, ignored)),
          "{} exists already; remove it or name another folder", target_.string());
  json files = json::array();
  for (const Shard& shard : shards_) files.push_back({{"file", shard.file}, {"bytes", shard.bytes}});
  claim({{"belongs_to", identity}, {"shards", files}});
  remove_stale_temporaries(work_);
  for (const Shard& shard : shards_) done_.push_back(fs::exists(work_ / shard.file, ignored));
}

ShardedFolder::Lock::~Lock() {
  if (descriptor >= 0) ::close(descriptor);
}

void ShardedFolder::claim(const json& identity) {
  create_folders(parent_of(target_));
  create_folders(work_);
  lock_.descriptor = ::open(work_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_.descriptor < 0) fail_errno(errno, "open", work_);
  require(::flock(lock_.descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK,
          "{} is being written by another process; wait for it or name another folder", work_.string());
  std::error_code ignored;
  if (fs::exists(work_ / kWorkName, ignored)) {
    const json there = read_json_file(work_ / kWorkName);
    require(there == identity, "{} was begun by something else: {}; remove it or name another folder",
            work_.string(), difference(there, identity));
    return;
  }
  remove_stale_temporaries(work_);
  const std::vector<std::string> entries = list_entries(work_);
  require(entries.empty(), "{} holds {} and no {}; it is nobody's unfinished work: remove it", work_.string(),
          entries.empty() ? "" : printable(entries.front()), kWorkName);
  write_json_file(work_ / kWorkName, identity);
}

size_t ShardedFolder::done_count() const {
  size_t count = 0;
  for (const bool done : done_) count += done ? 1 : 0;
  return count;
}

void ShardedFolder::write(size_t shard, const Produce& produce) {
  if (done_[shard]) return;
  const Shard& row = shards_[shard];
  std::map<std::string, TensorShape> shapes;
  for (size_t u = row.begin; u < row.end; ++u) {
    for (const NamedShape& tensor : units_[u]) shapes[tensor.name] = tensor.shape;
  }
  SafetensorsWriter writer(work_ / row.file, shapes, metadata_);
  for (size_t u = row.begin; u < row.end; ++u) produce(u, writer);
  writer.commit();
  done_[shard] = true;
}

void ShardedFolder::write_index() const {
  json map = json::object();
  int64_t total = 0;
  for (const Shard& shard : shards_) {
    total += shard.bytes;
    for (size_t u = shard.begin; u < shard.end; ++u) {
      for (const NamedShape& tensor : units_[u]) map[tensor.name] = shard.file;
    }
  }
  write_json_file(work_ / kIndexName, {{"metadata", {{"total_size", total}}}, {"weight_map", map}});
}

void ShardedFolder::commit() {
  if (done_count() != shards_.size())
    fail(ErrorCode::internal, "{}: {} of {} shards are written", work_.string(), done_count(),
         shards_.size());
  if (shards_.size() > 1) write_index();
  sync_folder(work_);
  if (::rename(work_.c_str(), target_.c_str()) != 0) fail_errno(errno, "rename to", target_);
  sync_folder(parent_of(target_));
  // Last: a crash before this leaves one file too many in a whole folder, not a folder that nobody owns.
  std::error_code error;
  fs::remove(target_ / kWorkName, error);
  if (error) fail_errno(error.value(), "remove", target_ / kWorkName);
}

}  // namespace minite::io
