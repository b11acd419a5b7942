#include "diagnostics/capture_reader.h"

#include "core/fail.h"

namespace minite::diagnostics {

std::string to_string(const RowId& row) {
  return fmt::format("request {} sample {} position {} (token {})", row.request, row.sample, row.position,
                     row.token);
}

Capture::Capture(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(read_capture_manifest(folder_)) {
  open_files();
  rows_ = read_rows("rows");
  scored_ = read_rows("scored");
  check_rows();
}

void Capture::open_files() {
  for (const CapturedTensor& t : manifest_.tensors) {
    if (!about_.emplace(t.name, &t).second) {
      fail(ErrorCode::corrupt_data, "{}/manifest.json lists tensor {} twice", folder_.string(), t.name);
    }
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
  }
}

const CapturedTensor* Capture::find(const std::string& tensor) const {
  const auto it = about_.find(tensor);
  return it == about_.end() ? nullptr : it->second;
}

const io::TensorInfo& Capture::tensor(const std::string& name) const {
  const CapturedTensor* about = find(name);
  if (about == nullptr)
    fail(ErrorCode::not_found, "{}/manifest.json: tensor {} is missing", folder_.string(), name);
  return files_.at(about->file)->at(name);
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

std::vector<int32_t> Capture::experts(int layer) const {
  const std::string name = fmt::format("rows.{}.expert", layer);
  return find(name) == nullptr ? std::vector<int32_t>{} : values<int32_t>(name, io::StoredType::i32);
}

std::vector<int32_t> Capture::slots(int layer) const {
  const std::string name = fmt::format("rows.{}.slot", layer);
  return find(name) == nullptr ? std::vector<int32_t>{} : values<int32_t>(name, io::StoredType::i32);
}

void Capture::check_rows() const {
  for (const CapturedTensor& t : manifest_.tensors) {
    const RowTable table = row_table(t.module, t.point);
    if (table == RowTable::none) continue;
    size_t want = table == RowTable::scored ? scored_.size() : rows_.size();
    if (table == RowTable::experts) {
      want = experts(t.layer).size();
      const size_t have_slots = slots(t.layer).size();
      if (have_slots != want) {
        fail(ErrorCode::corrupt_data, "{}: rows.{}.slot has {} entries, rows.{}.expert {}",
             (folder_ / t.file).string(), t.layer, have_slots, t.layer, want);
      }
    }
    const io::TensorInfo& info = tensor(t.name);
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
