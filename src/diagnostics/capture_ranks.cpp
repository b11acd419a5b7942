#include "diagnostics/capture_ranks.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "core/fail.h"

namespace minite::diagnostics {
namespace {

namespace fs = std::filesystem;

std::string place_of(const fs::path& folder, const CapturedTensor& t) {
  return fmt::format("{}: tensor {} of rank {}", (folder / t.file).string(), t.name, t.rank);
}

std::vector<int32_t> numbers(const fs::path& folder, const RankPart& part) {
  if (part.data->type != io::StoredType::i32) {
    fail(ErrorCode::corrupt_data, "{} is {}, it must be I32", place_of(folder, *part.about),
         io::stored_type(part.data->type).name);
  }
  std::vector<int32_t> all(part.data->bytes.size() / sizeof(int32_t));
  if (!all.empty()) std::memcpy(all.data(), part.data->bytes.data(), part.data->bytes.size());
  return all;
}

const RankPart* of_rank(const RankParts& parts, int64_t rank) {
  const auto at = std::ranges::find_if(parts, [&](const RankPart& p) { return p.about->rank == rank; });
  return at == parts.end() ? nullptr : &*at;
}

/// Union of what the parts hold; nothing when one of them does not say, and so holds all.
std::optional<std::vector<int32_t>> union_of_held(const RankParts& parts) {
  std::set<int32_t> all;
  for (const RankPart& p : parts) {
    if (p.about->experts.empty()) return {};
    all.insert(p.about->experts.begin(), p.about->experts.end());
  }
  return std::vector<int32_t>(all.begin(), all.end());
}

/// Builds the table of all ranks and finds what contradicts itself.
class TableUnion {
 public:
  TableUnion(const fs::path& folder, int64_t rows, int64_t k) : folder_(folder), rows_(rows), k_(k) {}

  void add(const RankPart& expert_part, const RankPart& slot_part) {
    const std::vector<int32_t> expert = numbers(folder_, expert_part), slot = numbers(folder_, slot_part);
    if (expert.size() != slot.size()) {
      fail(ErrorCode::corrupt_data, "{} has {} entries, {} has {}", place_of(folder_, *slot_part.about),
           slot.size(), expert_part.about->name, expert.size());
    }
    about_ = expert_part.about;
    table_.ranks.push_back(about_->rank);
    table_.rank_rows.push_back(static_cast<int64_t>(expert.size()));
    for (size_t i = 0; i < expert.size(); ++i) add_row(expert[i], slot[i], static_cast<int64_t>(i));
    ++part_;
  }
  ExpertTable finish() { return std::move(table_); }

 private:
  void add_row(int32_t expert, int32_t slot, int64_t row) {
    const ExpertTable::Place place{part_, row};
    if (slot < 0) {
      push(expert, slot, place);
      return;
    }
    if (slot >= rows_ * k_ || expert < 0) {
      fail(ErrorCode::corrupt_data, "{}: entry {} is expert {} and slot {}, but {} rows have {} choices each",
           place_of(folder_, *about_), row, expert, slot, rows_, k_);
    }
    if (!about_->experts.empty() && std::ranges::count(about_->experts, expert) == 0) {
      fail(ErrorCode::corrupt_data, "{}: entry {} went to expert {}, which manifest.json does not list there",
           place_of(folder_, *about_), row, expert);
    }
    const auto [at, fresh] = by_slot_.try_emplace(slot, table_.expert.size());
    if (!fresh) {
      repeat(at->second, expert, place);
      return;
    }
    if (!choices_.emplace(slot / k_, expert).second) {
      fail(ErrorCode::corrupt_data, "{}: row {} went to expert {} twice", place_of(folder_, *about_),
           slot / k_, expert);
    }
    push(expert, slot, place);
  }

  void repeat(size_t kept, int32_t expert, const ExpertTable::Place& place) {
    const bool same_rank = table_.place[kept].part == part_;
    if (!same_rank && table_.expert[kept] == expert) {
      table_.repeated.emplace_back(table_.place[kept], place);
      return;
    }
    const int32_t slot = table_.slot[kept];
    fail(ErrorCode::corrupt_data, "{}: choice {} of row {} stands twice, at experts {} and {}",
         place_of(folder_, *about_), slot % k_, slot / k_, table_.expert[kept], expert);
  }

  void push(int32_t expert, int32_t slot, const ExpertTable::Place& place) {
    table_.expert.push_back(expert);
    table_.slot.push_back(slot);
    table_.place.push_back(place);
  }

  const fs::path& folder_;
  int64_t rows_, k_;
  size_t part_ = 0;
  const CapturedTensor* about_ = nullptr;  ///< of the part that is added
  ExpertTable table_;
  std::map<int32_t, size_t> by_slot_;
  std::set<std::pair<int64_t, int32_t>> choices_;  ///< (row, expert)
};

/// Type and all dimensions but the first are those of the first part.
void check_alike(const fs::path& folder, const RankParts& parts) {
  const auto shape = [](const RankPart& p) {
    std::vector<int64_t> s = p.data->shape;
    if (!s.empty()) s.erase(s.begin());
    return s;
  };
  for (const RankPart& p : parts) {
    if (p.data->type == parts[0].data->type && shape(p) == shape(parts[0]) && !p.data->shape.empty() &&
        p.about->spec == parts[0].about->spec && p.about->format == parts[0].about->format &&
        p.about->scale_domain == parts[0].about->scale_domain)
      continue;
    fail(ErrorCode::corrupt_data, "{} has another type, shape or format than rank {} has in {}",
         place_of(folder, *p.about), parts[0].about->rank, parts[0].about->file);
  }
}

/// Bytes of one entry of the first dimension.
size_t entry_bytes(const io::TensorInfo& t) {
  int64_t bytes = io::stored_type(t.type).bytes;
  for (size_t i = 1; i < t.shape.size(); ++i) bytes *= t.shape[i];
  return static_cast<size_t>(bytes);
}

UnitedTensor room_for(const io::TensorInfo& like, size_t entries) {
  UnitedTensor united;
  united.memory.resize(entries * entry_bytes(like));
  united.info = {like.type, like.shape, united.memory};
  united.info.shape[0] = static_cast<int64_t>(entries);
  return united;
}

/// The experts that a part stacks, in its order.
std::vector<int32_t> stacked(const RankPart& part) {
  if (!part.about->experts.empty()) return part.about->experts;
  std::vector<int32_t> all(part.data->shape.empty() ? 0 : static_cast<size_t>(part.data->shape[0]));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

ExpertTable unite_tables(const fs::path& folder, const RankParts& expert, const RankParts& slot, int64_t rows,
                         int64_t k) {
  TableUnion all(folder, rows, k);
  const auto same_rank = [&](const RankParts& list, const RankPart& p, std::string_view other) {
    const RankPart* found = of_rank(list, p.about->rank);
    if (found != nullptr) return found;
    fail(ErrorCode::not_found, "{}/manifest.json: rank {} has {}, but no {} beside it", folder.string(),
         p.about->rank, p.about->name, other);
  };
  for (const RankPart& p : slot) (void)same_rank(expert, p, "table of experts");
  for (const RankPart& p : expert) all.add(p, *same_rank(slot, p, "table of slots"));
  ExpertTable table = all.finish();
  table.held = union_of_held(expert);
  return table;
}

UnitedTensor unite_rows(const fs::path& folder, const RankParts& parts, const ExpertTable& table) {
  check_alike(folder, parts);
  const size_t bytes = entry_bytes(*parts[0].data);
  std::vector<const RankPart*> of_part;
  for (const int64_t rank : table.ranks) {
    of_part.push_back(of_rank(parts, rank));
    if (of_part.back() == nullptr) {
      fail(ErrorCode::not_found,
           "{}/manifest.json: tensor {} is missing on rank {}, which has rows of experts", folder.string(),
           parts[0].about->name, rank);
    }
  }
  const auto at = [&](const ExpertTable::Place& p) {
    return of_part[p.part]->data->bytes.data() + static_cast<size_t>(p.row) * bytes;
  };
  for (const auto& [kept, again] : table.repeated) {
    if (std::memcmp(at(kept), at(again), bytes) == 0) continue;
    const CapturedTensor& other = *of_part[kept.part]->about;
    fail(ErrorCode::corrupt_data, "{}: row {} differs from the same row of the same expert on rank {} ({})",
         place_of(folder, *of_part[again.part]->about), again.row, other.rank, other.file);
  }
  UnitedTensor united = room_for(*parts[0].data, table.place.size());
  for (size_t i = 0; i < table.place.size(); ++i)
    std::memcpy(united.memory.data() + i * bytes, at(table.place[i]), bytes);
  return united;
}

std::vector<int32_t> experts_of(const RankParts& parts) {
  std::set<int32_t> all;
  for (const RankPart& p : parts) {
    const std::vector<int32_t> own = stacked(p);
    all.insert(own.begin(), own.end());
  }
  return {all.begin(), all.end()};
}

UnitedTensor unite_weight(const fs::path& folder, const RankParts& parts) {
  check_alike(folder, parts);
  const size_t bytes = entry_bytes(*parts[0].data);
  struct Source {
    const RankPart* part;
    const std::byte* data;
  };
  std::map<int32_t, Source> by_expert;
  for (const RankPart& p : parts) {
    const std::vector<int32_t> experts = stacked(p);
    if (static_cast<int64_t>(experts.size()) != p.data->shape[0]) {
      fail(ErrorCode::corrupt_data, "{} stacks {} experts, manifest.json lists {}",
           place_of(folder, *p.about), p.data->shape[0], experts.size());
    }
    for (size_t i = 0; i < experts.size(); ++i) {
      const std::byte* data = p.data->bytes.data() + i * bytes;
      const auto [at, fresh] = by_expert.try_emplace(experts[i], Source{&p, data});
      if (fresh || std::memcmp(at->second.data, data, bytes) == 0) continue;
      fail(ErrorCode::corrupt_data, "{}: expert {} differs from the same expert on rank {} ({})",
           place_of(folder, *p.about), experts[i], at->second.part->about->rank,
           at->second.part->about->file);
    }
  }
  UnitedTensor united = room_for(*parts[0].data, by_expert.size());
  std::byte* to = united.memory.data();
  for (const auto& [expert, source] : by_expert) {
    std::memcpy(to, source.data, bytes);
    to += bytes;
  }
  return united;
}

}  // namespace minite::diagnostics
