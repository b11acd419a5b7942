// minite convert SRC -o DST --to C: checkpoints of other projects, from BF16, to BF16, and from one to
// another.
#include "checkpoints/convert.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpoints/gguf_export.h"
#include "checkpoints/verify.h"
#include "cli/byte_size.h"
#include "cli/op_runner.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/verb.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "io/gguf.h"
#include "io/json_file.h"
#include "learn/gguf_import.h"
#include "minite/convention.h"
#include "minite/recipe.h"

namespace minite::cli {
namespace {

using checkpoints::Container;
using checkpoints::ConvertOptions;
using checkpoints::ConvertReport;
using checkpoints::Verification;
using nlohmann::ordered_json;

struct Args {
  std::string source, target, to, recipe, format, convention, activations, fused = "refuse", input_amax,
                                                                           shard_size = "5GB";
  std::vector<std::string> ignore;
  bool verify = false, no_tokenizer = false;
  RunnerOptions runner;
  ReportStyle style = ReportStyle::text;
};

/// {module: amax} of a JSON file.
std::map<std::string, float> read_input_amax(const std::string& path) {
  std::map<std::string, float> result;
  if (path.empty()) return result;
  const nlohmann::json document = io::read_json_file(path);
  require(document.is_object(), "--input-amax {}: expected an object of modules and numbers", path);
  for (const auto& [module, value] : document.items()) {
    require(value.is_number(), "--input-amax {}: {} is {}, expected a number", path, printable(module),
            printable(value.dump()));
    result[module] = value.get<float>();
  }
  return result;
}

/// How weights are quantized that are BF16 in the source.
QuantSpec weight_spec(const Args& args, Container to) {
  if (!args.recipe.empty()) {
    require(args.format.empty() && args.convention.empty(),
            "--recipe {} says format and convention; leave out --format and --convention", args.recipe);
    const QuantSpec spec = get_qlinear_params(args.recipe).fprop.b;
    require(spec.quantized(), "--recipe {} does not quantize weights; --to {} needs one that does",
            args.recipe, args.to);
    return spec;
  }
  const Format& row = format(args.format.empty() ? std::string_view("nvfp4") : args.format);
  QuantSpec spec;
  spec.format = row.id;
  spec.outer = row.outer_scale ? OuterScale::tensor : OuterScale::none;
  if (!args.convention.empty()) {
    spec.convention = parse_convention(args.convention);
  } else {
    // A GGUF file holds what ModelOpt makes, in another order.
    const Container maker = to == Container::gguf ? Container::modelopt : to;
    const auto* layout = checkpoints::find_layout(maker, spec.format, spec.outer);
    if (layout != nullptr) spec.convention = layout->convention;
  }
  spec.validate();
  return spec;
}

ConvertOptions options_of(const Args& args) {
  ConvertOptions options;
  options.to = checkpoints::parse_container(args.to);
  options.spec = weight_spec(args, options.to);
  if (!args.activations.empty()) options.activations = checkpoints::parse_activations(args.activations);
  options.ignore = args.ignore;
  options.fused = checkpoints::parse_fused_policy(args.fused);
  options.input_amax = read_input_amax(args.input_amax);
  options.shard_bytes = parse_byte_size("--shard-size", args.shard_size);
  return options;
}

// --- reports ---------------------------------------------------------------------------------------

std::map<std::string_view, int64_t> fate_counts(const ConvertReport& report) {
  std::map<std::string_view, int64_t> counts;
  for (const checkpoints::TensorFate& row : report.tensors) ++counts[to_string(row.fate)];
  return counts;
}

ordered_json error_json(const diagnostics::ErrorStats& error) {
  ordered_json row = {{"elements", error.count}};
  set_number(row, "relative_l2", error.relative_l2());
  set_number(row, "snr_db", error.snr_db());
  set_number(row, "mae", error.mae());
  return row;
}

ordered_json verification_json(const Verification& verification) {
  ordered_json rows = ordered_json::array(), faults = ordered_json::array();
  for (const checkpoints::VerifiedTensor& tensor : verification.tensors) {
    ordered_json row = {{"name", tensor.name}, {"quantized", tensor.quantized}};
    row.update(error_json(tensor.error));
    row["saturated"] = tensor.saturated;
    row["zero_scales"] = tensor.zero_scales;
    row["nan_scales"] = tensor.nan_scales;
    rows.push_back(std::move(row));
  }
  for (const checkpoints::Fault& fault : verification.faults)
    faults.push_back({{"tensor", fault.tensor}, {"what", fault.what}});
  return {{"tensors", rows}, {"quantized", error_json(verification.all)}, {"faults", faults}};
}

ordered_json report_json(const Args& args, const ConvertReport& report, const Verification* verification) {
  ordered_json document = {{"source", args.source},
                           {"target", args.target},
                           {"from", report.from},
                           {"to", report.to},
                           {"source_bytes", report.source_bytes},
                           {"bytes", report.bytes},
                           {"shards", report.shards},
                           {"kept_shards", report.kept_shards},
                           {"inexact_globals", report.inexact_globals},
                           {"fates", fate_counts(report)},
                           {"tensors", ordered_json::array()},
                           {"rescaled", ordered_json::array()},
                           {"files", report.files},
                           {"left_files", report.left_files}};
  for (const checkpoints::TensorFate& row : report.tensors)
    document["tensors"].push_back(
        {{"from", row.from}, {"to", row.to}, {"fate", to_string(row.fate)}, {"note", row.note}});
  for (const checkpoints::RescaleLoss& loss : report.rescaled)
    document["rescaled"].push_back({{"module", loss.module},
                                    {"ratio", loss.ratio},
                                    {"blocks", loss.blocks},
                                    {"underflows", loss.underflows},
                                    {"relative_l2", loss.relative_l2()}});
  document["verified"] = verification == nullptr ? ordered_json() : verification_json(*verification);
  return document;
}

std::string verification_text(const Verification& verification) {
  Table rows({"tensor", "relative L2", "SNR dB", "saturated", "zero scales", "NaN scales"});
  int64_t same = 0;
  for (const checkpoints::VerifiedTensor& tensor : verification.tensors) {
    if (!tensor.quantized && tensor.error.noise == 0) {
      ++same;
      continue;
    }
    rows.add({printable(tensor.name), number_text(tensor.error.relative_l2()),
              fixed_text(tensor.error.snr_db()), fmt::format("{}", tensor.saturated),
              fmt::format("{}", tensor.zero_scales), fmt::format("{}", tensor.nan_scales)});
  }
  std::string text =
      "\n" + rows.to_text() +
      fmt::format(
          "{} tensors are equal on both sides; the quantized ones together: relative "
          "L2 {}, SNR {} dB\n",
          same, number_text(verification.all.relative_l2()), fixed_text(verification.all.snr_db()));
  for (const checkpoints::Fault& fault : verification.faults)
    text += fmt::format("fault: \"{}\" {}\n", printable(fault.tensor), fault.what);
  return text;
}

std::string report_text(const Args& args, const ConvertReport& report, const Verification* verification) {
  std::string fates;
  for (const auto& [fate, count] : fate_counts(report))
    fates += fmt::format("{}{} {}", fates.empty() ? "" : ", ", count, fate);
  std::string text = fmt::format("{}: {} from {}, {} in {} shard{} (source: {}); {}\n", args.target,
                                 report.to, report.from, byte_text(report.bytes), report.shards,
                                 report.shards == 1 ? "" : "s", byte_text(report.source_bytes), fates);
  if (report.kept_shards > 0)
    text += fmt::format("{} shards were there from an interrupted conversion\n", report.kept_shards);
  if (report.inexact_globals > 0)
    text += fmt::format(
        "{} outer scales are not the reciprocal of what is stored for them; conversion.json keeps the "
        "originals, so that converting back gives them\n",
        report.inexact_globals);
  if (!report.rescaled.empty()) {
    Table rows({"rescaled", "ratio", "blocks", "underflows", "relative L2"});
    for (const checkpoints::RescaleLoss& loss : report.rescaled)
      rows.add({loss.module, number_text(loss.ratio), fmt::format("{}", loss.blocks),
                fmt::format("{}", loss.underflows), number_text(loss.relative_l2())});
    text += "\n" + rows.to_text();
  }
  for (const std::string& name : report.left_files) text += fmt::format("not copied: {}\n", printable(name));
  if (verification != nullptr) text += verification_text(*verification);
  return text;
}

int run(const Args& args) {
  const ConvertOptions options = options_of(args);
  const bool import = io::begins_as_gguf(args.source);
  if (import && options.to != Container::plain)
    fail(ErrorCode::unsupported,
         "{} is a GGUF file, which converts to bf16 only; convert the folder that comes out of it",
         args.source);
  require(!import || !args.verify, "--verify compares two folders, not one with a GGUF file");
  require(options.to != Container::gguf || !args.verify,
          "--verify compares two folders, not one with a GGUF file");
  OpRunner runner(args.runner);
  ConvertReport report;
  {
    ProgressBar bar("converting");
    const auto show = [&](int64_t done, int64_t total) { bar.show(done, total); };
    if (import) {
      report = learn::import_gguf(args.source, args.target, options.shard_bytes, show);
    } else if (options.to == Container::gguf) {
      report = checkpoints::export_gguf(
          runner.context(), args.source, args.target, options,
          args.no_tokenizer ? checkpoints::TokenizerPart::left_out : checkpoints::TokenizerPart::required,
          show);
    } else {
      report = checkpoints::convert(runner.context(), args.source, args.target, options, show);
    }
  }
  std::unique_ptr<Verification> verification;
  if (args.verify) {
    ProgressBar bar("verifying");
    verification = std::make_unique<Verification>(
        checkpoints::verify(runner.context(), args.source, args.target,
                            [&](int64_t done, int64_t total) { bar.show(done, total); }));
  }
  if (args.style == ReportStyle::json) {
    print_json(report_json(args, report, verification.get()));
  } else {
    print(report_text(args, report, verification.get()));
  }
  return verification != nullptr && !verification->faults.empty() ? kCheckFailed : kOk;
}

std::string container_help() {
  std::string text;
  for (const checkpoints::ContainerRow& row : checkpoints::containers())
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", row.name, row.purpose);
  return text;
}

}  // namespace

std::function<int()> add_convert(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("SRC", args->source,
                 "a Hugging Face folder, in BF16 or quantized; with --to bf16 also a GGUF file")
      ->required();
  app.add_option("-o,--output", args->target, "the folder to be made; it must not exist")->required();
  app.add_option("--to", args->to, container_help())->required();
  app.add_option("--recipe", args->recipe, "quantize weights as this recipe does: a sampler's bytes");
  app.add_option("--format", args->format, "of weights: nvfp4 (default), mxfp8, mxfp4; bf16 for a GGUF file");
  app.add_option("--convention", args->convention,
                 "whose arithmetic, of `minite formats --conventions` (default: that of --to)");
  app.add_option("--activations", args->activations,
                 "a4, a8, a16 (default: as the source; else what needs no calibration)");
  app.add_option("--input-amax", args->input_amax,
                 "JSON file {module: largest |x| of its input}, for activations with a calibrated scale");
  app.add_option("--ignore", args->ignore,
                 "leave these modules in BF16: a name, a pattern with *, or re:REGEX; may be repeated");
  app.add_option("--fused", args->fused,
                 "fused modules with unequal outer scales: refuse, rescale (block scales), keep")
      ->capture_default_str();
  app.add_option("--shard-size", args->shard_size, "largest shard, e.g. 500MB, 2GiB")->capture_default_str();
  app.add_flag("--no-tokenizer", args->no_tokenizer, "write a GGUF file without a tokenizer");
  app.add_flag("--verify", args->verify, "decode both sides and say how far they are apart");
  add_runner_options(app, args->runner);
  add_json_flag(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli
