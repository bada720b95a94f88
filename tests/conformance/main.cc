// longstream-conformance: checks a backend plugin against the ABI.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "tests/conformance/kit.h"
#include "tests/conformance/target_list.h"

namespace {

constexpr int kMostFailures = 100;
constexpr int kUsageError = 101;
constexpr uint32_t kMostThreads = 64;

constexpr char kUsage[] =
    "usage: longstream-conformance PLUGIN.so MODEL_DIR [--options JSON] [--other-model DIR]\n"
    "                              [--tolerance T] [--prompts N] [--only PREFIX]...\n"
    "       longstream-conformance --list FILE [--threads N]\n"
    "Checks a backend plugin against the backend ABI; prints one line per check.\n"
    "  --options JSON     load-time options of the model, {} by default\n"
    "  --other-model DIR  a model of the same backend with other weights, to check that its\n"
    "                     snapshots are refused; not needed if MODEL_DIR has a .safetensors file,\n"
    "                     of which the kit makes a changed copy\n"
    "  --tolerance T      largest accepted difference of logits between cuts of a prefill: the\n"
    "                     root of its mean square, in standard deviations of a row; 0.0003 by\n"
    "                     default\n"
    "  --prompts N        how many prompts --tolerance judges together, 1 to 1000; 4 by default\n"
    "  --only PREFIX      run only checks whose names begin like this, among those that open the\n"
    "                     model; may be repeated\n"
    "  --list FILE        run many targets in N threads of one process, without the checks of "
    "what\n"
    "                     a process has. FILE has the arguments of a target in each line, divided\n"
    "                     by tabs\n"
    "Exit code: the number of failed checks, 100 at most; 101: wrong usage.\n";

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<longstream::conformance::Target> targets;
  std::string wrong;
  uint32_t num_threads = 1;
  if (!arguments.empty() && arguments[0] == "--help") {
    std::cout << kUsage;
    return 0;
  }
  const bool is_list = !arguments.empty() && arguments[0] == "--list";
  if (is_list) {
    if (arguments.size() == 4 && arguments[2] == "--threads") {
      num_threads = static_cast<uint32_t>(std::atoi(arguments[3].c_str()));
    } else if (arguments.size() != 2) {
      wrong = "expected --list FILE, or --list FILE --threads N";
    }
    if (wrong.empty() && (num_threads < 1 || num_threads > kMostThreads)) {
      wrong = "--threads must be from 1 to " + std::to_string(kMostThreads);
    }
    if (wrong.empty()) wrong = longstream::conformance::ReadTargets(arguments[1], &targets);
  } else {
    wrong = longstream::conformance::ParseTarget(arguments, &targets.emplace_back());
  }
  if (!wrong.empty()) {
    std::cerr << wrong << "\n" << kUsage;
    return kUsageError;
  }
  const int failures = is_list
                           ? longstream::conformance::RunTargets(targets, num_threads, std::cout)
                           : longstream::conformance::RunConformance(targets[0], std::cout);
  return std::min(failures, kMostFailures);
}
