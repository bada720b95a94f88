// Runs the simulation of a fleet over seeds, or one seed with a trace.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "tests/fleet/simulation.h"

namespace {

constexpr char kUsage[] =
    "usage: ownership_simulation [--seeds N] [--first N]   run seeds, 20000 from 1 on\n"
    "       ownership_simulation --seed N                  run one seed and print each event\n";

struct Flags {
  uint64_t first = 1;
  uint64_t seeds = 20'000;
  bool trace = false;
};

// False: the arguments are wrong.
bool Parse(int argc, char** argv, Flags* flags) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    uint64_t value = 0;
    if (!absl::SimpleAtoi(argv[i + 1], &value)) return false;
    if (name == "--seed") {
      *flags = {.first = value, .seeds = 1, .trace = true};
    } else if (name == "--seeds") {
      flags->seeds = value;
    } else if (name == "--first") {
      flags->first = value;
    } else {
      return false;
    }
  }
  return argc % 2 == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  if (!Parse(argc, argv, &flags)) {
    std::cerr << kUsage;
    return EXIT_FAILURE;
  }
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  longstream::fleet::SimulationCounts counts;
  int failed = 0;
  for (uint64_t seed = flags.first; seed < flags.first + flags.seeds; ++seed) {
    const longstream::fleet::SimulationResult result =
        longstream::fleet::Simulate({.seed = seed, .trace = flags.trace});
    counts.Add(result.counts);
    if (result.error.empty()) continue;
    ++failed;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.error.c_str());
    if (failed == 10) break;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%llu seeds in %.1f s (%.0f a minute), %d failed\n%s\n",
              static_cast<unsigned long long>(flags.seeds), seconds,
              static_cast<double>(flags.seeds) * 60 / seconds, failed,
              longstream::fleet::Describe(counts).c_str());
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
