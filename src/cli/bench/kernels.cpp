#include "cli/bench/kernels.h"

#include <fmt/format.h>

#include <cmath>

#include "backends/registry.h"
#include "backends/simd/isa_table.h"
#include "cli/bench/ours.h"
#include "core/cpu.h"
#include "core/fail.h"

namespace minite::cli {
namespace {

/// One goal of a kernel and what its rounds gave.
struct Contest {
  const Goal& goal;
  std::unique_ptr<RivalCall> call = nullptr;  ///< nullptr when the rival is no library or absent
  int calls = 0;
  std::vector<double> theirs = {}, ratios = {};
};

/// ||a - b|| / ||a||.
double relative_l2(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - b[i]) * (double(a[i]) - b[i]);
    size += double(a[i]) * a[i];
  }
  return std::sqrt(difference / size);
}

/// Two products of the same operands differ by what four bits lose, 9 to 14 %; more says that the two sides
/// do not compute the same thing.
constexpr double kSameProduct = 0.2;

/// What all kernels share.
struct Session {
  Rivals& rivals;
  ReadProbe probe;
  std::vector<double> reads = {};  ///< GB/s

  /// Lets the threads of a rival come to rest.
  void rest() {
    if (!settle())
      rivals.note("threads of a rival did not come to rest: what was timed after it is doubtful");
  }
};

/// Prepares a rival; drops it with a note when its product is not ours.
Contest prepare(const Goal& goal, const Ours& ours, Session& session) {
  Contest contest{goal};
  if (!is_library(goal.rival)) return contest;
  const Problem problem = ours.problem();
  contest.call = session.rivals.prepare(goal.rival, problem);
  if (contest.call == nullptr) return contest;
  contest.calls = calls_for([&] { contest.call->run(); }, problem.threads);
  session.rest();
  if (problem.w.rows == 0) return contest;
  const double difference = relative_l2(ours.product(), contest.call->product());
  if (!(difference < kSameProduct)) {
    session.rivals.note(fmt::format("{} is not measured: its product differs from ours by {:.3g} of our norm",
                                    contest.call->name, difference));
    contest.call.reset();
  }
  return contest;
}

/// What the rounds of one kernel gave.
struct Rounds {
  std::vector<double> ours, share;
};

/// One round: memory, we, every rival.
void run_round(Ours& ours, int our_calls, std::vector<Contest>& contests, Session& session, Rounds& rounds) {
  const int threads = ours.problem().threads;
  const double read = session.probe();
  session.reads.push_back(read);
  const double rate_of_ours = rate([&] { ours.run(); }, our_calls, ours.work(), threads);
  rounds.ours.push_back(rate_of_ours);
  rounds.share.push_back(rate_of_ours / ours.work() * ours.bytes() / read);
  for (Contest& contest : contests) {
    if (contest.goal.rival == RivalId::read_bandwidth) contest.theirs.push_back(read);
    if (contest.call != nullptr) {
      contest.theirs.push_back(rate([&] { contest.call->run(); }, contest.calls, ours.work(), threads));
      session.rest();
    }
    if (!contest.theirs.empty()) contest.ratios.push_back(rate_of_ours / contest.theirs.back());
  }
}

BenchRow row_of(const Spec& spec, const Ours& ours, const Rounds& rounds, const Contest& contest) {
  BenchRow row;
  row.name = spec.name;
  row.problem = ours.description();
  row.unit = unit_of(spec.job);
  row.rival = contest.goal.rival;
  row.against = contest.call != nullptr ? contest.call->name
                : is_library(row.rival) ? "absent"
                                        : std::string(rival_name(row.rival));
  row.ours = spread(rounds.ours);
  row.theirs = spread(contest.theirs);
  row.ratio = spread(contest.ratios);
  row.ceiling = spread(rounds.share).median;
  if (contest.goal.threads == 0 || contest.goal.threads == ours.problem().threads) {
    row.must = contest.goal.must;
    row.aim = contest.goal.aim;
  }
  return row;
}

/// The rows of one kernel.
std::vector<BenchRow> measure(const Spec& spec, Ours& ours, int rounds, Session& session) {
  const int our_calls = calls_for([&] { ours.run(); }, ours.problem().threads);
  std::vector<Contest> contests;
  for (const Goal& goal : spec.goals) contests.push_back(prepare(goal, ours, session));
  Rounds result;
  for (int round = 0; round < rounds; ++round) run_round(ours, our_calls, contests, session, result);
  std::vector<BenchRow> rows;
  for (const Contest& contest : contests) rows.push_back(row_of(spec, ours, result, contest));
  return rows;
}

}  // namespace

std::string_view BenchRow::verdict() const {
  if (absent()) return "absent";
  if (must == 0) return "-";
  if (below_must()) return "below must";
  if (paired && (!paired->ratio.known || paired->ratio.low < must)) return "unsure";
  return aim != 0 && judged() >= aim ? "aim" : "must";
}

BenchTable bench_kernels(const BenchOptions& options,
                         const std::function<void(const std::string&)>& progress) {
  require(options.rounds >= 1, "--rounds {}: at least 1", options.rounds);
  const std::vector<Spec> specs = chosen(options.filter);
  BenchTable table;
  table.threads = options.threads == 0 ? cpu_info().hardware_threads : options.threads;
  table.backend = backend("auto").name;
  Rivals rivals(options.rivals);
  ThreadPool pool(table.threads);
  Session session{rivals, ReadProbe(pool)};
  for (const Spec& spec : specs) {
    const bool only_avx2 = spec.level == std::string_view("avx2");
    if (only_avx2 && !has_simd(cpu_info(), SimdLevel::avx2)) continue;
    progress(spec.name);
    Ours ours(spec, only_avx2 ? simd::avx2::table() : backend("auto"),
              spec.threads == 0 ? table.threads : spec.threads);
    for (BenchRow& row : measure(spec, ours, options.rounds, session)) table.rows.push_back(std::move(row));
  }
  table.bandwidth_gbs = spread(session.reads);
  table.rivals = rivals.names();
  table.notes = rivals.notes();
  if (table.bandwidth_gbs.most > 1.3 * table.bandwidth_gbs.least)
    table.notes.push_back("memory bandwidth drifted by more than 30 %: other work shares this machine");
  return table;
}

}  // namespace minite::cli
