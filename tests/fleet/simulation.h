// A fleet in one thread under virtual time: replicas, their database, a network and clients, with
// faults. Everything follows from a seed, so a failure is found again by its seed.
#ifndef LONGSTREAM_TESTS_FLEET_SIMULATION_H_
#define LONGSTREAM_TESTS_FLEET_SIMULATION_H_

#include <cstdint>
#include <string>

namespace longstream::fleet {

struct SimulationOptions {
  uint64_t seed = 1;
  bool trace = false;  // print each event and each action
};

// Counts of events. They add up over seeds.
struct SimulationCounts {
  uint64_t steps = 0;
  uint64_t commits = 0;
  uint64_t claims = 0;
  uint64_t transfers = 0;
  uint64_t fenced = 0;
  uint64_t crashes = 0;
  uint64_t pauses = 0;
  uint64_t drains = 0;
  uint64_t restarts = 0;  // of the database
  uint64_t unknown = 0;   // outcomes of transactions
  uint64_t late = 0;      // transactions that were made after their outcome was unknown
  uint64_t lost = 0;      // messages
  uint64_t repeated = 0;
  uint64_t relayed = 0;
  uint64_t offered = 0;
  uint64_t abandoned = 0;  // turns that were cancelled, or whose head moved after their start
  uint64_t changes = 0;    // acknowledged
  uint64_t withdrawn = 0;  // requests

  void Add(const SimulationCounts& other);
};

// One line.
std::string Describe(const SimulationCounts& counts);

struct SimulationResult {
  std::string error;  // empty: nothing is wrong
  SimulationCounts counts;
};

// Runs one seed: some seconds with faults, then without, until each client has all its answers.
//
// The errors of the result: one that ModelStore finds; a client that gets no answers although there
// are no faults any more; a call that does not end; a session that stays in work; a replica that
// keeps the copy of a session that another one owns; a turn that starts after the grace time.
SimulationResult Simulate(const SimulationOptions& options);

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_SIMULATION_H_
