// Validation of ragged batches.
#include <cmath>

#include "core/fail.h"
#include "minite/rl.h"

namespace minite::rl {
namespace {

void check_length(std::string_view name, std::size_t size, std::int64_t expected) {
  require(static_cast<std::int64_t>(size) == expected,
          "batch: {} has {} elements but mask has {}; give one value per token (pad nothing, mask instead)",
          name, size, expected);
}

void check_offsets(std::span<const std::int64_t> offsets, std::int64_t n_tokens) {
  require(!offsets.empty(), "batch: offsets is empty; it needs n_responses + 1 elements");
  require(offsets[0] == 0, "batch: offsets[0] = {}, must be 0", offsets[0]);
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    require(offsets[i] >= offsets[i - 1], "batch: offsets[{}] = {} is less than offsets[{}] = {}", i,
            offsets[i], i - 1, offsets[i - 1]);
  }
  require(offsets.back() == n_tokens, "batch: the last offset is {} but there are {} tokens", offsets.back(),
          n_tokens);
}

void check_finite(std::string_view name, double value, std::int64_t response, std::int64_t token) {
  if (std::isfinite(value)) return;
  fail(ErrorCode::non_finite, "batch: {} = {} at response {}, token {}; mask the token if it must not count",
       name, value, response, token);
}

}  // namespace

void validate(const Batch& batch) {
  const std::int64_t n = batch.n_tokens();
  check_length("logp_sampler", batch.logp_sampler.size(), n);
  check_length("logp_old", batch.logp_old.size(), n);
  check_length("advantage", batch.advantage.size(), n);
  const bool with_reference = !batch.logp_ref.empty();
  if (with_reference) check_length("logp_ref", batch.logp_ref.size(), n);
  check_offsets(batch.offsets, n);
  for (std::int64_t i = 0; i < batch.n_responses(); ++i) {
    const std::int64_t begin = batch.offsets[i];
    for (std::int64_t t = begin; t < batch.offsets[i + 1]; ++t) {
      require(batch.mask[t] <= 1, "batch: mask = {} at response {}, token {}; must be 0 or 1", batch.mask[t],
              i, t - begin);
      if (batch.mask[t] == 0) continue;
      check_finite("logp_sampler", batch.logp_sampler[t], i, t - begin);
      check_finite("logp_old", batch.logp_old[t], i, t - begin);
      check_finite("advantage", batch.advantage[t], i, t - begin);
      if (with_reference) check_finite("logp_ref", batch.logp_ref[t], i, t - begin);
    }
  }
}

std::int64_t mask_non_finite(std::span<const double> logp_sampler, std::span<std::uint8_t> mask) {
  check_length("logp_sampler", logp_sampler.size(), static_cast<std::int64_t>(mask.size()));
  std::int64_t masked = 0;
  for (std::size_t t = 0; t < mask.size(); ++t) {
    if (mask[t] == 0 || std::isfinite(logp_sampler[t])) continue;
    mask[t] = 0;
    ++masked;
  }
  return masked;
}

void broadcast_advantage(std::span<const std::int64_t> offsets, std::span<const double> per_response,
                         std::span<double> out) {
  check_offsets(offsets, static_cast<std::int64_t>(out.size()));
  require(per_response.size() + 1 == offsets.size(), "broadcast_advantage: {} advantages for {} responses",
          per_response.size(), offsets.size() - 1);
  for (std::size_t i = 0; i < per_response.size(); ++i) {
    for (std::int64_t t = offsets[i]; t < offsets[i + 1]; ++t) out[t] = per_response[i];
  }
}

}  // namespace minite::rl
