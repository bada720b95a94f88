// Runs a fixed workload on one model and returns every result as text.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_BITS_WORKLOAD_H_
#define LONGSTREAM_TESTS_CONFORMANCE_BITS_WORKLOAD_H_

#include <cstdint>
#include <string>

#include "tests/conformance/model.h"

namespace longstream::conformance {

struct WorkloadSize {
  uint32_t prompt;   // tokens of the longest prompt, at least 64
  uint32_t scored;   // rows of the prompt that is scored, at most `prompt`
  uint32_t decode;   // decode steps of each phase, at least 3
  uint32_t streams;  // sequences that decode in one batch, at least 4

  // An upper limit of the positions that the longest sequence of the workload reaches.
  uint32_t positions() const { return prompt + 5 * decode + 16; }
};

// The workload: a prompt read in pieces, greedy and sampled decode, a fork, a batch of sequences of
// different lengths, rollbacks, scored rows, and a snapshot. The model must allow
// `size.positions()` positions and batches of 2 * `size.prompt` tokens in `size.streams` entries.
//
// The text has one line per result. Token ids are in decimal, log-probabilities are the bits of a
// float in hexadecimal, rows of logits and snapshots are 64-bit digests. If one bit of a result
// differs between two models, their texts differ, and the first different line names the phase.
// Throws CheckFailed if a call fails.
std::string RunWorkload(Model& model, const WorkloadSize& size);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_BITS_WORKLOAD_H_
