#include "cli/bench/timing.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <thread>

namespace minite::cli {
namespace {

double now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

Spread spread(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

double seconds(const std::function<void()>& body, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  const double begin = now(clock);
  body();
  return now(clock) - begin;
}

Times times(const std::function<void()>& body) {
  const double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  body();
  return {now(CLOCK_PROCESS_CPUTIME_ID) - cpu, now(CLOCK_MONOTONIC) - wall};
}

int calls_for(const std::function<void()>& body, int threads) {
  body();
  const double once = seconds(body, threads);
  return std::clamp(static_cast<int>(0.05 / std::max(once, 1e-7)), 1, 100000);
}

double rate(const std::function<void()>& body, int calls, double work, int threads) {
  const auto repeated = [&] {
    for (int i = 0; i < calls; ++i) body();
  };
  return work * calls / seconds(repeated, threads);
}

bool settle() {
  constexpr int kTries = 200;
  constexpr double kPause = 0.01, kQuiet = 0.05 * kPause;  // seconds
  for (int i = 0; i < kTries; ++i) {
    const double before = now(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(std::chrono::duration<double>(kPause));
    if (now(CLOCK_PROCESS_CPUTIME_ID) - before < kQuiet) return true;
  }
  return false;
}

ReadProbe::ReadProbe(ThreadPool& pool) : pool_(pool), data_(int64_t{256} << 20) {
  auto* words = reinterpret_cast<uint64_t*>(data_.data());
  for (int64_t i = 0; i < data_.size() / 8; ++i) words[i] = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
}

double ReadProbe::operator()() {
  constexpr int64_t kPiece = 1 << 20;
  const auto read = [&](int64_t task, int) {
    const auto* p = reinterpret_cast<const uint64_t*>(data_.data() + task * kPiece);
    uint64_t sum[8] = {};
    for (int64_t i = 0; i < kPiece / 8; i += 8) {
      for (int j = 0; j < 8; ++j) sum[j] += p[i + j];
    }
    sink_ = sink_ + (sum[0] ^ sum[1] ^ sum[2] ^ sum[3] ^ sum[4] ^ sum[5] ^ sum[6] ^ sum[7]);
  };
  const double time = seconds([&] { pool_.parallel_for(data_.size() / kPiece, read); }, pool_.threads());
  return static_cast<double>(data_.size()) * 1e-9 / time;
}

}  // namespace minite::cli
