// The checks of the kit, grouped by the part of the ABI that they cover.
#ifndef LONGSTREAM_TESTS_CONFORMANCE_CHECKS_H_
#define LONGSTREAM_TESTS_CONFORMANCE_CHECKS_H_

#include <string>
#include <vector>

#include "tests/conformance/kit.h"
#include "tests/conformance/report.h"

namespace longstream::conformance {

struct NamedCheck {
  const char* name;
  void (*run)(const Kit& kit, Check& check);
};
using Checks = std::vector<NamedCheck>;

// These two functions check the plugin's file and its table, without opening a model. All other
// checks run only if these checks pass.
void RunFileChecks(const Target& target, Report& report);
void RunTableChecks(const ls_backend& backend, Report& report);

Checks OpenChecks();         // model_open, model_info, probe
Checks DeterminismChecks();  // independence of the batch, the threads and the cuts of a prefill
Checks ForkChecks();
Checks RollbackChecks();  // checkpoint and truncate
Checks SnapshotChecks();
Checks SegmentChecks();    // snapshots in segments
Checks MemoryChecks();     // budget, reservations, bytes of each kind
Checks SamplingChecks();   // sampled tokens and log-probabilities against the reference ops
Checks BatchChecks();      // malformed batches, failed sequences, tickets in flight
Checks LookAheadChecks();  // a host submits a step before it waits for the previous one

// Checks that a plugin leaves nothing behind when it is unloaded. REQUIRES: the plugin is not
// loaded.
void RunReloadChecks(const Target& target, Report& report);

}  // namespace longstream::conformance

#endif  // LONGSTREAM_TESTS_CONFORMANCE_CHECKS_H_
