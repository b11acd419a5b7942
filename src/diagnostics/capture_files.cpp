// CaptureSink::finish(): the tables of rows, and every tensor in their order.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/fail.h"
#include "diagnostics/capture_sink.h"

namespace minite::diagnostics {

/// A tensor to be written: its bytes are made when its turn comes.
struct CaptureSink::Output {
  CapturedTensor about;
  io::TensorShape shape;
  std::function<std::vector<std::byte>()> bytes;

  Output(CapturedTensor tensor, io::StoredType type, std::vector<int64_t> dims,
         std::function<std::vector<std::byte>()> make)
      : about(std::move(tensor)), bytes(std::move(make)) {
    shape.type = type;
    shape.shape = std::move(dims);
  }
  [[nodiscard]] int64_t size() const {
    return std::accumulate(shape.shape.begin(), shape.shape.end(), io::stored_type(shape.type).bytes,
                           std::multiplies<>());
  }
};

namespace {

template <class T>
struct StoredOf;
template <>
struct StoredOf<int64_t> {
  static constexpr auto value = io::StoredType::i64;
};
template <>
struct StoredOf<int32_t> {
  static constexpr auto value = io::StoredType::i32;
};
template <>
struct StoredOf<float> {
  static constexpr auto value = io::StoredType::f32;
};
template <>
struct StoredOf<double> {
  static constexpr auto value = io::StoredType::f64;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// "name" of rows that the capture itself wrote down.
template <class Outputs, class T>
void add_list(Outputs& outputs, const std::string& name, const std::vector<T>& values,
              Provenance provenance = Provenance::kernel) {
  CapturedTensor about;
  about.name = name;
  about.provenance = provenance;
  const std::vector<int64_t> dims(1, static_cast<int64_t>(values.size()));
  outputs.emplace_back(about, StoredOf<T>::value, dims, [values] { return bytes_of(values); });
}

template <class T, class Get>
std::vector<T> in_order(const std::vector<int64_t>& order, const Get& get) {
  std::vector<T> values;
  values.reserve(order.size());
  for (const int64_t i : order) values.push_back(static_cast<T>(get(static_cast<size_t>(i))));
  return values;
}

/// Places in `keys` by rising key; a key that is there twice is an error.
template <class Key>
std::vector<int64_t> sorted(const std::vector<Key>& keys, std::string_view what) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  const auto at = [&](int64_t i) { return keys[static_cast<size_t>(i)]; };
  std::ranges::sort(order, [&](int64_t a, int64_t b) { return at(a) < at(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const Key &a = at(order[i - 1]), &b = at(order[i]);
    if (a.sequence != b.sequence || a.position != b.position) continue;
    fail(ErrorCode::internal, "capture: the {} row of sequence {} at position {} came twice", what,
         a.sequence, a.position);
  }
  return order;
}

}  // namespace

std::vector<int64_t> CaptureSink::row_order() const { return sorted(rows_, "input"); }
std::vector<int64_t> CaptureSink::scored_order() const { return sorted(scored_, "scored"); }

void CaptureSink::add_row_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order) const {
  add_list(outputs, "rows.request",
           in_order<int64_t>(order, [&](size_t i) { return rows_[i].sequence / samples_; }));
  add_list(outputs, "rows.sample",
           in_order<int32_t>(order, [&](size_t i) { return rows_[i].sequence % samples_; }));
  add_list(outputs, "rows.position", in_order<int32_t>(order, [&](size_t i) { return rows_[i].position; }));
  add_list(outputs, "rows.token", in_order<int32_t>(order, [&](size_t i) { return rows_[i].token; }));
}

void CaptureSink::add_scored_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order) const {
  const auto of = [&](size_t i) -> const OwnSequence& { return sequences_.at(scored_[i].sequence); };
  // The row at position p scores the token at p + 1, response token p + 1 - prompt.
  const auto next = [&](size_t i) { return static_cast<size_t>(scored_[i].position) + 1; };
  const auto response = [&](size_t i) { return next(i) - static_cast<size_t>(of(i).prompt); };
  for (const int64_t i : order) {
    const auto at = static_cast<size_t>(i);
    if (!sequences_.contains(scored_[at].sequence) || next(at) >= of(at).tokens.size()) {
      fail(ErrorCode::internal, "capture: sequence {} was scored at position {}, but nobody said what it was",
           scored_[at].sequence, scored_[at].position);
    }
  }
  add_list(outputs, "scored.request",
           in_order<int64_t>(order, [&](size_t i) { return scored_[i].sequence / samples_; }));
  add_list(outputs, "scored.sample",
           in_order<int32_t>(order, [&](size_t i) { return scored_[i].sequence % samples_; }));
  add_list(outputs, "scored.position", in_order<int32_t>(order, next));
  add_list(outputs, "scored.token",
           in_order<int32_t>(order, [&](size_t i) { return of(i).tokens[next(i)]; }));
  add_list(outputs, "logprob", in_order<float>(order, [&](size_t i) { return of(i).logp[response(i)]; }));
  add_list(outputs, "entropy", in_order<float>(order, [&](size_t i) { return of(i).entropy[response(i)]; }));
  add_list(outputs, "lm_head.output.digest", in_order<int64_t>(order, [&](size_t i) { return digest_[i]; }));
  add_list(outputs, "scored.lse", in_order<double>(order, [&](size_t i) { return lse_[i]; }),
           Provenance::replay);
  add_list(outputs, "scored.lse_1", in_order<double>(order, [&](size_t i) { return lse_1_[i]; }),
           Provenance::replay);
  add_list(outputs, "scored.kept_mass", in_order<double>(order, [&](size_t i) { return kept_mass_[i]; }),
           Provenance::replay);
  for (Output& o : outputs) {
    const bool listed = o.about.name == "logprob" || o.about.name == "entropy";
    if (listed) o.about.module = o.about.name, o.about.point = "output", o.about.format = "f32";
    if (o.about.name == "lm_head.output.digest") o.about.module = "lm_head", o.about.point = "output.digest";
  }
}

void CaptureSink::add_sequence_tables(std::vector<Output>& outputs) const {
  std::vector<int32_t> tokens, sample;
  std::vector<int64_t> offset = {0}, prompt, request;
  for (const auto& [index, s] : sequences_) {
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    offset.push_back(static_cast<int64_t>(tokens.size()));
    prompt.push_back(s.prompt);
    request.push_back(index / samples_);
    sample.push_back(static_cast<int32_t>(index % samples_));
  }
  add_list(outputs, "sequences.token", tokens);
  add_list(outputs, "sequences.offset", offset);
  add_list(outputs, "sequences.prompt", prompt);
  add_list(outputs, "sequences.request", request);
  add_list(outputs, "sequences.sample", sample);
}

std::pair<int32_t, int32_t> CaptureSink::experts_of(int64_t rank) const {
  const auto first = [&](int64_t r) {
    return static_cast<int32_t>(r * selection_.experts / selection_.expert_ranks);
  };
  return {first(rank), first(rank + 1)};
}

void CaptureSink::add_expert_tables(std::vector<Output>& outputs, const std::vector<int64_t>& order,
                                    int64_t rank, ExpertOrder& expert_order) const {
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  const bool split = selection_.expert_ranks > 1;
  const auto [first, end] = experts_of(rank);
  for (const auto& [layer, table] : experts_) {
    const auto slot = [&](size_t i) {
      const Choice& c = table.all[i];
      return place[static_cast<size_t>(c.row)] * table.k + c.choice;
    };
    std::vector<int64_t>& by_slot = expert_order[{layer, rank}];
    for (size_t i = 0; i < table.all.size(); ++i) {
      const int32_t expert = table.all[i].expert;
      if (!split || (expert >= first && expert < end)) by_slot.push_back(static_cast<int64_t>(i));
    }
    std::ranges::sort(by_slot, {}, [&](int64_t i) { return slot(static_cast<size_t>(i)); });
    const std::string prefix = fmt::format("rows.{}.", layer);
    const size_t begin = outputs.size();
    add_list(outputs, prefix + "expert",
             in_order<int32_t>(by_slot, [&](size_t i) { return table.all[i].expert; }));
    add_list(outputs, prefix + "slot", in_order<int32_t>(by_slot, slot));
    for (size_t i = begin; i < outputs.size(); ++i) {
      outputs[i].about.layer = layer;
      outputs[i].about.rank = rank;
    }
    for (int32_t e = first; split && e < end; ++e) outputs[begin].about.experts.push_back(e);
  }
}

/// A run of the experts of a weight [E, ...].
void CaptureSink::add_weight_part(std::vector<Output>& outputs, const Recorded& recorded, int64_t rank) {
  const auto [first, end] = experts_of(rank);
  std::vector<int64_t> shape = recorded.shape;
  if (shape[0] != selection_.experts) {
    fail(ErrorCode::internal, "capture: {} stacks {} experts of {}", recorded.about.name, shape[0],
         selection_.experts);
  }
  shape[0] = end - first;
  outputs.emplace_back(recorded.about, recorded.type, shape, [this, &recorded, first, end] {
    const std::vector<std::byte> all = spill_.read(recorded.data);
    const size_t bytes = all.size() / static_cast<size_t>(selection_.experts);
    return std::vector<std::byte>(all.begin() + static_cast<std::ptrdiff_t>(first * bytes),
                                  all.begin() + static_cast<std::ptrdiff_t>(end * bytes));
  });
  outputs.back().about.rank = rank;
  for (int32_t e = first; e < end; ++e) outputs.back().about.experts.push_back(e);
}

void CaptureSink::add_recorded(std::vector<Output>& outputs, const Recorded& recorded, int64_t rank,
                               const std::vector<int64_t>& order) {
  const bool experts = recorded.about.module.starts_with("experts.");
  if (recorded.table == RowTable::none && experts && selection_.expert_ranks > 1) {
    add_weight_part(outputs, recorded, rank);
    return;
  }
  if (recorded.table == RowTable::none) {
    outputs.emplace_back(recorded.about, recorded.type, recorded.shape,
                         [this, &recorded] { return spill_.read(recorded.data); });
    return;
  }
  const auto rows = static_cast<int64_t>(order.size());
  const int64_t row_bytes = recorded.cols * io::stored_type(recorded.type).bytes;
  const int64_t all_rows =
      experts ? static_cast<int64_t>(experts_.at(recorded.about.layer).all.size()) : rows;
  if (static_cast<int64_t>(recorded.data.bytes) != all_rows * row_bytes) {
    fail(ErrorCode::internal, "capture: {} has {} bytes for {} rows of {}", recorded.about.name,
         recorded.data.bytes, all_rows, row_bytes);
  }
  const bool scalar = recorded.about.point == "input.outer_scale";
  const std::vector<int64_t> shape = scalar ? std::vector{rows} : std::vector{rows, recorded.cols};
  outputs.emplace_back(recorded.about, recorded.type, shape, [this, &recorded, &order, row_bytes] {
    const std::vector<std::byte> arrived = spill_.read(recorded.data);
    std::vector<std::byte> bytes(order.size() * static_cast<size_t>(row_bytes));
    for (size_t i = 0; i < order.size(); ++i) {
      std::memcpy(bytes.data() + i * static_cast<size_t>(row_bytes), arrived.data() + order[i] * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
    return bytes;
  });
  outputs.back().about.rank = rank;
}

std::vector<CapturedTensor> CaptureSink::write(std::vector<Output>& outputs, int64_t shard_bytes) const {
  std::vector<CapturedTensor> all;
  int64_t shard = 0;
  for (size_t begin = 0; begin < outputs.size(); ++shard) {
    const std::string file = fmt::format("tensors-{:05}.safetensors", shard);
    std::map<std::string, io::TensorShape> shapes;
    size_t end = begin;
    for (int64_t bytes = 0; end < outputs.size(); ++end) {
      bytes += outputs[end].size();
      // A file holds a name once, so that each rank begins a file of its own.
      if (end > begin && (bytes > shard_bytes || outputs[end].about.rank != outputs[begin].about.rank)) break;
      shapes[outputs[end].about.name] = outputs[end].shape;
    }
    io::SafetensorsWriter writer(folder_ / file, shapes);
    for (; begin < end; ++begin) {
      writer.put(outputs[begin].about.name, outputs[begin].bytes());
      outputs[begin].about.file = file;
      all.push_back(outputs[begin].about);
    }
    writer.commit();
  }
  return all;
}

std::vector<CapturedTensor> CaptureSink::finish(int64_t shard_bytes) {
  const std::vector<int64_t> order = row_order(), scored = scored_order();
  std::vector<Output> outputs;
  add_row_tables(outputs, order);
  add_sequence_tables(outputs);
  ExpertOrder expert_order;
  add_expert_tables(outputs, order, 0, expert_order);
  for (const auto& [name, recorded] : tensors_) {
    const std::vector<int64_t>* of = &order;
    if (recorded.table == RowTable::scored) of = &scored;
    if (recorded.table == RowTable::experts) of = &expert_order.at({recorded.about.layer, 0});
    add_recorded(outputs, recorded, 0, *of);
  }
  add_scored_tables(outputs, scored);
  for (int64_t rank = 1; rank < selection_.expert_ranks; ++rank) {
    add_expert_tables(outputs, order, rank, expert_order);
    for (const auto& [name, recorded] : tensors_) {
      if (!recorded.about.module.starts_with("experts.")) continue;
      const bool rows = recorded.table == RowTable::experts;
      add_recorded(outputs, recorded, rank, rows ? expert_order.at({recorded.about.layer, rank}) : order);
    }
  }
  std::vector<CapturedTensor> all = write(outputs, shard_bytes);
  spill_.remove();
  return all;
}

}  // namespace minite::diagnostics
