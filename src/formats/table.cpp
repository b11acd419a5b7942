// One row per format. CLI help, describe, docs and the conformance suite iterate this table.
#include <array>
#include <vector>

#include "core/fail.h"
#include "minite/convention.h"
#include "minite/format.h"

namespace minite {
namespace {

constexpr std::string_view kSimLayout = "1 code a byte; 1 scale byte a block of 16";
/// Simulated: block of 16, E4M3 or E8M0 scale, no outer scale; everything but the element and the scale
/// alike.
constexpr Format sim(FormatId id, std::string_view name, Element element, Element scale,
                     std::string_view purpose) {
  return {id, name, element, 8, 16, scale, false, kSimLayout, purpose, true};
}

constexpr Format kFormats[] = {
    {FormatId::fp32, "fp32", Element::fp32, 32, 0, Element::none, false, "4 bytes an element",
     "IEEE single precision; operands of the tests' reference runs"},
    {FormatId::bf16, "bf16", Element::bf16, 16, 0, Element::none, false, "2 bytes an element",
     "brain float: activations and high precision operands"},
    {FormatId::nvfp4, "nvfp4", Element::e2m1, 4, 16, Element::e4m3, true,
     "2 codes a byte, even column in the low nibble; 1 scale byte a block of 16",
     "NVIDIA FP4: E2M1 codes, E4M3 block scales, FP32 outer scale"},
    {FormatId::mxfp8, "mxfp8", Element::e4m3, 8, 32, Element::e8m0, false,
     "1 code a byte; 1 scale byte a block of 32", "OCP MX FP8: E4M3 codes, power-of-two block scales"},
    {FormatId::mxfp8_e5m2, "mxfp8_e5m2", Element::e5m2, 8, 32, Element::e8m0, false,
     "1 code a byte; 1 scale byte a block of 32", "OCP MX FP8: E5M2 codes, power-of-two block scales"},
    {FormatId::mxfp4, "mxfp4", Element::e2m1, 4, 32, Element::e8m0, false,
     "2 codes a byte, even column in the low nibble; 1 scale byte a block of 32",
     "OCP MX FP4: E2M1 codes, power-of-two block scales"},
    sim(FormatId::sim_e2m1, "sim_e2m1", Element::e2m1, Element::e4m3,
        "simulated: E2M1 codes (the element of NVFP4), E4M3 block scales"),
    sim(FormatId::sim_e3m1, "sim_e3m1", Element::e3m1, Element::e4m3,
        "simulated: E3M1 codes (one exponent bit more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e4m1, "sim_e4m1", Element::e4m1, Element::e4m3,
        "simulated: E4M1 codes (two exponent bits more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e5m1, "sim_e5m1", Element::e5m1, Element::e4m3,
        "simulated: E5M1 codes (three exponent bits more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e2m2, "sim_e2m2", Element::e2m2, Element::e4m3,
        "simulated: E2M2 codes (one mantissa bit more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e2m3, "sim_e2m3", Element::e2m3, Element::e4m3,
        "simulated: E2M3 codes (two mantissa bits more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e2m4, "sim_e2m4", Element::e2m4, Element::e4m3,
        "simulated: E2M4 codes (three mantissa bits more than E2M1), E4M3 block scales"),
    sim(FormatId::sim_e2m1_e8m0, "sim_e2m1_e8m0", Element::e2m1, Element::e8m0,
        "simulated: E2M1 codes (the element of NVFP4), E8M0 block scales"),
    sim(FormatId::sim_e3m1_e8m0, "sim_e3m1_e8m0", Element::e3m1, Element::e8m0,
        "simulated: E3M1 codes (one exponent bit more than E2M1), E8M0 block scales"),
    sim(FormatId::sim_e4m1_e8m0, "sim_e4m1_e8m0", Element::e4m1, Element::e8m0,
        "simulated: E4M1 codes (two exponent bits more than E2M1), E8M0 block scales"),
    sim(FormatId::sim_e5m1_e8m0, "sim_e5m1_e8m0", Element::e5m1, Element::e8m0,
        "simulated: E5M1 codes (three exponent bits more than E2M1), E8M0 block scales"),
    sim(FormatId::sim_e2m2_e8m0, "sim_e2m2_e8m0", Element::e2m2, Element::e8m0,
        "simulated: E2M2 codes (one mantissa bit more than E2M1), E8M0 block scales"),
    sim(FormatId::sim_e2m3_e8m0, "sim_e2m3_e8m0", Element::e2m3, Element::e8m0,
        "simulated: E2M3 codes (two mantissa bits more than E2M1), E8M0 block scales"),
    sim(FormatId::sim_e2m4_e8m0, "sim_e2m4_e8m0", Element::e2m4, Element::e8m0,
        "simulated: E2M4 codes (three mantissa bits more than E2M1), E8M0 block scales"),
};

constexpr std::array<std::string_view, 13> kElementNames = {
    "none", "fp32", "bf16", "e2m1", "e4m3", "e5m2", "e8m0", "e3m1", "e4m1", "e5m1", "e2m2", "e2m3", "e2m4"};
constexpr std::array<std::string_view, 4> kOuterNames = {"none", "tensor", "expert", "row"};
constexpr std::array<std::string_view, 16> kConventionNames = {"te",
                                                               "modelopt",
                                                               "compressed-tensors",
                                                               "compressed-tensors-f32",
                                                               "torchao",
                                                               "torchao-1level",
                                                               "vllm",
                                                               "flashinfer",
                                                               "flashinfer-test",
                                                               "fouroversix",
                                                               "ggml",
                                                               "rceil",
                                                               "floor",
                                                               "even",
                                                               "ceil",
                                                               "microxcaling"};
constexpr std::array<std::string_view, 2> kEpilogueNames = {"minite", "te"};
constexpr std::array<std::string_view, 4> kGlobalNames = {"none", "amax", "multiplier", "reciprocal"};
constexpr std::array<std::string_view, 2> kBlockNames = {"1d", "2d"};
constexpr std::array<std::string_view, 5> kSearchNames = {"amax", "4over6-mae", "4over6-mse", "amax4",
                                                          "4over6-absmax"};
constexpr std::array<std::string_view, 2> kRoundingNames = {"rne", "sr"};
constexpr std::array<std::string_view, 2> kRotationNames = {"none", "rht"};
constexpr int64_t kRotationPoints = 16;

constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/// ",2d,4over6-mae,256": what differs from a plain quantizer.
std::string option_words(const QuantSpec& spec) {
  std::string text;
  const auto add = [&](bool differs, std::string_view word) {
    if (differs) text += fmt::format(",{}", word);
  };
  add(spec.blocks != BlockShape::row, to_string(spec.blocks));
  add(spec.search != ScaleSearch::amax, to_string(spec.search));
  add(spec.scale_max != 448, fmt::format("{}", spec.scale_max));
  add(spec.rotation != Rotation::none, to_string(spec.rotation));
  add(spec.rounding != Rounding::nearest, to_string(spec.rounding));
  add(spec.block != 0, fmt::format("block={}", spec.block));
  return text;
}

bool stores(const QuantSpec& spec, StoredGlobal global) {
  const ConventionRow* row = find_convention(spec.convention, spec.format);
  return row != nullptr && row->global == global;
}

struct Parts {
  int64_t codes, scales, outer, reciprocal;
  [[nodiscard]] int64_t total() const { return codes + scales + 2 * outer + reciprocal; }
};
Parts part_bytes(const QTensor& q) {
  const int64_t outer = round_up(q.outer_count() * int64_t{sizeof(float)}, 64);
  return {round_up(q.rows * q.code_stride(), 64), round_up(q.rows * q.scale_stride(), 64), outer,
          stores(q.spec, StoredGlobal::reciprocal) ? outer : 0};
}

/// What the options ask of the format alone.
void validate_format(const QuantSpec& spec, const Format& row) {
  require(row.outer_scale || spec.outer == OuterScale::none,
          "{} has no outer scale, but outer={} was asked for", row.name, to_string(spec.outer));
  QuantSpec plain = spec;
  plain.blocks = BlockShape::row;
  plain.block = 0;
  const std::string options = option_words(plain);
  require(options.empty() || row.outer_scale, "{} does not know the options {}", row.name,
          options.empty() ? "" : options.substr(1));
  require(spec.blocks == BlockShape::row || row.block > 0, "{} has no blocks, but 2D blocks were asked for",
          row.name);
  require(spec.scale_max == 448 || spec.scale_max == 256, "{}: scale_max={}; allowed: 448, 256", row.name,
          spec.scale_max);
  require(spec.block == 0 || row.simulated, "{}: block={}; only simulated formats choose their block",
          row.name, spec.block);
  require(spec.block % 8 == 0 && spec.block >= 0 && spec.block <= 128,
          "{}: block={}; allowed: multiples of 8 from 8 to 128, or 0 for the format's own", row.name,
          spec.block);
}

/// What the options ask of the convention.
void validate_convention(const QuantSpec& spec, const Format& row) {
  const ConventionRow* rules = find_convention(spec.convention, spec.format);
  const std::string_view name = to_string(spec.convention);
  require(rules != nullptr, "convention {} does not know {}; `minite formats --conventions` lists pairs",
          name, row.name);
  require(rules->outers.has(spec.outer), "{}: convention {} has no outer={}", row.name, name,
          to_string(spec.outer));
  require(rules->searches.has(spec.search), "{}: convention {} has no {}", row.name, name,
          to_string(spec.search));
  require(rules->tiles || spec.blocks == BlockShape::row, "{}: convention {} has no 2D blocks", row.name,
          name);
  const bool own = spec.convention == Convention::te;
  require(own || (spec.rounding == Rounding::nearest && spec.rotation == Rotation::none),
          "{}: sr and rht belong to convention te, not to {}", row.name, name);
  require(own || spec.scale_max == 448 || rules->searches.has(ScaleSearch::four_six_mse),
          "{}: convention {} maps the amax to 448, scale_max={} was asked for", row.name, name,
          spec.scale_max);
}

}  // namespace

std::span<const Format> formats() { return kFormats; }
const Format& format(FormatId id) { return kFormats[static_cast<size_t>(id)]; }

const Format& format(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Format& row : kFormats) {
    if (row.name == name) return row;
    names.push_back(row.name);
  }
  fail(ErrorCode::not_found, "unknown format '{}'{}; `minite formats` lists all", name,
       did_you_mean(name, names));
}

std::string_view to_string(Element element) { return kElementNames[static_cast<size_t>(element)]; }
std::string_view to_string(OuterScale outer) { return kOuterNames[static_cast<size_t>(outer)]; }
std::string_view to_string(Convention convention) {
  return kConventionNames[static_cast<size_t>(convention)];
}
std::string_view to_string(StoredGlobal global) { return kGlobalNames[static_cast<size_t>(global)]; }
std::string_view to_string(Epilogue epilogue) { return kEpilogueNames[static_cast<size_t>(epilogue)]; }
std::string_view to_string(BlockShape blocks) { return kBlockNames[static_cast<size_t>(blocks)]; }
std::string_view to_string(ScaleSearch search) { return kSearchNames[static_cast<size_t>(search)]; }
std::string_view to_string(Rounding rounding) { return kRoundingNames[static_cast<size_t>(rounding)]; }
std::string_view to_string(Rotation rotation) { return kRotationNames[static_cast<size_t>(rotation)]; }

bool QuantSpec::quantized() const { return minite::format(format).block != 0; }

void QuantSpec::validate() const {
  const Format& row = minite::format(format);
  validate_format(*this, row);
  if (quantized()) validate_convention(*this, row);
  // Transformer Engine refuses these pairs, too.
  const bool searches = search != ScaleSearch::amax;
  require(blocks == BlockShape::row || outer != OuterScale::row,
          "{}: a 2D block spans rows, so outer=row contradicts 2d", row.name);
  require(blocks == BlockShape::row || rotation == Rotation::none,
          "{}: rht mixes the rows of a tile, so rht contradicts 2d", row.name);
  require(!searches || (rounding == Rounding::nearest && rotation == Rotation::none),
          "{}: {} compares nearest roundings of x itself, so it contradicts sr and rht", row.name,
          to_string(search));
}

int QuantSpec::block_size() const { return block != 0 ? block : minite::format(format).block; }

bool QuantSpec::transposable() const {
  return blocks == BlockShape::tile && outer != OuterScale::row && rounding == Rounding::nearest &&
         rotation == Rotation::none && (search == ScaleSearch::amax || search == ScaleSearch::amax4);
}

int64_t QuantSpec::stored_cols(int64_t cols) const {
  return rotation == Rotation::none ? cols : round_up(cols, kRotationPoints);
}

std::string to_string(const QuantSpec& spec) {
  const Format& row = format(spec.format);
  std::string options = option_words(spec);
  if (!row.outer_scale) {
    if (spec.convention != Convention::te)
      options = fmt::format(",{}{}", to_string(spec.convention), options);
    return std::string(row.name) + (options.empty() ? "" : "[" + options.substr(1) + "]");
  }
  return fmt::format("{}[{},outer={}{}]", row.name, to_string(spec.convention), to_string(spec.outer),
                     options);
}

int64_t QTensor::code_stride() const { return (cols * format(spec.format).bits + 7) / 8; }
int64_t QTensor::scale_stride() const {
  const int block = spec.block_size();
  return block == 0 ? 0 : (cols + block - 1) / block;
}
int64_t QTensor::outer_count() const {
  switch (spec.outer) {
    case OuterScale::none:
      return 0;
    case OuterScale::tensor:
    case OuterScale::expert:
      return 1;
    case OuterScale::row:
      return rows;
  }
  return 0;
}

float QTensor::stored_global(int64_t row) const {
  if (outer_count() == 0) return 1.0f;
  const int64_t i = spec.outer == OuterScale::row ? row : 0;
  const float* stored = stores(spec, StoredGlobal::amax)         ? amax
                        : stores(spec, StoredGlobal::reciprocal) ? reciprocal
                                                                 : outer;
  return stored[i];
}

QTensor QTensor::slice_rows(int64_t begin, int64_t count) const {
  QTensor q = *this;
  q.rows = count;
  q.codes += begin * code_stride();
  q.block_scales += begin * scale_stride();
  if (spec.outer == OuterScale::row) {
    q.outer += begin;
    q.amax += begin;
    if (q.reciprocal != nullptr) q.reciprocal += begin;
  }
  return q;
}

int64_t QTensor::bytes(const QuantSpec& spec, int64_t rows, int64_t cols) {
  QTensor q;
  q.spec = spec;
  q.rows = rows;
  q.cols = cols;
  return part_bytes(q).total();
}

QTensor QTensor::place(const QuantSpec& spec, int64_t rows, int64_t cols, void* memory) {
  QTensor q;
  q.spec = spec;
  q.rows = rows;
  q.cols = cols;
  const Parts parts = part_bytes(q);
  auto* p = static_cast<uint8_t*>(memory);
  q.codes = p;
  q.block_scales = p + parts.codes;
  if (parts.outer != 0) {
    q.outer = reinterpret_cast<float*>(p + parts.codes + parts.scales);
    q.amax = reinterpret_cast<float*>(p + parts.codes + parts.scales + parts.outer);
    if (parts.reciprocal != 0)
      q.reciprocal = reinterpret_cast<float*>(p + parts.codes + parts.scales + 2 * parts.outer);
  }
  return q;
}

}  // namespace minite
