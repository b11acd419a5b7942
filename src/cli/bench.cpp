// minite bench: this machine's kernels beside their rivals, and what looking at a learner costs, with the
// targets of the project.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/bench/device.h"
#include "cli/bench/learner.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/cpu.h"
#include "core/fail.h"
#include "minite/version.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kWhat[] = {"kernels", "learner"};
constexpr const char* kDevices[] = {"cpu", "cuda"};

struct BenchArgs {
  std::string what = "kernels", device = "cpu";
  BenchOptions options;
  bool check = false;
  ReportStyle style = ReportStyle::text;
};

std::string features(const CpuInfo& cpu) {
  std::string text;
  for (const CpuFeature& feature : cpu.features()) {
    if (feature.present) text += (text.empty() ? "" : " ") + std::string(feature.name);
  }
  return text;
}

std::string range(const Spread& s) {
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", s.median, s.least, s.most);
}
/// Of pairs: the median and its interval.
std::string ratio_text(const BenchRow& row) {
  if (!row.compared()) return "-";
  if (!row.paired) return range(row.ratio);
  const MedianInterval& r = row.paired->ratio;
  return fmt::format("{:.4f} ({:.4f}-{:.4f})", r.median, r.low, r.high);
}
std::string figure(double value) { return value == 0 ? "-" : fmt::format("{:.2f}", value); }

/// The names, or what stands for none.
std::string list(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::string to_text(const BenchTable& table, const CpuInfo& cpu, ReportStyle style) {
  Table rows({"name", "problem", "ours", "unit", "ratio", "against", fmt::format("of {}", table.bandwidth),
              "must", "aim", "reached"});
  for (const BenchRow& row : table.rows) {
    rows.add({row.name, row.problem, range(row.ours), row.unit, ratio_text(row),
              row.absent() ? std::string(rival_name(row.rival)) : row.against, figure(row.ceiling),
              figure(row.must), figure(row.aim), std::string(row.verdict())});
  }
  if (style == ReportStyle::markdown) return rows.to_markdown();
  std::string text = fmt::format("minite {}, {}, {} cores, {}\n{}", MINITE_VERSION_STRING, cpu.model,
                                 cpu.cores, features(cpu), table.backend);
  if (table.threads > 0) text += fmt::format(", {} threads", table.threads);
  if (table.bandwidth_gbs.median > 0)
    text += fmt::format("; rivals: {}; {} {} GB/s", list(table.rivals), table.bandwidth,
                        range(table.bandwidth_gbs));
  text += "\n\n";
  text += rows.to_text();
  for (const std::string& note : table.notes) text += "note: " + note + "\n";
  return text;
}

ordered_json to_json(const BenchRow& row) {
  const auto number = [](double value) { return value == 0 ? ordered_json(nullptr) : ordered_json(value); };
  ordered_json json = {{"name", row.name},
                       {"problem", row.problem},
                       {"ratio", number(row.ratio.median)},
                       {"ratio_min", number(row.ratio.least)},
                       {"ratio_max", number(row.ratio.most)},
                       {"ours", row.ours.median},
                       {"ours_min", row.ours.least},
                       {"ours_max", row.ours.most},
                       {"theirs", number(row.theirs.median)},
                       {"against", row.against},
                       {"rival", rival_name(row.rival)},
                       {"unit", row.unit},
                       {"ceiling_fraction", number(row.ceiling)},
                       {"must", number(row.must)},
                       {"aim", number(row.aim)},
                       {"reached", row.verdict()}};
  if (!row.paired) return json;
  const auto interval = [](const MedianInterval& m) { return ordered_json{m.low, m.high}; };
  json["pairs"] = row.paired->pairs;
  json["clock"] = row.paired->clock;
  json["ratio_interval"] = interval(row.paired->ratio);
  json["ratio_wall"] = row.paired->wall.median;
  json["ratio_wall_interval"] = interval(row.paired->wall);
  return json;
}

ordered_json to_json(const BenchTable& table, const CpuInfo& cpu, int rounds) {
  ordered_json out;
  out["machine"] = {{"cpu", cpu.model},
                    {"cores", cpu.cores},
                    {"features", features(cpu)},
                    {"threads", table.threads},
                    {"backend", table.backend},
                    {"minite", MINITE_VERSION_STRING},
                    {"rivals", table.rivals},
                    {"rounds", rounds},
                    {fmt::format("{}_gbs", table.bandwidth),
                     {table.bandwidth_gbs.median, table.bandwidth_gbs.least, table.bandwidth_gbs.most}}};
  out["notes"] = table.notes;
  out["rows"] = ordered_json::array();
  for (const BenchRow& row : table.rows) out["rows"].push_back(to_json(row));
  return out;
}

int bench(const BenchArgs& args) {
  const bool on_device = args.device != kDevices[0];
  const auto progress = [](const std::string& name) {
    std::fprintf(stderr, "minite bench: %s\n", name.c_str());
  };
  const bool learner = args.what == kWhat[1];
  if (on_device && learner)
    fail(ErrorCode::unsupported, "bench learner --device {}: no learner runs on a device yet", args.device);
  const BenchTable table = on_device ? bench_device(args.options, progress)
                           : learner ? bench_learner(args.options, progress)
                                     : bench_kernels(args.options, progress);
  if (args.style == ReportStyle::json) {
    print_json(to_json(table, cpu_info(), args.options.rounds));
  } else {
    print(to_text(table, cpu_info(), args.style));
  }
  if (!args.check) return kOk;
  for (const BenchRow& row : table.rows) {
    if (row.below_must()) return kCheckFailed;
  }
  return kOk;
}

}  // namespace

std::function<int()> add_bench(CLI::App& app) {
  auto args = std::make_shared<BenchArgs>();
  app.add_option("what", args->what,
                 "What to measure: kernels, or learner: what probes and profiles cost a step")
      ->required()
      ->check(CLI::IsMember({kWhat[0], kWhat[1]}));
  app.add_option("--device", args->device, "Whose kernels: cpu or cuda")
      ->check(CLI::IsMember({kDevices[0], kDevices[1]}));
  app.add_option("--cublas", args->options.rivals.cublas_file,
                 "libcublas.so to compare the device with; without it, where the loader looks");
  app.add_option("--filter", args->options.filter, "Regular expression that names of rows must contain");
  app.add_option("--threads", args->options.threads, "Threads of both sides; 0: one a hardware thread")
      ->check(CLI::Range(0, 1024));
  app.add_option("--rounds", args->options.rounds, "Interleaved rounds; figures are medians over them")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--check", args->check, "Exit 1 when a row is below what it must reach");
  CLI::Option* none = app.add_flag("--no-rivals", args->options.rivals.none,
                                   "Open no library: our kernels alone in the process");
  app.add_option("--ggml", args->options.rivals.ggml_folder,
                 "Folder of libggml-base.so and libggml-cpu.so; without it, where the loader looks")
      ->excludes(none);
  add_style_flags(app, args->style);
  return [args] { return bench(*args); };
}

}  // namespace minite::cli
