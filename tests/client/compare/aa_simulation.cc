// Simulates comparisons whose truth is known and prints how often verdicts are wrong, as a table.
// Fails if a bound is missed. Run by hand (a minute): build/release/tests/aa_simulation
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>

#include "tests/client/compare/error_rates.h"

namespace longstream::client {
namespace {

// Prints a row. Returns whether the bound is kept.
bool Row(const char* name, double prompts, double rate, double bound, bool at_most) {
  const bool kept = at_most ? rate <= bound : rate >= bound;
  std::printf("%-58s %7.0f  %.4f  %s %.3f%s\n", name, prompts, rate, at_most ? "<=" : ">=", bound,
              kept ? "" : "  MISSED");
  std::fflush(stdout);
  return kept;
}

bool Simulate(SimulationOptions options) {
  bool kept = true;
  const PlantedEffects log_prob = {std::log(0.99), 0};
  const PlantedEffects itl = {0, std::log(1.01)};
  std::printf("%-58s %7s\n", "", "prompts");
  for (const size_t prompts : {20, 50, 200}) {
    options.prompts = prompts;
    const double n = static_cast<double>(prompts);
    kept &= Row("A/A: any metric different", n, FalseDifferences(options), 0.065, true);
    kept &=
        Row("a difference of δ is called equal within δ", n, FalseEqualities(options), 0.065, true);
  }
  options.prompts = 20;
  FoundEffect found = FoundAtNamedPrompts(options, Metric::kLogProb, log_prob);
  kept &= Row("1 % of perplexity, prompts named after 20 (mean)", found.mean_prompts, found.found,
              0.8, false);
  found = FoundAtNamedPrompts(options, Metric::kItl, itl);
  kept &= Row("1 % of inter-token latency, prompts named after 20 (mean)", found.mean_prompts,
              found.found, 0.8, false);
  return kept;
}

}  // namespace
}  // namespace longstream::client

int main(int argc, char** argv) {
  longstream::client::SimulationOptions options;
  CLI::App app{"Simulates comparisons whose truth is known."};
  app.add_option("--runs", options.runs, "Simulated comparisons per row")->capture_default_str();
  app.add_option("--resamples", options.resamples, "Of each bootstrap")->capture_default_str();
  app.add_option("--seed", options.seed, "Of the noise")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return longstream::client::Simulate(options) ? 0 : 1;
}
