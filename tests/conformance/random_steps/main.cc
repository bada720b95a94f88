// random_steps: runs the same random steps on two plugins and compares their results.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "tests/conformance/model.h"
#include "tests/conformance/plugin_file.h"
#include "tests/conformance/random_steps/random_steps.h"
#include "tests/conformance/report.h"
#include "tests/conformance/test_host.h"

namespace longstream::conformance {
namespace {

constexpr char kUsage[] =
    "usage: random_steps PLUGIN.so REFERENCE_PLUGIN.so MODEL_DIR [--options JSON] [--steps N]\n"
    "                    [--sequences N] [--seed S] [--tolerance T]\n"
    "Opens MODEL_DIR with both plugins, runs the same random steps with forks and truncations, "
    "and\n"
    "compares logits, greedy tokens and positions.\n"
    "  --options JSON  load-time options of the model, by default f32 weights and caches\n"
    "  --steps N       1000 by default\n"
    "  --sequences N   16 by default\n"
    "  --seed S        1 by default\n"
    "  --tolerance T   largest accepted difference of logits, in standard deviations of a row;\n"
    "                  0.0001 by default\n"
    "Exit code: 0; 1 if the plugins differ or a call fails; 2: wrong usage.\n";

enum ExitCode { kSame = 0, kDifferent = 1, kUsageError = 2 };

struct Arguments {
  std::vector<std::string> paths;  // the two plugins and the model
  std::string options = R"({"weights": "f32", "cache": "f32", "context_limit": 400})";
  RandomSteps settings;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  RandomSteps& settings = arguments->settings;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') {
      arguments->paths.emplace_back(argv[i]);
      continue;
    }
    if (i + 1 == argc) return false;
    const auto is = [&](const char* flag) { return std::strcmp(argv[i], flag) == 0; };
    const char* const value = argv[i + 1];
    if (is("--options")) {
      arguments->options = value;
    } else if (is("--steps")) {
      settings.steps = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (is("--sequences")) {
      settings.sequences = static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
    } else if (is("--seed")) {
      settings.seed = std::strtoull(value, nullptr, 10);
    } else if (is("--tolerance")) {
      settings.tolerance = std::atof(value);
    } else {
      return false;
    }
    ++i;
  }
  return arguments->paths.size() == 3 && settings.steps > 0 && settings.sequences > 0 &&
         settings.tolerance > 0;
}

const ls_backend& TableOf(const PluginFile& plugin, const std::string& path) {
  if (plugin.backend() == nullptr) throw CheckFailed{path + ": no plugin"};
  return *plugin.backend();
}

int Run(const Arguments& arguments) {
  const PluginFile tested(arguments.paths[0]);
  const PluginFile reference(arguments.paths[1]);
  const TestHost host(2);
  OpenOptions options;
  options.options = arguments.options;
  options.cache_bytes_budget = uint64_t{256} << 20;
  options.max_batch_tokens = 100 * arguments.settings.sequences;
  options.max_batch_sequences = arguments.settings.sequences;
  Model model(TableOf(tested, arguments.paths[0]), arguments.paths[2], options, host);
  Model expected(TableOf(reference, arguments.paths[1]), arguments.paths[2], options, host);
  const RandomStepsResult result = RunRandomSteps(model, expected, arguments.settings);
  if (!host.misuse().empty()) throw CheckFailed{"host: " + host.misuse()};
  std::cout << arguments.settings.steps << " steps on " << model.info().kernels << " and "
            << expected.info().kernels << " kernels: " << result.rows << " rows of logits and "
            << result.sampled << " greedy tokens agree, " << result.decode_steps
            << " steps of decode rows, " << result.forks << " forks, " << result.truncations
            << " truncations, " << result.restarts << " restarts; largest difference "
            << result.largest_difference << "\n";
  if (result.rows == 0 || result.decode_steps == 0 || result.sampled == 0 || result.forks == 0 ||
      result.truncations == 0) {
    throw CheckFailed{"a kind of action did not occur: more steps are needed"};
  }
  return kSame;
}

}  // namespace
}  // namespace longstream::conformance

int main(int argc, char** argv) {
  using namespace longstream::conformance;
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::cerr << kUsage;
    return kUsageError;
  }
  try {
    return Run(arguments);
  } catch (const CheckFailed& failure) {
    std::cerr << "random_steps: " << failure.why << "\n";
  } catch (const std::exception& error) {
    std::cerr << "random_steps: " << error.what() << "\n";
  }
  return kDifferent;
}
