#pragma once
// The norms that a suite runs through.
#include <array>
#include <string_view>

#include "ops/args.h"

namespace minite::test_support {

struct NormCase {
  std::string_view name;
  NormSpec spec;
  bool bias;
};
inline constexpr std::array<NormCase, 5> kNorms = {{
    {"rmsnorm", {NormKind::rmsnorm, Gamma::plain}, false},
    {"rmsnorm, zero-centered", {NormKind::rmsnorm, Gamma::zero_centered}, false},
    {"layernorm", {NormKind::layernorm, Gamma::plain}, true},
    {"layernorm, zero-centered", {NormKind::layernorm, Gamma::zero_centered}, true},
    {"layernorm without a bias", {NormKind::layernorm, Gamma::plain}, false},
}};

}  // namespace minite::test_support
