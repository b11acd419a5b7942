#include "backends/ref/convention.h"

#include <array>

#include "backends/ref/quantize_source.h"
#include "formats/element_codes.h"
#include "formats/peer_math.h"
#include "formats/sim.h"

namespace minite::ref {
namespace {

/// The context of a call: BF16 x is the weight itself.
PeerContext context_of(const QuantizeArgs& args) {
  return peer_context(args.out.spec, args.x.dtype == DType::bf16 ? DType::bf16 : args.stored);
}
Nan nan_of(bool counts) { return counts ? Nan::counts : Nan::skipped; }

/// One NVFP4 block: its scale byte and what its elements meet.
struct Block {
  uint8_t scale;
  float factor;
};

/// Error of a 4over6 candidate: a sequential FP32 sum, or the largest.
float candidate_error(const Nvfp4Rule& rule, const Block16& x, const Block& block, const PeerOuter& outer,
                      const PeerContext& context, ScaleSearch search) {
  float error = 0;
  for (const float value : x) {
    const float v =
        rule.candidate(value, block.factor) * peer::widen_e4m3(block.scale) * outer.amax / context.range;
    const float distance = codec_detail::magnitude(v - value);
    if (search == ScaleSearch::four_six_abs_max) {
      error = distance > error || codec_detail::is_nan(distance) ? distance : error;
    } else {
      error = error + (search == ScaleSearch::four_six_mae ? distance : distance * distance);
    }
  }
  return error;
}

bool searches(ScaleSearch search) { return search != ScaleSearch::amax && search != ScaleSearch::amax4; }

void nvfp4_rows(const QuantizeArgs& args, const PeerOuter& shared, int64_t begin, int64_t end) {
  const Source x(args);
  const QTensor& out = args.out;
  const Nvfp4Rule& rule = nvfp4_rule(out.spec.convention);
  const PeerContext context = context_of(args);
  PeerOuter outer = shared;
  for (int64_t r = begin; r < end; ++r) {
    if (out.spec.outer == OuterScale::row) {
      Amax amax(nan_of(rule.nan_counts));
      x.add(amax, r, 0, out.cols);
      outer = store_outer(args, r, amax.value());
    }
    for (int64_t first = 0; first < out.cols; first += 16) {
      const int64_t last = std::min(first + 16, out.cols);
      const Block16 v = x.block(r, first);
      const float amax = block_amax(x, out, r, first, last, nan_of(rule.nan_counts));
      const auto with_gain = [&](float gain) {
        const uint8_t scale = rule.scale(amax, outer, context, gain);
        return Block{scale, rule.factor(scale, outer)};
      };
      const auto error = [&](const Block& candidate) {
        return candidate_error(rule, v, candidate, outer, context, out.spec.search);
      };
      Block block = with_gain(1.0f);
      if (searches(out.spec.search)) {
        const Block four = with_gain(1.5f);
        if (error(four) < error(block)) block = four;
      }
      out.block_scales[r * out.scale_stride() + first / 16] = block.scale;
      for (int64_t c = first; c < last; ++c)
        put_code(out.codes + r * out.code_stride(), c,
                 rule.code(v[static_cast<size_t>(c - first)], block.factor), 4);
    }
  }
}

void mx_rows(const QuantizeArgs& args, int64_t begin, int64_t end) {
  const Source x(args);
  const QTensor& out = args.out;
  const Format& row = format(out.spec.format);
  const MxRule& rule = mx_rule(out.spec.convention);
  const MxElement element = mx_element(row.element);
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t first = 0; first < out.cols; first += row.block) {
      const int64_t last = std::min(first + row.block, out.cols);
      const MxBlock block = rule.block(block_amax(x, out, r, first, last, nan_of(rule.nan_counts)), element);
      out.block_scales[r * out.scale_stride() + first / row.block] = block.scale;
      Block16 v{};
      for (int64_t c = first; c < last; ++c) {
        if (c % 16 == 0) v = x.block(r, c);
        put_code(out.codes + r * out.code_stride(), c,
                 rule.code(row.element, v[static_cast<size_t>(c % 16)], block.factor), row.bits);
      }
    }
  }
}

/// Simulated blocks of any size.
void sim_rows(const QuantizeArgs& args, int64_t begin, int64_t end) {
  const Source x(args);
  const QTensor& out = args.out;
  const Format& row = format(out.spec.format);
  const int64_t size = out.spec.block_size();
  with_sim_element(row.element, [&](auto element) {
    using Codec = decltype(element);
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t first = 0; first < out.cols; first += size) {
        const int64_t last = std::min(first + size, out.cols);
        const float t = block_amax(x, out, r, first, last) / Codec::kMax;
        const uint8_t scale = row.block_scale == Element::e8m0 ? E8M0::encode_round_up(t) : E4M3::encode(t);
        const float d = block_scale_value(out.spec, scale);
        out.block_scales[r * out.scale_stride() + first / size] = scale;
        for (int64_t c = first; c < last; ++c)
          out.codes[r * out.code_stride() + c] = Codec::encode(x.block(r, c)[0] / d);
      }
    }
  });
}

}  // namespace

bool by_rule(const QuantSpec& spec) {
  return spec.format != FormatId::nvfp4 || spec.convention != Convention::te;
}
bool shares_outer(const QuantSpec& spec) {
  return spec.outer == OuterScale::tensor || spec.outer == OuterScale::expert;
}

PeerOuter store_outer(const QuantizeArgs& args, int64_t r, float amax) {
  const QTensor& out = args.out;
  const PeerOuter outer = nvfp4_rule(out.spec.convention).outer(amax, context_of(args));
  out.amax[r] = amax;
  out.outer[r] = outer.multiplier;
  if (out.reciprocal != nullptr) out.reciprocal[r] = outer.stored;
  return outer;
}

void quantize_rows(const QuantizeArgs& args, const PeerOuter& shared, int64_t begin, int64_t end) {
  if (args.out.spec.format == FormatId::nvfp4) return nvfp4_rows(args, shared, begin, end);
  if (format(args.out.spec.format).simulated) return sim_rows(args, begin, end);
  mx_rows(args, begin, end);
}

void quantize_by_rule(const QuantizeArgs& args) {
  const QTensor& out = args.out;
  PeerOuter shared;
  if (shares_outer(out.spec) && out.rows > 0) {
    const Source x(args);
    Amax amax(nan_of(nvfp4_rule(out.spec.convention).nan_counts));
    for (int64_t r = 0; r < out.rows; ++r) x.add(amax, r, 0, out.cols);
    shared = store_outer(args, 0, amax.value());
  }
  quantize_rows(args, shared, 0, out.rows);
}

float decode_element(const QTensor& q, int64_t r, int64_t c) {
  const Format& row = format(q.spec.format);
  const uint8_t code = code_at(q, r, c);
  const uint8_t scale = q.block_scales[r * q.scale_stride() + c / q.spec.block_size()];
  if (row.simulated) {
    return with_sim_element(row.element, [&](auto element) {
      return decltype(element)::decode(code) * block_scale_value(q.spec, scale);
    });
  }
  if (q.spec.format != FormatId::nvfp4) return mx_rule(q.spec.convention).decode(row.element, code, scale);
  return E2M1::decode(code) * block_scale_value(q.spec, scale);
}

DecodeRow::DecodeRow(const QTensor& q, int64_t row)
    : q_(q),
      row_(row),
      stored_(q.stored_global(row)),
      amax_(q.outer_count() == 0 ? nullptr : q.amax + (q.spec.outer == OuterScale::row ? row : 0)),
      rule_(q.spec.format == FormatId::nvfp4 && by_rule(q.spec) ? &nvfp4_rule(q.spec.convention) : nullptr),
      context_(peer_context(q.spec, DType::f32)) {}

float DecodeRow::value(int64_t col) const {
  if (q_.spec.format != FormatId::nvfp4) return decode_element(q_, row_, col);
  const uint8_t scale = q_.block_scales[row_ * q_.scale_stride() + col / 16];
  const float multiplier = rule_ != nullptr ? rule_->decode(scale, stored_, context_)
                                            : nvfp4_decode_scale(scale, amax_, nvfp4_range(q_.spec));
  return E2M1::decode(code_at(q_, row_, col)) * multiplier;
}

}  // namespace minite::ref
