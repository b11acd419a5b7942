// Codes of groups whose bounds the host need not know: every level and the device against the reference, and
// the reference against one quantize() a group.
#include <cstring>

#include "backends/ref/table.h"
#include "conformance/conformance.h"
#include "formats/codecs.h"
#include "minite/error.h"
#include "ops/ops.h"

namespace minite::conformance {
namespace {

using GroupedQuantize = Level;
MINITE_LEVELS(GroupedQuantize);

// Empty groups first, inside and last; one row, a cut block, whole blocks; rows of no group after the last.
constexpr int64_t kPast = 7;
const std::vector<std::vector<int32_t>> kGroups = {
    {0, 0, 1, 1, 258, 261, 277, 277}, {0, 0, 0}, {0, 96, 128}, {0, 5}};

struct Options {
  QuantSpec spec;
  Orientation along;
  bool codes, decoded;
};
std::string name(const Options& o, size_t groups, int64_t cols, DType dtype) {
  return fmt::format("grouped_quantize {}{}{}{}, groups {}, {} columns of {}", to_string(o.spec),
                     o.along == Orientation::rows ? "" : " by columns", o.codes ? "" : ", no codes",
                     o.decoded ? ", decoded" : "", groups, cols, dtype_name(dtype));
}

int64_t scales(const Options& o, int64_t groups, int64_t rows, int64_t cols) {
  if (o.spec.outer == OuterScale::none) return 0;
  if (o.spec.outer == OuterScale::expert) return groups;
  return o.along == Orientation::rows ? rows : groups * cols;
}

/// The bytes of scales that belong to rows of no group or to groups without rows are nobody's: all alike.
void forget(const GroupedQuantizeArgs& args) {
  if (args.out.spec.outer == OuterScale::none) return;
  const auto clear = [&](int64_t begin, int64_t count) {
    std::fill_n(args.out.outer + begin, count, 0.0f);
    std::fill_n(args.out.amax + begin, count, 0.0f);
  };
  const int32_t* offset = args.groups.offset;
  const bool row = args.out.spec.outer == OuterScale::row, rows = args.along == Orientation::rows;
  if (row && rows) return clear(offset[args.groups.count], args.x.rows - offset[args.groups.count]);
  const int64_t each = row ? args.x.cols : 1;
  for (int64_t g = 0; g < args.groups.count; ++g) {
    if (offset[g] == offset[g + 1]) clear(g * each, each);
  }
}

GroupedQuantizeArgs arguments(Trial& trial, const Options& o, const std::vector<int32_t>& bounds,
                              int64_t cols, DType dtype, Fill fill) {
  const auto groups = static_cast<int64_t>(bounds.size()) - 1;
  const int64_t rows = bounds.back() + kPast;
  const bool by_rows = o.along == Orientation::rows;
  GroupedQuantizeArgs args;
  args.x = trial.space.input("x", dtype, rows, cols, fill, by_rows ? 0 : 8);
  args.groups = {trial.space.ints("offset", bounds).data(), groups};
  args.along = o.along;
  QuantSpec plain = o.spec;
  plain.outer = OuterScale::none;
  const int64_t lines = by_rows ? rows : cols,
                length = by_rows ? cols : padded_rows(rows, groups, o.spec.block_size());
  if (o.codes) args.out = trial.space.codes("codes", plain, lines, length);
  args.out.rows = lines;
  args.out.cols = length;
  args.out.spec = o.spec;
  if (const int64_t count = scales(o, groups, rows, cols); count > 0) {
    args.out.outer = trial.space.output("outer", DType::f32, 1, count).as<float>();
    args.out.amax = trial.space.output("amax", DType::f32, 1, count).as<float>();
  }
  if (o.decoded) args.decoded = trial.space.output("decoded", DType::bf16, rows, cols, 8);
  args.noise = {0x1234567890ABCDEF, 11};
  return args;
}

void run(Trial& trial, const GroupedQuantizeArgs& args) {
  trial.op.grouped_quantize(args, trial.exec());
  if (trial.op.memory != nullptr) trial.op.memory->synchronize(nullptr);
  forget(args);
}

std::vector<QuantSpec> specs(Orientation along) {
  constexpr QuantSpec kNone{FormatId::nvfp4}, kRow{FormatId::nvfp4, OuterScale::row},
      kExpert{FormatId::nvfp4, OuterScale::expert};
  QuantSpec noise = kRow, noise_shared = kExpert, search = kExpert, turned = kRow;
  noise.rounding = noise_shared.rounding = Rounding::stochastic;
  search.search = ScaleSearch::four_six_mse;
  turned.rotation = Rotation::hadamard;
  std::vector<QuantSpec> all = {kNone,        kRow,   kExpert,           noise,
                                noise_shared, search, {FormatId::mxfp8}, {FormatId::mxfp4}};
  if (along == Orientation::columns) all.push_back(turned);
  return all;
}

TEST_P(GroupedQuantize, BytesAreThoseOfOneCallAGroup) {
  for (const Orientation along : {Orientation::rows, Orientation::columns}) {
    for (const QuantSpec& spec : specs(along)) {
      for (size_t g = 0; g < kGroups.size(); ++g) {
        for (const DType dtype : kStorage) {
          for (const int64_t cols : {16, 37, 544}) {
            const bool turned = spec.rotation != Rotation::none;
            const Options both{spec, along, true, !turned};
            check(name(both, g, cols, dtype), [&](Trial& trial) {
              run(trial, arguments(trial, both, kGroups[g], cols, dtype, Fill::normal));
            });
            if (along == Orientation::rows || turned) continue;
            const Options values{spec, along, false, true};
            check(name(values, g, cols, dtype), [&](Trial& trial) {
              run(trial, arguments(trial, values, kGroups[g], cols, dtype, Fill::finite));
            });
          }
        }
      }
    }
  }
  // The general kernel serves what a fast one does not take: everything runs.
  EXPECT_TRUE(refusals().empty());
}

#ifndef MINITE_ON_DEVICE
/// The layout along columns holds what quantize() of a group alone gives, and zeros behind it.
TEST(GroupedLayout, ColumnsOfAGroupAreAMatrixOfTheirOwn) {
  constexpr int64_t kCols = 21;
  const std::vector<int32_t> bounds = {0, 0, 1, 34, 34, 55, 71};
  const auto groups = static_cast<int64_t>(bounds.size()) - 1;
  Workspace space(7);
  ThreadPool pool(1);
  Trial trial{space, ref::table(), pool};
  for (const QuantSpec& spec : {QuantSpec{FormatId::nvfp4, OuterScale::row}, QuantSpec{FormatId::mxfp8}}) {
    const Options o{spec, Orientation::columns, true, true};
    const GroupedQuantizeArgs args = arguments(trial, o, bounds, kCols, DType::bf16, Fill::normal);
    const Context ctx{&ref::table(), &pool, nullptr, {}};
    ops::grouped_quantize(ctx, args);
    int64_t padded = 0;
    const int64_t block = spec.block_size(), bits = format(spec.format).bits;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = bounds[static_cast<size_t>(g)], rows = bounds[static_cast<size_t>(g) + 1] - begin;
      if (rows == 0) continue;
      const QTensor one = space.codes("one", spec, kCols, rows);
      ref::table().quantize({args.x.slice_rows(begin, rows), Orientation::columns, one}, {});
      const int64_t whole = (rows + block - 1) / block * block;
      for (int64_t c = 0; c < kCols; ++c) {
        const uint8_t* codes = args.out.codes + (kCols * padded + c * whole) * bits / 8;
        EXPECT_EQ(
            std::memcmp(codes, one.codes + c * one.code_stride(), static_cast<size_t>(one.code_stride())), 0)
            << "group " << g << ", column " << c;
        for (int64_t i = one.code_stride(); i < whole * bits / 8; ++i) EXPECT_EQ(codes[i], 0);
        const uint8_t* scale = args.out.block_scales + (kCols * padded + c * whole) / block;
        EXPECT_EQ(std::memcmp(scale, one.block_scales + c * one.scale_stride(),
                              static_cast<size_t>(one.scale_stride())),
                  0);
        if (spec.outer == OuterScale::row) {
          EXPECT_EQ(args.out.outer[g * kCols + c], one.outer[c]);
        }
      }
      padded += whole;
    }
    EXPECT_LE(padded, args.out.cols);
  }
}

TEST(GroupedLayout, RefusesWhatSpansGroups) {
  const std::vector<int32_t> bounds = {0, 3, 8};
  Workspace space(7);
  ThreadPool pool(1);
  Trial trial{space, ref::table(), pool};
  const Context ctx{&ref::table(), &pool, nullptr, {}};
  QuantSpec turned{FormatId::nvfp4, OuterScale::row}, tile{FormatId::nvfp4, OuterScale::expert};
  turned.rotation = Rotation::hadamard;
  tile.blocks = BlockShape::tile;
  const std::vector<std::pair<QuantSpec, std::string>> cases = {
      {{FormatId::nvfp4, OuterScale::tensor}, "would span groups"},
      {tile, "would span groups"},
      {turned, "more rows than a group has"}};
  for (const auto& [spec, part] : cases) {
    const Options o{spec, Orientation::columns, true, true};
    GroupedQuantizeArgs args = arguments(trial, o, bounds, 32, DType::bf16, Fill::normal);
    try {
      ops::grouped_quantize(ctx, args);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}
#endif

}  // namespace
}  // namespace minite::conformance
