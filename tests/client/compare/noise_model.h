// Random comparisons whose truth is known, to check how often verdicts are wrong.
#ifndef LONGSTREAM_TESTS_CLIENT_COMPARE_NOISE_MODEL_H_
#define LONGSTREAM_TESTS_CLIENT_COMPARE_NOISE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <random>

#include "client/compare/observations.h"

namespace longstream::client {

// The differences of the other arm. All 0: two arms of the same kind (A/A).
struct PlantedEffects {
  double log_prob = 0;  // per token, nats; -0.01 is 1 % of perplexity
  double log_itl = 0;   // logarithm of the ratio; 0.01 is 1 % of the latency between tokens
};

// Two arms on `prompts` prompts with 32 forced tokens each. A real A/A comparison is equal to the
// bit; this one has noise, drawn for both arms from the same distribution:
// - a prompt is hard or easy for both arms; each arm deviates by an amount per prompt and one per
//   token, so that the tokens of a prompt depend on each other;
// - a token is the top-1 with the probability that its log-probability gives, mostly for both arms;
// - the KL divergence is the square of the difference of the arms' deviations;
// - latencies are log-normal, with a common factor per prompt and, in 5 % of the prompts of an arm,
//   a stall of up to 50 %;
// - bytes are equal.
// REQUIRES: plan.resamples and prompts > 0.
Comparison NoisyComparison(size_t prompts, uint32_t resamples, const PlantedEffects& planted,
                           std::mt19937_64* random);

}  // namespace longstream::client

#endif  // LONGSTREAM_TESTS_CLIENT_COMPARE_NOISE_MODEL_H_
