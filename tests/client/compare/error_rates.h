// How often verdicts on random comparisons are wrong, or right.
#ifndef LONGSTREAM_TESTS_CLIENT_COMPARE_ERROR_RATES_H_
#define LONGSTREAM_TESTS_CLIENT_COMPARE_ERROR_RATES_H_

#include <cstddef>
#include <cstdint>

#include "client/compare/metric.h"
#include "tests/client/compare/noise_model.h"

namespace longstream::client {

struct SimulationOptions {
  size_t runs = 2000;
  size_t prompts = 20;
  uint32_t resamples = 1999;
  uint64_t seed = 1;
};

// Compares equal arms. Returns the part of the runs in which Holm's test found a difference in any
// metric, also where the verdict would be *equal within δ*.
double FalseDifferences(const SimulationOptions& options);

// Compares arms that differ by exactly δ in log-probability. Returns the part of the runs in which
// that metric was *equal within δ*.
double FalseEqualities(const SimulationOptions& options);

struct FoundEffect {
  double found = 0;         // the part of the runs in which the metric was *different*
  double mean_prompts = 0;  // of the comparisons
};

// Each run compares equal arms on options.prompts prompts and asks how many prompts would decide.
// Then it compares arms that differ by `planted` on that many new prompts. δ of `metric` is the
// planted effect.
FoundEffect FoundAtNamedPrompts(const SimulationOptions& options, Metric metric,
                                const PlantedEffects& planted);

// The same on options.prompts prompts.
FoundEffect FoundAtPrompts(const SimulationOptions& options, Metric metric,
                           const PlantedEffects& planted);

}  // namespace longstream::client

#endif  // LONGSTREAM_TESTS_CLIENT_COMPARE_ERROR_RATES_H_
