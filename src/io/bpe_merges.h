#pragma once
// Byte pair encoding (Sennrich et al., arXiv:1508.07909) of one piece of text.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace minite::io {

/// Two tokens that become one; their place in a list is their rank: the lowest merges first.
struct BpeMerge {
  int32_t left = 0, right = 0, result = 0;
};

/// The merges of a vocabulary.
class BpeMerges {
 public:
  BpeMerges() = default;
  /// Of two merges of the same pair the first counts.
  explicit BpeMerges(std::span<const BpeMerge> merges);

  /// Memory of apply(), kept between calls.
  struct Workspace {
    struct Symbol {
      int32_t token, before, after;  ///< neighbours by place; -1: none. token -1: merged into another
    };
    struct Candidate {
      int32_t rank, place, left, right;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };
  /// Merges `tokens` until no merge applies: always the one of the lowest rank, of equal ones the leftmost.
  /// O(n log n) for n tokens.
  void apply(std::vector<int32_t>& tokens, Workspace& workspace) const;

 private:
  struct Slot {
    int32_t left = -1, right = -1, rank = 0, result = 0;
  };
  [[nodiscard]] size_t place(int32_t left, int32_t right) const;
  void consider(Workspace& w, int32_t place) const;

  std::vector<Slot> slots_;  // an open hash table
};

}  // namespace minite::io
