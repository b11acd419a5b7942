// minite sweep: every format on a file's tensors or on synthetic data, beside the figures of the technical
// report.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/sweep_rows.h"
#include "cli/verb.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/utf8.h"
#include "diagnostics/published.h"
#include "diagnostics/svg.h"
#include "diagnostics/synthetic.h"

namespace minite::cli {
namespace {

using diagnostics::PublishedTable;
using diagnostics::RankedFormat;
using nlohmann::ordered_json;

struct Args {
  std::string file, svg;
  std::vector<std::string> synthetic;
  double sigma = 1.86;
  int64_t rows = 256, cols = 1024;
  uint64_t seed = 0;
  RunnerOptions runner;
  ReportStyle style = ReportStyle::text;
};

/// One set of data and what every format made of it.
struct Sweep {
  std::string title;   ///< "normal, sigma 1.86, 256 x 1024, seed 0"
  std::string column;  ///< short, for a table of several
  int64_t tensors = 0;
  std::vector<std::string> left_out;  ///< tensors of the file that are not float matrices
  std::vector<SweepRow> rows;
};

Sweep sweep_file(const Args& args, OpRunner& runner) {
  const io::SafetensorsFile file(args.file);
  Sweep sweep{args.file, "file", 0, {}, {}};
  SweepSums sums(runner);
  for (const auto& [name, tensor] : file.tensors()) {
    const bool usable = io::is_wide_float(tensor.type) && is_matrix(tensor.shape) && tensor.count() > 0;
    if (usable) {
      sums.add({name, io::load_floats(tensor), matrix_shape(tensor.shape)});
    } else {
      sweep.left_out.push_back(name);
    }
  }
  require(sums.tensors() > 0, "{} has no 2-D or 3-D tensor of F64, F32, F16 or BF16 to sweep", args.file);
  sweep.tensors = sums.tensors();
  sweep.rows = sums.rows();
  return sweep;
}

Sweep sweep_synthetic(const Args& args, const std::string& name, OpRunner& runner) {
  const diagnostics::Distribution& source = diagnostics::distribution(name);
  SweepTensor tensor{name,
                     {Buffer(args.rows * args.cols * int64_t{sizeof(float)}), DType::f32, 0},
                     {1, args.rows, args.cols}};
  fill(source, static_cast<float>(args.sigma), args.seed, args.cols,
       {reinterpret_cast<float*>(tensor.values.memory.data()), static_cast<size_t>(args.rows * args.cols)});
  SweepSums sums(runner);
  sums.add(tensor);
  return {fmt::format("{}, sigma {}, {} x {}, seed {}", name, args.sigma, args.rows, args.cols, args.seed),
          name,
          1,
          {},
          sums.rows()};
}

/// The report's tables that speak of such data.
std::vector<const PublishedTable*> published_for(const Args& args) {
  if (!args.file.empty()) return {&diagnostics::published_real_inputs()};
  std::vector<const PublishedTable*> tables;
  for (const PublishedTable& table : diagnostics::published_batches()) tables.push_back(&table);
  return tables;
}

/// Whether the report's figures are about formats like this one: simulated, no outer scale.
bool comparable(const SweepRow& row) { return format(row.spec.format).simulated; }

// --- order -----------------------------------------------------------------------------------------

struct Ranking {
  const PublishedTable* table;
  std::vector<RankedFormat> ours, theirs;
  std::vector<std::pair<std::string, std::string>> differing;
};

Ranking rank(const std::vector<SweepRow>& rows, const PublishedTable& table) {
  Ranking ranking{&table, {}, {}, {}};
  for (const SweepRow& row : rows) {
    const auto* published = table.find(row.element, row.scale);
    if (!comparable(row) || published == nullptr) continue;
    const std::string element(row.element), scale(row.scale);
    ranking.ours.push_back({element, scale, row.snr_db});
    ranking.theirs.push_back({element, scale, published->snr_db});
  }
  ranking.ours = diagnostics::ranked(std::move(ranking.ours));
  ranking.theirs = diagnostics::ranked(std::move(ranking.theirs));
  ranking.differing = pairs_in_another_order(ranking.ours, ranking.theirs);
  return ranking;
}

std::string verdict(const Ranking& ranking) {
  if (ranking.differing.empty()) return "the order is the report's";
  std::string text = "the report has the other order for";
  for (size_t i = 0; i < ranking.differing.size(); ++i)
    text +=
        fmt::format("{} {} > {}", i == 0 ? "" : ",", ranking.differing[i].first, ranking.differing[i].second);
  return text;
}

std::string order_lines(const Sweep& sweep, const Args& args) {
  std::string text;
  for (const PublishedTable* table : published_for(args)) {
    const Ranking ranking = rank(sweep.rows, *table);
    text +=
        fmt::format("\norder by mean SNR, {} ({})\n  here    {}\n  report  {}\n  {}\n", table->name,
                    table->source, order_text(ranking.ours), order_text(ranking.theirs), verdict(ranking));
  }
  return text;
}

// --- text ------------------------------------------------------------------------------------------

/// "19.62 / 20.17": the report's figures of every table that has one; "" when none has.
template <class Field>
std::string published_text(const SweepRow& row, const std::vector<const PublishedTable*>& tables,
                           const Field& field, int decimals) {
  std::string text;
  for (const PublishedTable* table : tables) {
    const auto* published = comparable(row) ? table->find(row.element, row.scale) : nullptr;
    if (published == nullptr || std::isnan(field(*published))) continue;
    text += (text.empty() ? "" : " / ") + fmt::format("{:.{}f}", field(*published), decimals);
  }
  return text;
}

std::string spec_name(const SweepRow& row) {
  const Format& format_row = format(row.spec.format);
  return format_row.outer_scale ? fmt::format("{}, outer {}", format_row.name, to_string(row.spec.outer))
                                : std::string(format_row.name);
}

std::string one_table(const Sweep& sweep, const Args& args) {
  const auto tables = published_for(args);
  const bool real = !args.file.empty();
  std::vector<std::string> headers = {"format", "element",     "scale",          "SNR dB", "worst SNR dB",
                                      "MAE",    "relative L2", "report: SNR dB", "MAE"};
  if (real) headers.insert(headers.end(), {"worst SNR dB", "relative L2"});
  Table table(std::move(headers));
  for (const SweepRow& row : sweep.rows) {
    const auto published = [&](auto field, int decimals) {
      return published_text(row, tables, field, decimals);
    };
    std::vector<std::string> cells = {spec_name(row),
                                      std::string(row.element),
                                      std::string(row.scale),
                                      fixed_text(row.snr_db),
                                      fixed_text(row.worst_snr_db),
                                      fixed_text(row.mae, 6),
                                      fixed_text(row.relative_l2, 5),
                                      published([](const auto& p) { return p.snr_db; }, 2),
                                      published([](const auto& p) { return p.mae; }, 6)};
    if (real) {
      cells.push_back(published([](const auto& p) { return p.worst_snr_db; }, 2));
      cells.push_back(published([](const auto& p) { return p.relative_l2; }, 5));
    }
    table.add(std::move(cells));
  }
  return args.style == ReportStyle::markdown ? table.to_markdown() : table.to_text();
}

/// Several data side by side, without the report's figures.
std::string wide_table(const std::vector<Sweep>& sweeps, const Args& args) {
  std::vector<std::string> headers = {"format", "element", "scale"};
  for (const Sweep& sweep : sweeps) headers.insert(headers.end(), {sweep.column + ": relative L2", "SNR dB"});
  Table table(std::move(headers));
  for (size_t i = 0; i < sweeps.front().rows.size(); ++i) {
    const SweepRow& first = sweeps.front().rows[i];
    std::vector<std::string> cells = {spec_name(first), std::string(first.element), std::string(first.scale)};
    for (const Sweep& sweep : sweeps)
      cells.insert(cells.end(), {fixed_text(sweep.rows[i].relative_l2, 5), fixed_text(sweep.rows[i].snr_db)});
    table.add(std::move(cells));
  }
  return args.style == ReportStyle::markdown ? table.to_markdown() : table.to_text();
}

std::string to_text(const std::vector<Sweep>& sweeps, const Args& args) {
  if (sweeps.size() > 1) return wide_table(sweeps, args);
  const Sweep& sweep = sweeps.front();
  if (args.style == ReportStyle::markdown) return one_table(sweep, args);
  std::string text =
      fmt::format("{}: {} tensor{}\n\n{}{}", sweep.title, sweep.tensors, sweep.tensors == 1 ? "" : "s",
                  one_table(sweep, args), order_lines(sweep, args));
  for (const std::string& name : sweep.left_out)
    text += fmt::format("{}left out: {} (not a float matrix, or empty)\n",
                        &name == &sweep.left_out.front() ? "\n" : "", printable(name));
  return text;
}

// --- JSON and SVG ----------------------------------------------------------------------------------

ordered_json row_json(const SweepRow& row, const std::vector<const PublishedTable*>& tables) {
  ordered_json json = {{"element", row.element}, {"scale", row.scale}};
  set_number(json, "snr_db", row.snr_db);
  set_number(json, "worst_snr_db", row.worst_snr_db);
  set_number(json, "mae", row.mae);
  set_number(json, "relative_l2", row.relative_l2);
  json["format"] = format(row.spec.format).name;
  json["outer"] = to_string(row.spec.outer);
  ordered_json published = ordered_json::array();
  for (const PublishedTable* table : tables) {
    const auto* found = comparable(row) ? table->find(row.element, row.scale) : nullptr;
    if (found == nullptr) continue;
    ordered_json figures = {{"table", table->name}, {"snr_db", found->snr_db}, {"mae", found->mae}};
    if (!std::isnan(found->worst_snr_db)) figures["worst_snr_db"] = found->worst_snr_db;
    if (!std::isnan(found->relative_l2)) figures["relative_l2"] = found->relative_l2;
    published.push_back(std::move(figures));
  }
  json["report"] = std::move(published);
  return json;
}

ordered_json names_of(const std::vector<RankedFormat>& formats) {
  ordered_json names = ordered_json::array();
  for (const RankedFormat& row : formats) names.push_back(row.element + "+" + row.scale);
  return names;
}

ordered_json to_json(const Sweep& sweep, const Args& args) {
  ordered_json document = {{"data", sweep.title},
                           {"tensors", sweep.tensors},
                           {"left_out", sweep.left_out},
                           {"rows", ordered_json::array()},
                           {"order", ordered_json::array()}};
  const auto tables = published_for(args);
  for (const SweepRow& row : sweep.rows) document["rows"].push_back(row_json(row, tables));
  for (const PublishedTable* table : tables) {
    const Ranking ranking = rank(sweep.rows, *table);
    document["order"].push_back({{"table", table->name},
                                 {"here", names_of(ranking.ours)},
                                 {"report", names_of(ranking.theirs)},
                                 {"same", ranking.differing.empty()}});
  }
  return document;
}

/// Bars of mean SNR, ours above the report's.
std::string to_svg(const std::vector<Sweep>& sweeps, const Args& args) {
  diagnostics::BarFigure figure{"sweep-snr",
                                "Signal-to-noise ratio by format",
                                "Mean SNR in dB of every format; longer bars are better.",
                                960,
                                {}};
  const auto bar = [](const std::string& label, double snr, const std::string& from, int color) {
    const std::string text = fixed_text(snr) + (std::isfinite(snr) ? " dB" : "") + from;
    return diagnostics::Bar{label, std::isfinite(snr) && snr > 0 ? snr : 0, text, color};
  };
  for (const Sweep& sweep : sweeps) {
    diagnostics::BarGroup group{sweep.title, {}};
    for (const SweepRow& row : sweep.rows) {
      group.bars.push_back(bar(spec_name(row), row.snr_db, "", 0));
      if (sweeps.size() > 1 || !comparable(row)) continue;
      for (const PublishedTable* table : published_for(args)) {
        if (const auto* found = table->find(row.element, row.scale))
          group.bars.push_back(bar("report", found->snr_db, fmt::format(" ({})", table->source), 1));
      }
    }
    figure.groups.push_back(std::move(group));
  }
  return diagnostics::standalone_svg(diagnostics::draw(figure));
}

int run(const Args& args) {
  require(args.file.empty() != args.synthetic.empty(),
          "name a safetensors file, or --synthetic with a distribution, and not both");
  require(std::isfinite(args.sigma) && args.sigma > 0, "--sigma {}: expected a number above 0", args.sigma);
  require(args.rows <= (int64_t{1} << 32) / args.cols, "--rows {} --cols {}: at most 2^32 values", args.rows,
          args.cols);
  OpRunner runner(args.runner);
  std::vector<Sweep> sweeps;
  if (!args.file.empty()) sweeps.push_back(sweep_file(args, runner));
  for (const std::string& name : args.synthetic) sweeps.push_back(sweep_synthetic(args, name, runner));
  if (!args.svg.empty()) write_file_atomically(args.svg, to_svg(sweeps, args));
  if (args.style != ReportStyle::json) {
    print(to_text(sweeps, args));
    return kOk;
  }
  ordered_json document = to_json(sweeps.front(), args);
  for (size_t i = 1; i < sweeps.size(); ++i) document["more"].push_back(to_json(sweeps[i], args));
  print_json(document);
  return kOk;
}

}  // namespace

std::function<int()> add_sweep(CLI::App& app) {
  auto args = std::make_shared<Args>();
  app.add_option("FILE", args->file, "safetensors file of activations or weights; 2-D and 3-D float tensors");
  std::vector<std::string_view> names;
  for (const auto& row : diagnostics::distributions()) names.push_back(row.name);
  app.add_option("--synthetic", args->synthetic,
                 fmt::format("{}; several with commas make one table", fmt::join(names, ", ")))
      ->delimiter(',');
  app.add_option("--sigma", args->sigma, "standard deviation of the synthetic data")->capture_default_str();
  app.add_option("--rows", args->rows, "of the synthetic data")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--cols", args->cols, "of the synthetic data")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32));
  app.add_option("--seed", args->seed, "of the synthetic data")->capture_default_str();
  app.add_option("--svg", args->svg, "also a figure of the SNR, as a file of its own");
  add_runner_options(app, args->runner);
  add_style_flags(app, args->style);
  return [args] { return run(*args); };
}

}  // namespace minite::cli
