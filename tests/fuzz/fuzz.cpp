// fuzz TARGET SECONDS SEED FOLDER...: mutates the files of the folders and feeds them to a reader. Built with
// MINITE_FUZZ, which lets the library report the edges that an input takes: an input that takes a new one is
// kept and mutated further. The input that is being read lies in TARGET.current, also after a crash; one that
// takes too much heap or throws something else ends the run.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include "fuzz/targets.h"
#include "support/temp_folder.h"

namespace {

constexpr size_t kEdges = size_t{1} << 16, kMostBytes = size_t{1} << 18;
std::array<uint8_t, kEdges> g_edges;
thread_local uintptr_t g_last = 0;

}  // namespace

/// Called by instrumented code at every edge.
extern "C" void __sanitizer_cov_trace_pc() {
  const auto here = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  uint8_t& count = g_edges[((here >> 1) ^ g_last) % kEdges];
  if (count < 255) ++count;
  g_last = here >> 2;
}

namespace minite::fuzz {
namespace {

namespace fs = std::filesystem;
using Random = std::mt19937_64;

size_t below(Random& random, size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); }

/// One change: bits, bytes, numbers of one to eight bytes, digits, runs moved, doubled, cut or taken from
/// another input.
void mutate(std::string& s, const std::string& other, Random& random) {
  static constexpr uint64_t kNumbers[] = {0,      1,          0x7F,       0x80,          0xFF,
                                          0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, ~uint64_t{0},  uint64_t{1} << 63,
                                          32,     1 << 20,    0x41414141, 0x100000000ull};
  const size_t at = below(random, s.size() + 1), run = 1 + below(random, std::min<size_t>(64, s.size() + 1));
  switch (random() % 9) {
    case 0:
      if (at < s.size()) s[at] = static_cast<char>(s[at] ^ (1 << random() % 8));
      return;
    case 1:
      if (at < s.size()) s[at] = static_cast<char>(random());
      return;
    case 2: {
      const uint64_t number = kNumbers[below(random, std::size(kNumbers))] + random() % 3 - 1;
      const size_t width = size_t{1} << random() % 4;
      if (at + width <= s.size()) std::memcpy(s.data() + at, &number, width);
      return;
    }
    case 3:
      if (at < s.size()) s.erase(at, run);
      return;
    case 4:
      s.insert(at, s.substr(below(random, s.size() + 1), run));
      return;
    case 5:
      s.insert(at, other.substr(below(random, other.size() + 1), run));
      return;
    case 6:
      if (random() % 8 == 0) s.resize(at);
      return;
    case 7: {
      static constexpr std::string_view kWords[] = {
          "-",  "0",      "9",    "e999", "null", "[",   "{",
          "}",  "]",      "\"",   ",",    "\\u",  "NaN", "18446744073709551616",
          "-1", "1e-400", "true", "..",   "/"};
      s.insert(at, kWords[below(random, std::size(kWords))]);
      return;
    }
    default:
      for (size_t i = at; i < s.size() && i < at + 32; ++i) {
        if (s[i] >= '0' && s[i] <= '9') {
          s[i] = static_cast<char>('0' + random() % 10);
          return;
        }
      }
  }
}

/// A file whose bytes survive the process.
class Current {
 public:
  explicit Current(const fs::path& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ftruncate(file, kMostBytes + 8) != 0)
      throw std::runtime_error("cannot write " + path.string());
    memory_ = static_cast<char*>(mmap(nullptr, kMostBytes + 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }
  /// The length in 8 bytes, then the input.
  void show(const std::string& input) {
    const uint64_t size = input.size();
    std::memcpy(memory_, &size, 8);
    std::memcpy(memory_ + 8, input.data(), input.size());
  }

 private:
  char* memory_;
};

/// Whether the last input took an edge, or an edge so often (by powers of two), as none did before.
bool anything_new(std::array<uint8_t, kEdges>& seen) {
  bool found = false;
  for (size_t i = 0; i < kEdges; ++i) {
    if (g_edges[i] == 0) continue;
    uint8_t bucket = 1;
    for (unsigned n = g_edges[i]; n > 1; n /= 2) bucket = static_cast<uint8_t>(bucket << 1);
    if ((seen[i] & bucket) == 0) {
      seen[i] = static_cast<uint8_t>(seen[i] | bucket);
      found = true;
    }
  }
  return found;
}

int fuzz(const Target& target, double seconds, uint64_t seed, const std::vector<std::string>& seeds) {
  const test_support::TempFolder folder;
  Current current(std::string(target.name) + ".current");
  std::vector<std::string> corpus = seeds;
  static std::array<uint8_t, kEdges> seen{};
  Random random(seed);
  const auto begin = std::chrono::steady_clock::now();
  int64_t runs = 0, taken = 0;
  size_t next = 0;
  const auto left = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds;
  };
  for (; left(); ++runs) {
    std::string input = next < corpus.size() && runs < std::ssize(seeds)
                            ? corpus[next++]
                            : corpus[below(random, corpus.size())];
    if (runs >= std::ssize(seeds)) {
      for (size_t i = 1 + below(random, 6); i > 0; --i)
        mutate(input, corpus[below(random, corpus.size())], random);
    }
    if (input.size() > kMostBytes) input.resize(kMostBytes);
    current.show(input);
    g_edges.fill(0);
    const Result result = run(target, input, folder.path());
    taken += result.outcome == Outcome::taken ? 1 : 0;
    if (result.peak > most_heap(std::ssize(input))) {
      fmt::print("{}: {} bytes of heap for an input of {} bytes, in {}.current\n", target.name, result.peak,
                 input.size(), target.name);
      return 1;
    }
    if (anything_new(seen)) corpus.push_back(std::move(input));
  }
  fmt::print("{}: {} inputs in {:.0f} s, {} taken, corpus of {} grown to {}\n", target.name, runs, seconds,
             taken, seeds.size(), corpus.size());
  // The shortest of what was found, for the corpus in the tree.
  std::sort(corpus.begin() + static_cast<int64_t>(seeds.size()), corpus.end(),
            [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  fs::create_directories(std::string(target.name) + ".found");
  for (size_t i = seeds.size(); i < std::min(corpus.size(), seeds.size() + 40); ++i)
    test_support::spill(
        fs::path(std::string(target.name) + ".found") / fmt::format("{:03}", i - seeds.size()), corpus[i]);
  return 0;
}

}  // namespace
}  // namespace minite::fuzz

int main(int argc, char** argv) {
  using namespace minite::fuzz;
  if (argc < 5) {
    fmt::print(stderr, "usage: fuzz TARGET SECONDS SEED FOLDER...\n");
    return 2;
  }
  std::vector<std::string> seeds;
  for (int i = 4; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i]))
      seeds.push_back(minite::test_support::slurp(entry.path()));
  }
  if (seeds.empty()) seeds.emplace_back();
  return fuzz(target_named(argv[1]), std::stod(argv[2]), std::stoull(argv[3]), seeds);
}
