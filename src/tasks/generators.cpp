#include "tasks/generators.h"

#include <algorithm>

#include "core/fail.h"
#include "core/utf8.h"
#include "tasks/shuffle.h"

namespace minite::tasks {
namespace {

constexpr std::array kGenerators = {
    Generator{"addition", "two numbers, added column by column from the right with carries",
              "47+85=7+5+0=12,4+8+1=13#132", "numeric", "0123456789+=,#", kAdditionOptions, addition_space},
    Generator{"chain_sum", "a chain of additions and subtractions with running totals", "4+7-2+5=11,9#14",
              "numeric", "0123456789+-=,#", kChainSumOptions, chain_sum_space},
    Generator{"sort", "digits or letters in ascending order, by insertion", "4715>4,47,147#1457", "exact",
              "0123456789abcdefghijklmnopqrstuvwxyz>,#", kSortOptions, sort_space},
    Generator{"countdown", "an expression that reaches the target and uses each number once",
              "2,3,9>21=9-2=7,7*3=21#(9-2)*3", "expression", "0123456789+-*/()=,#>", kCountdownOptions,
              countdown_space},
};

}  // namespace

std::span<const Generator> generators() { return kGenerators; }

const Generator& generator(std::string_view name) {
  const auto row = std::find_if(kGenerators.begin(), kGenerators.end(),
                                [&](const Generator& candidate) { return candidate.name == name; });
  if (row != kGenerators.end()) return *row;
  std::vector<std::string_view> names;
  for (const Generator& known : kGenerators) names.push_back(known.name);
  fail(ErrorCode::not_found, "unknown generator '{}'; known: {}{}", printable(name), fmt::join(names, ", "),
       did_you_mean(name, names));
}

ProblemSource::ProblemSource(std::string_view name, std::string_view options, uint64_t seed)
    : generator_(&generator(name)),
      options_(TaskOptions::parse(name, generator_->options, options)),
      space_(generator_->make(options_)),
      seed_(seed),
      strata_(space_->strata()) {
  std::vector<uint32_t> left(strata_.size());  // strata that still have problems, in table order
  for (uint32_t i = 0; i < left.size(); ++i) left[i] = i;
  uint64_t rank = 0;
  while (!left.empty()) {
    phases_.push_back({size_, rank, left});
    uint64_t shortest = UINT64_MAX;
    for (const uint32_t i : left) shortest = std::min(shortest, strata_[i]);
    size_ += (shortest - rank) * left.size();
    rank = shortest;
    std::erase_if(left, [&](uint32_t i) { return strata_[i] == rank; });
  }
}

Problem ProblemSource::at(uint64_t index) const {
  require(index < size_, "{}: problem {} does not exist; there are {} with {}", generator_->name, index,
          size_, options_.to_string());
  const auto after = std::upper_bound(phases_.begin(), phases_.end(), index,
                                      [](uint64_t i, const Phase& phase) { return i < phase.start; });
  const Phase& phase = *(after - 1);
  const uint64_t turn = index - phase.start;
  const uint32_t stratum = phase.strata[turn % phase.strata.size()];
  const uint64_t position = phase.first_rank + turn / phase.strata.size();
  return space_->make(stratum, Shuffle(seed_, stratum, strata_[stratum])(position));
}

std::vector<Problem> ProblemSource::take(uint64_t count, uint64_t offset) const {
  require(offset <= size_ && count <= size_ - offset,
          "{}: {} problems from offset {} were asked for, but only {} exist with {}; ask for fewer or widen "
          "the options",
          generator_->name, count, offset, size_, options_.to_string());
  std::vector<Problem> problems;
  problems.reserve(count);
  for (uint64_t i = 0; i < count; ++i) problems.push_back(at(offset + i));
  return problems;
}

}  // namespace minite::tasks
