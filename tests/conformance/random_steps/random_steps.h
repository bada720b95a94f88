// Runs the same random steps on two plugins and compares their results.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_RANDOM_STEPS_RANDOM_STEPS_H_
#define LONGSTREAM_TESTS_CONFORMANCE_RANDOM_STEPS_RANDOM_STEPS_H_

#include <cstdint>

#include "tests/conformance/model.h"

namespace longstream::conformance {

struct RandomSteps {
  uint32_t steps = 1000;
  uint32_t sequences = 16;
  uint64_t seed = 1;
  // The largest accepted difference of a row's logits, in standard deviations of the row. With
  // f32 weights and caches, sums in another order differ by about 1e-6 after a few layers.
  double tolerance = 1e-4;
};

// Counts of the steps. A caller can check that every kind of action occurred.
struct RandomStepsResult {
  uint64_t rows = 0;          // rows of logits that were compared
  uint64_t decode_steps = 0;  // steps of decode rows only, which a GPU runs as graphs
  uint64_t sampled = 0;       // greedy tokens that were compared
  uint64_t forks = 0;
  uint64_t truncations = 0;  // those that went back by at least one token
  uint64_t restarts = 0;     // sequences that were freed and begun again
  double largest_difference = 0;
};

// Runs the steps on `model` and on `reference`, which must be the same checkpoint with the same
// options. Between steps, sequences are forked, truncated, marked with rollback points, and freed.
// Throws CheckFailed, naming step and sequence, if a call fails, if logits differ by more than the
// tolerance, if a truncation reaches different positions, or if greedy tokens differ although the
// two largest logits of the reference are further apart than the tolerance explains.
RandomStepsResult RunRandomSteps(Model& model, Model& reference, const RandomSteps& settings);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_RANDOM_STEPS_RANDOM_STEPS_H_
