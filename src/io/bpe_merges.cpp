#include "io/bpe_merges.h"

#include <algorithm>

namespace minite::io {
namespace {

/// Lowest rank first, then leftmost, from a heap whose top is the largest.
bool later(const BpeMerges::Workspace::Candidate& a, const BpeMerges::Workspace::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
}

}  // namespace

BpeMerges::BpeMerges(std::span<const BpeMerge> merges) {
  size_t size = 16;
  while (size < 2 * merges.size()) size *= 2;
  slots_.resize(size);
  for (size_t i = 0; i < merges.size(); ++i) {
    const BpeMerge& m = merges[i];
    Slot& slot = slots_[place(m.left, m.right)];
    if (slot.left < 0) slot = {m.left, m.right, static_cast<int32_t>(i), m.result};
  }
}

size_t BpeMerges::place(int32_t left, int32_t right) const {
  uint64_t key = static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  key = (key ^ key >> 30) * 0xBF58476D1CE4E5B9u;  // the mixing steps of splitmix64
  key = (key ^ key >> 27) * 0x94D049BB133111EBu;
  const size_t mask = slots_.size() - 1;
  size_t at = (key ^ key >> 31) & mask;
  while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right)) at = (at + 1) & mask;
  return at;
}

/// Adds the merge of the symbol at `at` and the one after it, if there is one.
void BpeMerges::consider(Workspace& w, int32_t at) const {
  const Workspace::Symbol& symbol = w.symbols[static_cast<size_t>(at)];
  if (symbol.after < 0) return;
  const int32_t right = w.symbols[static_cast<size_t>(symbol.after)].token;
  const Slot& slot = slots_[place(symbol.token, right)];
  if (slot.left < 0) return;
  w.heap.push_back({slot.rank, at, symbol.token, right});
  std::push_heap(w.heap.begin(), w.heap.end(), later);
}

void BpeMerges::apply(std::vector<int32_t>& tokens, Workspace& w) const {
  if (tokens.size() < 2 || slots_.empty()) return;
  const auto count = static_cast<int32_t>(tokens.size());
  w.symbols.clear();
  w.heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    w.symbols.push_back({tokens[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (int32_t i = 0; i < count; ++i) consider(w, i);
  while (!w.heap.empty()) {
    std::pop_heap(w.heap.begin(), w.heap.end(), later);
    const Workspace::Candidate c = w.heap.back();
    w.heap.pop_back();
    Workspace::Symbol& left = w.symbols[static_cast<size_t>(c.place)];
    // Stale: one of the two was merged meanwhile.
    if (left.token != c.left || left.after < 0) continue;
    Workspace::Symbol& right = w.symbols[static_cast<size_t>(left.after)];
    if (right.token != c.right) continue;
    left.token = slots_[place(c.left, c.right)].result;
    left.after = right.after;
    right.token = -1;
    if (left.after >= 0) w.symbols[static_cast<size_t>(left.after)].before = c.place;
    if (left.before >= 0) consider(w, left.before);
    consider(w, c.place);
  }
  tokens.clear();
  for (int32_t i = 0; i >= 0; i = w.symbols[static_cast<size_t>(i)].after) {
    tokens.push_back(w.symbols[static_cast<size_t>(i)].token);
  }
}

}  // namespace minite::io
