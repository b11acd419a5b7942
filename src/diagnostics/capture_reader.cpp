#include "diagnostics/capture_reader.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/fail.h"

namespace minite::diagnostics {

namespace {

/// The layer of a table "rows.L.expert" or "rows.L.slot".
std::optional<int> layer_of_table(std::string_view name) {
  constexpr std::string_view kRows = "rows.";
  if (!name.starts_with(kRows)) return {};
  name.remove_prefix(kRows.size());
  int layer = -1;
  const auto end = std::from_chars(name.data(), name.data() + name.size(), layer).ptr;
  name.remove_prefix(static_cast<size_t>(end - name.data()));
  if (layer < 0 || (name != ".expert" && name != ".slot")) return {};
  return layer;
}

}  // namespace

std::string to_string(const RowId& row) {
  return fmt::format("request {} sample {} position {} (token {})", row.request, row.sample, row.position,
                     row.token);
}

Capture::Capture(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(read_capture_manifest(folder_)) {
  open_files();
  rows_ = read_rows("rows");
  scored_ = read_rows("scored");
  read_expert_tables();
  check_parts();
  check_rows();
}

void Capture::open_files() {
  for (const CapturedTensor& t : manifest_.tensors) {
    std::unique_ptr<io::SafetensorsFile>& file = files_[t.file];
    const std::filesystem::path path = folder_ / t.file;
    try {
      if (!file) file = std::make_unique<io::SafetensorsFile>(path);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{} (tensor {} lies in it)", error.what(), t.name));
    }
    if (!file->tensors().contains(t.name)) {
      fail(ErrorCode::not_found, "{}: tensor {} is missing, though manifest.json lists it", path.string(),
           t.name);
    }
    RankParts& all = parts_[t.name];
    const auto at = std::ranges::find_if(all, [&](const RankPart& p) { return p.about->rank >= t.rank; });
    if (at != all.end() && at->about->rank == t.rank) {
      fail(ErrorCode::corrupt_data, "{}/manifest.json lists tensor {} of rank {} twice", folder_.string(),
           t.name, t.rank);
    }
    all.insert(at, {&t, &file->at(t.name)});
  }
}

/// Only experts may be spread: what else stands on two ranks is not one tensor. A weight has every expert
/// whose rows are there.
void Capture::check_parts() const {
  for (const auto& [name, all] : parts_) {
    const CapturedTensor& t = *all.front().about;
    const ExpertTable* table = expert_table(t.layer);
    const bool experts = t.module.starts_with("experts.");
    if (experts && row_table(t.module, t.point) == RowTable::none && table != nullptr && table->held) {
      const std::vector<int32_t> stacked = experts_of(all);
      for (const int32_t e : *table->held) {
        if (std::ranges::binary_search(stacked, e)) continue;
        fail(ErrorCode::not_found, "{}/manifest.json: tensor {} lacks expert {}, which rows.{}.expert lists",
             folder_.string(), name, e, t.layer);
      }
    }
    if (all.size() < 2 || experts || layer_of_table(name)) continue;
    fail(ErrorCode::unsupported,
         "{}/manifest.json: tensor {} stands on ranks {} and {}; of experts alone one capture may hold "
         "several ranks",
         folder_.string(), name, t.rank, all[1].about->rank);
  }
}

const CapturedTensor* Capture::find(const std::string& tensor) const {
  const auto it = parts_.find(tensor);
  return it == parts_.end() ? nullptr : it->second.front().about;
}

const RankParts& Capture::parts(const std::string& name) const {
  const auto it = parts_.find(name);
  if (it == parts_.end())
    fail(ErrorCode::not_found, "{}/manifest.json: tensor {} is missing", folder_.string(), name);
  return it->second;
}

const io::TensorInfo& Capture::tensor(const std::string& name) const {
  const RankParts& all = parts(name);
  const CapturedTensor& t = *all.front().about;
  const bool experts = t.module.starts_with("experts.");
  const bool packed = experts && row_table(t.module, t.point) == RowTable::experts;
  const auto table = tables_.find(t.layer);
  const bool split = all.size() > 1 || !t.experts.empty() ||
                     (packed && table != tables_.end() && table->second.ranks.size() > 1);
  if (!experts || !split) return *all.front().data;
  const auto at = united_.find(name);
  if (at != united_.end()) return at->second.info;
  return united_.emplace(name, packed ? unite_rows(folder_, all, table->second) : unite_weight(folder_, all))
      .first->second.info;
}

const io::TensorInfo& Capture::typed(const std::string& name, io::StoredType type) const {
  const io::TensorInfo& info = tensor(name);
  if (info.type != type) {
    fail(ErrorCode::corrupt_data, "{}: tensor {} is {}, it must be {}", (folder_ / find(name)->file).string(),
         name, io::stored_type(info.type).name, io::stored_type(type).name);
  }
  return info;
}

std::vector<RowId> Capture::read_rows(const std::string& table) const {
  const auto request = values<int64_t>(table + ".request", io::StoredType::i64);
  const auto sample = values<int32_t>(table + ".sample", io::StoredType::i32);
  const auto position = values<int32_t>(table + ".position", io::StoredType::i32);
  const auto token = values<int32_t>(table + ".token", io::StoredType::i32);
  for (const auto& [field, size] :
       {std::pair{".sample", sample.size()}, std::pair{".position", position.size()},
        std::pair{".token", token.size()}}) {
    if (size == request.size()) continue;
    fail(ErrorCode::corrupt_data, "{}: tensor {}{} has {} entries, {}.request {}",
         (folder_ / find(table + field)->file).string(), table, field, size, table, request.size());
  }
  std::vector<RowId> rows;
  rows.reserve(request.size());
  for (size_t i = 0; i < request.size(); ++i) rows.push_back({request[i], sample[i], position[i], token[i]});
  return rows;
}

void Capture::read_expert_tables() {
  const int64_t k = std::max<int64_t>(manifest_.model_number("num_experts_per_tok", 1), 1);
  std::set<int> layers;
  for (const auto& [name, all] : parts_) {
    if (const auto layer = layer_of_table(name)) layers.insert(*layer);
  }
  for (const int layer : layers) {
    tables_[layer] =
        unite_tables(folder_, parts(fmt::format("rows.{}.expert", layer)),
                     parts(fmt::format("rows.{}.slot", layer)), static_cast<int64_t>(rows_.size()), k);
  }
}

const ExpertTable* Capture::expert_table(int layer) const {
  const auto it = tables_.find(layer);
  return it == tables_.end() ? nullptr : &it->second;
}

std::vector<int32_t> Capture::experts(int layer) const {
  const ExpertTable* table = expert_table(layer);
  return table == nullptr ? std::vector<int32_t>{} : table->expert;
}

std::vector<int32_t> Capture::slots(int layer) const {
  const ExpertTable* table = expert_table(layer);
  return table == nullptr ? std::vector<int32_t>{} : table->slot;
}

std::vector<int32_t> Capture::stacked_experts(const std::string& weight) const {
  return experts_of(parts(weight));
}

int64_t Capture::ranks() const {
  size_t most = 1;
  for (const auto& [layer, table] : tables_) most = std::max(most, table.ranks.size());
  return static_cast<int64_t>(most);
}

void Capture::check_rows() const {
  const auto rows_of = [&](const CapturedTensor& t) -> size_t {
    const RowTable kind = row_table(t.module, t.point);
    if (kind != RowTable::experts) return kind == RowTable::scored ? scored_.size() : rows_.size();
    const ExpertTable* table = expert_table(t.layer);
    const auto at = table == nullptr
                        ? size_t{0}
                        : static_cast<size_t>(std::ranges::find(table->ranks, t.rank) - table->ranks.begin());
    if (table == nullptr || at == table->ranks.size()) {
      fail(ErrorCode::not_found, "{}/manifest.json: tensor {} of rank {} has no table rows.{}.expert",
           folder_.string(), t.name, t.rank, t.layer);
    }
    return static_cast<size_t>(table->rank_rows[at]);
  };
  for (const CapturedTensor& t : manifest_.tensors) {
    if (row_table(t.module, t.point) == RowTable::none) continue;
    const size_t want = rows_of(t);
    const io::TensorInfo& info = files_.at(t.file)->at(t.name);
    const int64_t rows = info.shape.empty() ? -1 : info.shape.front();
    if (rows == static_cast<int64_t>(want)) continue;
    fail(ErrorCode::corrupt_data, "{}: tensor {} has {} rows, its table has {}", (folder_ / t.file).string(),
         t.name, rows, want);
  }
}

std::vector<CapturedSequence> Capture::sequences() const {
  const auto token = values<int32_t>("sequences.token", io::StoredType::i32);
  const auto offset = values<int64_t>("sequences.offset", io::StoredType::i64);
  const auto prompt = values<int64_t>("sequences.prompt", io::StoredType::i64);
  const auto request = values<int64_t>("sequences.request", io::StoredType::i64);
  const auto sample = values<int32_t>("sequences.sample", io::StoredType::i32);
  const size_t count = request.size();
  const auto bad = [&](size_t i) {
    return offset[i] < 0 || offset[i + 1] > static_cast<int64_t>(token.size()) || prompt[i] < 1 ||
           offset[i] + prompt[i] >= offset[i + 1];
  };
  std::vector<CapturedSequence> all;
  for (size_t i = 0; i < count; ++i) {
    if (offset.size() != count + 1 || prompt.size() != count || sample.size() != count || bad(i)) {
      fail(ErrorCode::corrupt_data, "{}: the tensors sequences.* do not describe sequence {} of {}",
           (folder_ / find("sequences.offset")->file).string(), i, count);
    }
    all.push_back(
        {request[i], sample[i], prompt[i], {token.begin() + offset[i], token.begin() + offset[i + 1]}});
  }
  return all;
}

}  // namespace minite::diagnostics
