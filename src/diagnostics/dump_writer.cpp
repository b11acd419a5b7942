#include "diagnostics/dump_writer.h"

#include <cstring>

#include "core/fail.h"
#include "io/files.h"
#include "io/json_file.h"
#include "io/safetensors.h"

namespace minite::diagnostics {
namespace {

io::StoredType stored(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return io::StoredType::f64;
    case DType::f32:
      return io::StoredType::f32;
    case DType::bf16:
      return io::StoredType::bf16;
    case DType::f16:
      return io::StoredType::f16;
    case DType::u8:
      return io::StoredType::u8;
    case DType::i32:
      return io::StoredType::i32;
    case DType::i64:
      return io::StoredType::i64;
  }
  fail(ErrorCode::internal, "dump: dtype {}", static_cast<int>(dtype));
}

}  // namespace

void DumpWriter::add(Pass& pass, const std::string& name, io::StoredType type, std::vector<int64_t> shape,
                     const void* bytes) {
  auto size = static_cast<size_t>(io::stored_type(type).bytes);
  for (const int64_t dim : shape) size *= static_cast<size_t>(dim);
  Held held{type, std::move(shape), std::vector<std::byte>(size)};
  if (size > 0) std::memcpy(held.bytes.data(), bytes, size);
  pass.tensors[name] = std::move(held);
}

void DumpWriter::begin_pass(const std::string& side, const BatchRows& rows) {
  Pass& pass = passes_[side];
  write(side, pass);
  const int64_t number = pass.number + 1;
  pass = Pass{number, {}, nlohmann::json::array(), true};
  const auto count = static_cast<int64_t>(rows.token.size());
  add(pass, "rows.token", io::StoredType::i32, {count}, rows.token.data());
  add(pass, "rows.pos", io::StoredType::i32, {count}, rows.pos.data());
  add(pass, "rows.request", io::StoredType::i64, {count}, rows.request.data());
}

void DumpWriter::values(const std::string& side, const std::string& tensor, const TensorView& x,
                        nlohmann::json about) {
  Pass& pass = passes_[side];
  std::string name = tensor;
  for (int part = 2; pass.tensors.contains(name); ++part) name = fmt::format("{}.{}", tensor, part);
  std::vector<std::byte> dense(static_cast<size_t>(x.size() * dtype_size(x.dtype)));
  const auto row = static_cast<size_t>(x.cols * dtype_size(x.dtype));
  for (int64_t r = 0; r < x.rows; ++r)
    std::memcpy(dense.data() + static_cast<size_t>(r) * row, x.slice_rows(r, 1).data, row);
  add(pass, name, stored(x.dtype), {x.rows, x.cols}, dense.data());
  about["name"] = name;
  about["dtype"] = dtype_name(x.dtype);
  about["shape"] = {x.rows, x.cols};
  pass.entries.push_back(std::move(about));
  pass.rows_only = false;
}

void DumpWriter::codes(const std::string& side, const std::string& name, const QTensor& q,
                       nlohmann::json about) {
  Pass& pass = passes_[side];
  add(pass, name + ".codes", io::StoredType::u8, {q.rows, q.code_stride()}, q.codes);
  add(pass, name + ".block_scales", io::StoredType::u8, {q.rows, q.scale_stride()}, q.block_scales);
  if (q.outer_count() > 0) {
    add(pass, name + ".outer_scale", io::StoredType::f32, {q.outer_count()}, q.outer);
    add(pass, name + ".amax", io::StoredType::f32, {q.outer_count()}, q.amax);
  }
  about["name"] = name + ".codes";
  about["spec"] = to_string(q.spec);
  about["shape"] = {q.rows, q.cols};
  pass.entries.push_back(std::move(about));
  pass.rows_only = false;
}

void DumpWriter::write(const std::string& side, Pass& pass) {
  if (pass.rows_only) return;
  if (files_.empty()) io::create_folders(folder_);
  io::TensorMap tensors;
  for (const auto& [name, held] : pass.tensors) tensors[name] = {held.type, held.shape, held.bytes};
  const bool numbered = pass.number >= 0;
  const std::string file = numbered ? fmt::format("{}_pass_{:05}.safetensors", side, pass.number)
                                    : fmt::format("{}.safetensors", side);
  io::write_safetensors(folder_ / file, tensors);
  nlohmann::json entry = {{"file", file}, {"side", side}, {"tensors", pass.entries}};
  if (numbered) entry["pass"] = pass.number;
  files_.push_back(std::move(entry));
}

void DumpWriter::finish(int64_t step) {
  for (auto& [side, pass] : passes_) write(side, pass);
  passes_.clear();
  if (files_.empty()) return;
  io::write_json_file(folder_ / "manifest.json", {{"version", 1}, {"step", step}, {"files", files_}});
  files_ = nlohmann::json::array();
}

}  // namespace minite::diagnostics
