#include "io/added_tokens.h"

#include <algorithm>

namespace minite::io {
namespace {

bool inside(TextRange at, std::span<const TextRange> ranges) {
  const auto after = std::ranges::upper_bound(ranges, at.begin, {}, &TextRange::begin);
  return after != ranges.begin() && at.end <= std::prev(after)->end;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), lengths_(256) {
  std::ranges::stable_sort(tokens_, {}, &AddedToken::text);
  for (const AddedToken& token : tokens_) {
    if (!token.text.empty()) lengths_[static_cast<unsigned char>(token.text[0])].push_back(token.text.size());
  }
  for (std::vector<size_t>& lengths : lengths_) {
    std::ranges::sort(lengths, std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at,
                                          std::span<const TextRange> special) const {
  for (const size_t length : lengths_[static_cast<unsigned char>(text[at])]) {
    if (length > text.size() - at) continue;
    const std::string_view wanted = text.substr(at, length);
    const auto found = std::ranges::lower_bound(tokens_, wanted, {}, &AddedToken::text);
    if (found == tokens_.end() || found->text != wanted) continue;
    if (!found->special || inside({at, at + length}, special)) return &*found;
  }
  return nullptr;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, size_t from,
                                                    std::span<const TextRange> special) const {
  if (tokens_.empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at) {
    if (const AddedToken* token = longest_at(text, at, special)) {
      return Match{{at, at + token->text.size()}, token->id};
    }
  }
  return std::nullopt;
}

}  // namespace minite::io
