// minite bench kernels: this machine's kernels beside their rivals, with the targets of the project.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/bench_kernels.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/cpu.h"
#include "core/fail.h"
#include "minite/version.h"

namespace minite::cli {
namespace {

using nlohmann::ordered_json;

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
std::string figure(double value) { return value == 0 ? "-" : fmt::format("{:.2f}", value); }

std::string verdict(const BenchRow& row) {
  if (!row.measured()) return "absent";
  if (row.must == 0) return "-";
  return !row.pass() ? "below must" : row.ratio.median >= row.aim ? "aim" : "must";
}

std::string to_text(const BenchTable& table, const CpuInfo& cpu, ReportStyle style) {
  Table rows({"kernel", "problem", "ours", "unit", "ratio", "against", "of read", "must", "aim", "reached"});
  for (const BenchRow& row : table.rows) {
    rows.add({row.name, row.problem, range(row.ours), row.unit, row.measured() ? range(row.ratio) : "-",
              row.against, figure(row.ceiling), figure(row.must), figure(row.aim), verdict(row)});
  }
  if (style == ReportStyle::markdown) return rows.to_markdown();
  std::string text = fmt::format("minite {}, {}, {} cores, {}\n{}, {} threads; rival: {}; read {} GB/s\n\n",
                                 MINITE_VERSION_STRING, cpu.model, cpu.cores, features(cpu), table.backend,
                                 table.threads, table.rival, range(table.read_gbs));
  text += rows.to_text();
  for (const std::string& note : table.notes) text += "note: " + note + "\n";
  return text;
}

ordered_json to_json(const BenchTable& table, const CpuInfo& cpu, int rounds) {
  const auto number = [](double value) { return value == 0 ? ordered_json(nullptr) : ordered_json(value); };
  ordered_json out;
  out["machine"] = {{"cpu", cpu.model},
                    {"cores", cpu.cores},
                    {"features", features(cpu)},
                    {"threads", table.threads},
                    {"backend", table.backend},
                    {"minite", MINITE_VERSION_STRING},
                    {"rival", table.rival},
                    {"rounds", rounds},
                    {"read_gbs", {table.read_gbs.median, table.read_gbs.least, table.read_gbs.most}}};
  out["notes"] = table.notes;
  out["rows"] = ordered_json::array();
  for (const BenchRow& row : table.rows) {
    const bool measured = row.measured();
    out["rows"].push_back({{"name", row.name},
                           {"problem", row.problem},
                           {"ratio", measured ? ordered_json(row.ratio.median) : ordered_json(nullptr)},
                           {"ratio_min", measured ? ordered_json(row.ratio.least) : ordered_json(nullptr)},
                           {"ratio_max", measured ? ordered_json(row.ratio.most) : ordered_json(nullptr)},
                           {"ours", row.ours.median},
                           {"ours_min", row.ours.least},
                           {"ours_max", row.ours.most},
                           {"theirs", number(row.theirs.median)},
                           {"against", row.against},
                           {"unit", row.unit},
                           {"ceiling_fraction", number(row.ceiling)},
                           {"must", number(row.must)},
                           {"aim", number(row.aim)},
                           {"reached", verdict(row)}});
  }
  return out;
}

int bench(const BenchArgs& args) {
  if (args.device != "cpu")
    fail(ErrorCode::unsupported, "bench --device {}: kernels of this build run on cpu only", args.device);
  const BenchTable table = bench_kernels(args.options, [](const std::string& name) {
    std::fprintf(stderr, "minite bench: %s\n", name.c_str());
  });
  if (args.style == ReportStyle::json) {
    print_json(to_json(table, cpu_info(), args.options.rounds));
  } else {
    print(to_text(table, cpu_info(), args.style));
  }
  if (!args.check) return kOk;
  for (const BenchRow& row : table.rows) {
    if (row.measured() && !row.pass()) return kCheckFailed;
  }
  return kOk;
}

}  // namespace

std::function<int()> add_bench(CLI::App& app) {
  auto args = std::make_shared<BenchArgs>();
  app.add_option("what", args->what, "What to measure: kernels")
      ->required()
      ->check(CLI::IsMember({"kernels"}));
  app.add_option("--device", args->device, "cpu")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--filter", args->options.filter, "Regular expression that names of kernels must contain");
  app.add_option("--threads", args->options.threads, "Threads of both sides; 0: one a hardware thread")
      ->check(CLI::Range(0, 1024));
  app.add_option("--rounds", args->options.rounds, "Interleaved rounds; figures are medians over them")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--check", args->check, "Exit 1 when a kernel is below what it must reach");
  add_style_flags(app, args->style);
  return [args] { return bench(*args); };
}

}  // namespace minite::cli
