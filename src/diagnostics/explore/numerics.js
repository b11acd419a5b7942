// NVFP4 as the library computes it (convention te, docs/numerics.md): every operation is one FP32 rounding.
// A product or quotient of two FP32 values, computed in FP64 and rounded once more, is the FP32 result.
"use strict";

const f32 = Math.fround;
const kFloatMax = 3.4028234663852886e38;
const kE2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];
const kRange = 2688; // 6 * 448

function decodeE2M1(code) {
  const value = kE2M1[code & 7];
  return code & 8 ? -value : value;
}

function decodeE4M3(byte) {
  const exponent = (byte >> 3) & 15, mantissa = byte & 7, sign = byte & 128 ? -1 : 1;
  if (exponent === 15 && mantissa === 7) return NaN;
  return sign * (exponent === 0 ? mantissa * 2 ** -9 : (8 + mantissa) * 2 ** (exponent - 10));
}

/// The code among values(0) < values(1) < ... that is nearest to x >= 0; ties to the even code, beyond the end
/// the last.
function nearestCode(x, count, value) {
  let low = 0, high = count - 1;
  if (x >= value(high)) return high;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (value(middle) <= x) low = middle; else high = middle;
  }
  const below = x - value(low), above = value(high) - x;
  if (below === above) return low % 2 === 0 ? low : high;
  return below < above ? low : high;
}
function encodeE4M3(x) {
  if (Number.isNaN(x)) return 127;
  return nearestCode(Math.abs(x), 127, decodeE4M3) | (x < 0 || Object.is(x, -0) ? 128 : 0);
}
function encodeE2M1(x) {
  if (Number.isNaN(x)) return 7;
  return nearestCode(Math.abs(x), 8, decodeE2M1) | (x < 0 || Object.is(x, -0) ? 8 : 0);
}

const finite = (x) => Math.min(x, kFloatMax);
const amaxOf = (values) => values.reduce((a, x) => Math.max(a, Math.abs(f32(x))), 0);

/// The scale that maps the outer amax A to 2688.
function outerEncodeScale(amax) {
  const scale = finite(f32(kRange / amax));
  return amax === 0 || scale === 0 ? 1 : scale;
}

/// Codes, block scales and decoded values of one row whose outer amax is `amax`.
function quantizeNvfp4(values, amax) {
  const encode = outerEncodeScale(amax), decode = f32(1 / encode);
  const perSix = f32(encode * f32(1 / 6));
  const out = {codes: [], scales: [], decoded: []};
  for (let begin = 0; begin < values.length; begin += 16) {
    const block = values.slice(begin, begin + 16).map(f32);
    const scale = encodeE4M3(finite(f32(amaxOf(block) * perSix)));
    const d = decodeE4M3(scale);
    const multiplier = finite(f32(1 / f32(d * decode)));
    const back = f32(f32(d * f32(amax)) * f32(1 / kRange));
    out.scales.push(scale);
    for (const x of block) {
      const code = encodeE2M1(f32(x * multiplier));
      out.codes.push(code);
      out.decoded.push(f32(decodeE2M1(code) * back));
    }
  }
  return out;
}

/// |y - x| / |x| in the Euclidean norm.
function relativeL2(values, decoded) {
  let error = 0, power = 0;
  values.forEach((x, i) => {
    error += (decoded[i] - f32(x)) ** 2;
    power += f32(x) ** 2;
  });
  return Math.sqrt(error / power);
}

/// Mean of the finite values among the `window` (odd) nearest.
function runningMean(values, window) {
  const half = (window - 1) / 2;
  return values.map((_, i) => {
    const near = values.slice(Math.max(0, i - half), i + half + 1).filter(Number.isFinite);
    return near.length ? near.reduce((a, b) => a + b, 0) / near.length : NaN;
  });
}

/// Share of sum |A| by the signs of advantage and gap, and the number of tokens of each region.
function regionShares(tokens) {
  const regions = {pos_neg: 0, pos_pos: 0, neg_neg: 0, neg_pos: 0};
  const counts = {pos_neg: 0, pos_pos: 0, neg_neg: 0, neg_pos: 0};
  let total = 0;
  for (const t of tokens) {
    total += Math.abs(t.advantage);
    if (t.advantage === 0 || t.gap === 0) continue;
    const name = (t.advantage > 0 ? "pos" : "neg") + (t.gap > 0 ? "_pos" : "_neg");
    regions[name] += Math.abs(t.advantage);
    counts[name] += 1;
  }
  for (const name of Object.keys(regions)) regions[name] = total > 0 ? regions[name] / total : 0;
  return {shares: regions, counts};
}

if (typeof module !== "undefined")
  module.exports = {decodeE2M1, decodeE4M3, encodeE2M1, encodeE4M3, quantizeNvfp4, relativeL2, outerEncodeScale,
                    runningMean, regionShares};
