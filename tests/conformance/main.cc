// longstream-conformance: checks a backend plugin against the ABI.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "tests/conformance/kit.h"

namespace {

constexpr int kMostFailures = 100;
constexpr int kUsageError = 101;

constexpr char kUsage[] =
    "usage: longstream-conformance PLUGIN.so MODEL_DIR [--options JSON] [--other-model DIR]\n"
    "                              [--tolerance T] [--only PREFIX]...\n"
    "Checks a backend plugin against the backend ABI; prints one line per check.\n"
    "  --options JSON     load-time options of the model, {} by default\n"
    "  --other-model DIR  a model of the same backend with other weights, to check that its\n"
    "                     snapshots are refused; not needed if MODEL_DIR has a .safetensors file,\n"
    "                     of which the kit makes a changed copy\n"
    "  --tolerance T      largest accepted difference of logits between cuts of a prefill, in\n"
    "                     standard deviations of a row; 0.001 by default\n"
    "  --only PREFIX      run only checks whose names begin like this, among those that open the\n"
    "                     model; may be repeated\n"
    "Exit code: the number of failed checks, 100 at most; 101: wrong usage.\n";

}  // namespace

int main(int argc, char** argv) {
  longstream::conformance::Target target;
  target.options = "{}";
  int num_positional = 0;
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* flag) { return std::strcmp(argv[i], flag) == 0; };
    if (is("--help")) {
      std::cout << kUsage;
      return 0;
    }
    if (argv[i][0] != '-') {
      (num_positional++ == 0 ? target.plugin : target.model) = argv[i];
      continue;
    }
    const bool known = is("--options") || is("--other-model") || is("--tolerance") || is("--only");
    if (!known || i + 1 == argc) {
      std::cerr << (known ? "no value after " : "unknown flag ") << argv[i] << "\n" << kUsage;
      return kUsageError;
    }
    if (is("--options")) target.options = argv[i + 1];
    if (is("--other-model")) target.other_model = argv[i + 1];
    if (is("--only")) target.only.emplace_back(argv[i + 1]);
    if (is("--tolerance")) target.tolerance = std::atof(argv[i + 1]);
    ++i;
  }
  if (num_positional != 2 || !(target.tolerance > 0)) {
    std::cerr << kUsage;
    return kUsageError;
  }
  return std::min(longstream::conformance::RunConformance(target, std::cout), kMostFailures);
}
