// minite quantize IN.safetensors -o OUT.safetensors --format F: codes, scales and what was lost.
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/output.h"
#include "cli/quant_options.h"
#include "cli/tensor_quantizer.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "core/utf8.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;
using Shapes = std::map<std::string, io::TensorShape>;

struct Args {
  std::string input, output;
  QuantOptions quant;
  RunnerOptions runner;
  uint64_t seed = 0;
  bool rht = false, columnwise = false, dequantize = false;
  ReportStyle style = ReportStyle::text;
};

/// What a half of tensor T is called: "T." or "T.columnwise.".
std::string prefix_of(const std::string& name, Orientation along) {
  return name + (along == Orientation::rows ? "." : ".columnwise.");
}

/// Why a tensor is copied through; "" when it is quantized.
std::string reason_to_copy(const io::TensorInfo& tensor) {
  if (!io::is_wide_float(tensor.type))
    return fmt::format("{} is not quantized", io::stored_type(tensor.type).name);
  if (!is_matrix(tensor.shape)) return fmt::format("{}-D; 2-D and 3-D are quantized", tensor.shape.size());
  return {};
}

/// The specs of the halves that are asked for.
std::vector<std::pair<Orientation, QuantSpec>> halves_of(const Args& args, const QuantSpec& spec) {
  std::vector<std::pair<Orientation, QuantSpec>> halves = {{Orientation::rows, spec}};
  if (!args.columnwise) return halves;
  QuantSpec columns = spec;
  if (args.rht) columns.rotation = Rotation::hadamard;
  columns.validate();
  halves.emplace_back(Orientation::columns, columns);
  return halves;
}

/// Shapes of the outputs of one half of a tensor of shape `shape`.
void announce(Shapes& shapes, const std::string& prefix, const std::vector<int64_t>& shape, Orientation along,
              const QuantSpec& spec, bool dequantize) {
  const TensorShape3 all = matrix_shape(shape);
  const bool by_rows = along == Orientation::rows;
  QTensor q;
  q.spec = spec;
  q.rows = by_rows ? all.rows : all.cols;
  q.cols = spec.stored_cols(by_rows ? all.cols : all.rows);
  const auto with_experts = [&](int64_t cols) {
    std::vector<int64_t> dims = {q.rows, cols};
    if (shape.size() == 3) dims.insert(dims.begin(), all.experts);
    return dims;
  };
  shapes[prefix + "codes"] = {io::StoredType::u8, with_experts(q.code_stride())};
  shapes[prefix + "block_scales"] = {io::StoredType::u8, with_experts(q.scale_stride())};
  if (q.outer_count() > 0 || spec.outer == OuterScale::row) {
    const int64_t count = spec.outer == OuterScale::tensor ? 1 : all.experts * q.outer_count();
    shapes[prefix + "outer_scale"] = {io::StoredType::f32, {count}};
    shapes[prefix + "amax"] = {io::StoredType::f32, {count}};
  }
  if (dequantize) shapes[prefix + "dequantized"] = {io::StoredType::f32, with_experts(q.cols)};
}

/// All outputs. Error: invalid_argument when two tensors want one name.
Shapes plan_outputs(const io::SafetensorsFile& file, const Args& args, const QuantSpec& spec) {
  Shapes shapes, copied;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!reason_to_copy(tensor).empty()) {
      copied[name] = {tensor.type, tensor.shape};
      continue;
    }
    for (const auto& [along, half] : halves_of(args, spec)) {
      Shapes mine;
      announce(mine, prefix_of(name, along), tensor.shape, along, half, args.dequantize);
      for (const auto& [key, shape] : mine) {
        require(shapes.emplace(key, shape).second && file.tensors().count(key) == 0,
                "{}: \"{}\" is the name of a tensor and of a part of \"{}\"; rename one", args.input,
                printable(key), printable(name));
      }
    }
  }
  shapes.merge(copied);
  return shapes;
}

/// What is said about the last block of a row that `cols` elements do not fill; "" when they do.
std::string padding_text(const QuantSpec& spec, const char* dimension, int64_t cols) {
  const int64_t block = spec.block_size();
  if (cols % block == 0) return {};
  return fmt::format("{}={} is not a multiple of {}: the last block of a row is padded with zeros{}",
                     dimension, cols, block,
                     spec.rotation == Rotation::none ? "" : ", and stored whole after the rotation");
}

/// One line of the report.
struct HalfReport {
  Orientation along;
  HalfStats stats;
  std::string padding;
  bool rotated;
};
struct TensorReport {
  std::string name;
  const io::TensorInfo* tensor;
  int64_t rounded;  ///< F64 values that FP32 cannot hold
  std::vector<HalfReport> halves;
};

void put(io::SafetensorsWriter& writer, const Shapes& shapes, const std::string& prefix,
         const QuantizedHalf& half, const Buffer* dequantized) {
  writer.put(prefix + "codes", half.codes());
  writer.put(prefix + "block_scales", half.block_scales());
  if (shapes.count(prefix + "outer_scale") != 0) {
    writer.put(prefix + "outer_scale", half.outer());
    writer.put(prefix + "amax", half.amax());
  }
  if (dequantized != nullptr) {
    writer.put(prefix + "dequantized", {dequantized->data(), static_cast<size_t>(dequantized->size())});
  }
}

TensorReport quantize_one(TensorQuantizer& quantizer, io::SafetensorsWriter& writer, const Shapes& shapes,
                          const Args& args, const std::string& name, const io::TensorInfo& tensor,
                          const QuantSpec& spec) {
  const io::FloatValues x = io::load_floats(tensor);
  const TensorShape3 shape = matrix_shape(tensor.shape);
  TensorReport report{name, &tensor, x.rounded, {}};
  for (const auto& [along, half_spec] : halves_of(args, spec)) {
    const bool rows = along == Orientation::rows;
    const QuantizedHalf half = quantizer.quantize(name, x, shape, half_spec, along);
    std::optional<Buffer> decoded;
    if (args.dequantize) decoded = quantizer.dequantize(half);
    put(writer, shapes, prefix_of(name, along), half, decoded ? &*decoded : nullptr);
    report.halves.push_back({along, quantizer.stats(half, x, shape),
                             padding_text(half_spec, rows ? "K" : "M", rows ? shape.cols : shape.rows),
                             half_spec.rotation != Rotation::none});
  }
  return report;
}

/// The header's metadata: that of the input, and what the codes were made from.
io::Metadata metadata_of(const io::SafetensorsFile& file, const Args& args, const QuantSpec& spec) {
  ordered_json tensors = ordered_json::object();
  for (const auto& [name, tensor] : file.tensors()) {
    if (!reason_to_copy(tensor).empty()) continue;
    tensors[name] = {{"dtype", io::stored_type(tensor.type).name}, {"shape", tensor.shape}};
  }
  io::Metadata metadata = file.metadata();
  metadata["minite.spec"] = to_string(spec);
  if (args.columnwise) metadata["minite.columnwise.spec"] = to_string(halves_of(args, spec).back().second);
  if (spec.rounding != Rounding::nearest) metadata["minite.seed"] = fmt::format("{}", args.seed);
  metadata["minite.tensors"] = tensors.dump();
  return metadata;
}

ordered_json half_json(const HalfReport& half) {
  ordered_json row;
  set_number(row, "relative_l2", half.stats.error.relative_l2());
  set_number(row, "snr_db", half.stats.error.snr_db());
  set_number(row, "mae", half.stats.error.mae());
  row["blocks"] = half.stats.scales.blocks;
  row["zero_scale_blocks"] = half.stats.scales.zero;
  row["nan_scale_blocks"] = half.stats.scales.nan;
  row["saturated"] = half.rotated ? ordered_json() : ordered_json(half.stats.saturated);
  row["nonfinite"] = half.stats.error.nonfinite;
  row["nonfinite_decoded"] = half.stats.error.nonfinite_decoded;
  row["padding"] = half.padding;
  return row;
}

ordered_json report_json(const Args& args, const QuantSpec& spec, const OpTable& table,
                         const std::vector<TensorReport>& reports, const io::SafetensorsFile& file) {
  ordered_json document = {{"file", args.output},
                           {"spec", to_string(spec)},
                           {"backend", table.name},
                           {"kernel", table.supports_quantize(spec).kernel},
                           {"tensors", ordered_json::array()},
                           {"copied", ordered_json::array()}};
  for (const TensorReport& report : reports) {
    ordered_json row = {{"name", report.name},
                        {"dtype", io::stored_type(report.tensor->type).name},
                        {"shape", report.tensor->shape},
                        {"rounded_to_f32", report.rounded}};
    row.update(half_json(report.halves.front()));
    if (report.halves.size() > 1) row["columnwise"] = half_json(report.halves.back());
    document["tensors"].push_back(std::move(row));
  }
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string reason = reason_to_copy(tensor);
    if (reason.empty()) continue;
    document["copied"].push_back({{"name", name},
                                  {"dtype", io::stored_type(tensor.type).name},
                                  {"shape", tensor.shape},
                                  {"reason", reason}});
  }
  return document;
}

std::string report_text(const Args& args, const QuantSpec& spec, const OpTable& table,
                        const std::vector<TensorReport>& reports, const io::SafetensorsFile& file) {
  Table lines({"tensor", "dtype", "shape", "relative L2", "SNR dB", "MAE", "blocks", "zero scales",
               "saturated", "non-finite"});
  std::string notes;
  for (const TensorReport& report : reports) {
    const std::string name = printable(report.name);
    for (const HalfReport& half : report.halves) {
      const auto& [error, scales, saturated] = half.stats;
      const bool rows = half.along == Orientation::rows;
      const std::string nonfinite =
          error.nonfinite_decoded == error.nonfinite
              ? fmt::format("{}", error.nonfinite)
              : fmt::format("{}, decoded {}", error.nonfinite, error.nonfinite_decoded);
      lines.add(
          {rows ? name : "  columnwise", rows ? std::string(io::stored_type(report.tensor->type).name) : "",
           rows ? shape_text(report.tensor->shape) : "", number_text(error.relative_l2()),
           fixed_text(error.snr_db()), number_text(error.mae()), fmt::format("{}", scales.blocks),
           fmt::format("{}", scales.zero), half.rotated ? "-" : fmt::format("{}", saturated), nonfinite});
      if (!half.padding.empty())
        notes += fmt::format("{}{}: {}\n", name, rows ? "" : " columnwise", half.padding);
    }
    if (report.rounded > 0)
      notes += fmt::format("{}: {} of {} F64 values are not exact in FP32 and were rounded to nearest even\n",
                           name, report.rounded, report.tensor->count());
  }
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string reason = reason_to_copy(tensor);
    if (!reason.empty())
      notes += fmt::format("{}: copied through, {} {} ({})\n", printable(name),
                           io::stored_type(tensor.type).name, shape_text(tensor.shape), reason);
  }
  return fmt::format("{}: {} tensors as {}, by {} {}\n\n", args.output, reports.size(), to_string(spec),
                     table.name, table.supports_quantize(spec).kernel) +
         lines.to_text() + (notes.empty() ? "" : "\n" + notes);
}

int run(const Args& args) {
  const QuantSpec spec = quant_spec(args.quant);
  require(!args.rht || args.columnwise, "--rht rotates the columnwise half only; add --columnwise");
  const io::SafetensorsFile file(args.input);
  std::error_code ignored;
  require(!std::filesystem::equivalent(args.input, args.output, ignored),
          "-o {} is the input itself; name another file", args.output);
  OpRunner runner(args.runner);
  TensorQuantizer quantizer(runner, args.seed);
  const Shapes shapes = plan_outputs(file, args, spec);
  io::SafetensorsWriter writer(args.output, shapes, metadata_of(file, args, spec));
  std::vector<TensorReport> reports;
  for (const auto& [name, tensor] : file.tensors()) {
    if (reason_to_copy(tensor).empty()) {
      reports.push_back(quantize_one(quantizer, writer, shapes, args, name, tensor, spec));
    } else {
      writer.put(name, tensor.bytes);
    }
  }
  writer.commit();
  if (args.style == ReportStyle::json) {
    print_json(report_json(args, spec, runner.table(), reports, file));
  } else {
    print(report_text(args, spec, runner.table(), reports, file));
  }
  return kOk;
}

}  // namespace

std::function<int()> add_quantize(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("IN", args->input, "safetensors file; 2-D [M,K] and 3-D [E,M,K] float tensors are quantized")
      ->required();
  app.add_option("-o,--output", args->output,
                 "safetensors file: T.codes, T.block_scales, T.outer_scale, T.amax")
      ->required();
  add_quant_options(app, args->quant);
  app.add_option("--seed", args->seed, "of stochastic rounding")->capture_default_str();
  app.add_flag("--columnwise", args->columnwise, "also the transpose, quantized on its own: T.columnwise.*");
  app.add_flag("--rht", args->rht, "rotate the columnwise half (16-point Hadamard)");
  app.add_flag("--dequantize", args->dequantize, "also the decoded values: T.dequantized");
  add_runner_options(app, args->runner);
  add_json_flag(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli
