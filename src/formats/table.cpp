// One row per format. CLI help, describe, docs and the conformance suite iterate this table.
#include <array>
#include <vector>

#include "core/fail.h"
#include "minite/format.h"

namespace minite {
namespace {

constexpr std::array<Format, 4> kFormats = {{
    {FormatId::fp32, "fp32", Element::fp32, 32, 0, Element::none, false, "4 bytes an element",
     "IEEE single precision; operands of the tests' reference runs"},
    {FormatId::bf16, "bf16", Element::bf16, 16, 0, Element::none, false, "2 bytes an element",
     "brain float: activations and high precision operands"},
    {FormatId::nvfp4, "nvfp4", Element::e2m1, 4, 16, Element::e4m3, true,
     "2 codes a byte, even column in the low nibble; 1 scale byte a block of 16",
     "NVIDIA FP4: E2M1 codes, E4M3 block scales, FP32 outer scale"},
    {FormatId::mxfp8, "mxfp8", Element::e4m3, 8, 32, Element::e8m0, false,
     "1 code a byte; 1 scale byte a block of 32", "OCP MX FP8: E4M3 codes, power-of-two block scales"},
}};

constexpr std::array<std::string_view, 7> kElementNames = {"none", "fp32", "bf16", "e2m1",
                                                           "e4m3", "e5m2", "e8m0"};
constexpr std::array<std::string_view, 4> kOuterNames = {"none", "tensor", "expert", "row"};
constexpr std::array<std::string_view, 1> kConventionNames = {"te"};

constexpr int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Parts {
  int64_t codes, scales, outer;
};
Parts part_bytes(const QTensor& q) {
  return {round_up(q.rows * q.code_stride(), 64), round_up(q.rows * q.scale_stride(), 64),
          round_up(q.outer_count() * int64_t{sizeof(float)}, 64)};
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

bool QuantSpec::quantized() const { return minite::format(format).block != 0; }

void QuantSpec::validate() const {
  const Format& row = minite::format(format);
  require(row.outer_scale || outer == OuterScale::none, "{} has no outer scale, but outer={} was asked for",
          row.name, to_string(outer));
}

std::string to_string(const QuantSpec& spec) {
  const Format& row = format(spec.format);
  if (!row.outer_scale) return std::string(row.name);
  return fmt::format("{}[{},outer={}]", row.name, to_string(spec.convention), to_string(spec.outer));
}

int64_t QTensor::code_stride() const { return (cols * format(spec.format).bits + 7) / 8; }
int64_t QTensor::scale_stride() const {
  const int block = format(spec.format).block;
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

QTensor QTensor::slice_rows(int64_t begin, int64_t count) const {
  QTensor q = *this;
  q.rows = count;
  q.codes += begin * code_stride();
  q.block_scales += begin * scale_stride();
  if (spec.outer == OuterScale::row) {
    q.outer += begin;
    q.amax += begin;
  }
  return q;
}

int64_t QTensor::bytes(const QuantSpec& spec, int64_t rows, int64_t cols) {
  QTensor q;
  q.spec = spec;
  q.rows = rows;
  q.cols = cols;
  const Parts parts = part_bytes(q);
  return parts.codes + parts.scales + 2 * parts.outer;
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
  }
  return q;
}

}  // namespace minite
