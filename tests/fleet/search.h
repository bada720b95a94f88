// All states of a small fleet: two replicas, one session and some turns, with every order of events
// and every place for a fault.
#ifndef LONGSTREAM_TESTS_FLEET_SEARCH_H_
#define LONGSTREAM_TESTS_FLEET_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace longstream::fleet {

// How often each thing may happen on a path.
struct SearchBounds {
  int turns = 2;  // each by a client of its own
  int calls = 2;  // of all clients
  int crashes = 1;
  int lapses = 0;       // a lease ends while its replica lives
  int losses = 0;       // of messages
  int unknowns = 0;     // of transactions; they are made at any later time, or never
  int timers = 1;       // time limits that are over before an answer comes
  int retries = 1;      // of transactions
  int withdrawals = 0;  // of requests, when their transaction could be made
  int cancels = 0;      // of turns that run
  bool drain = false;   // the first replica is told to exit
  uint64_t most_states = 20'000'000;
};

struct SearchResult {
  std::string error;               // empty: nothing is wrong
  std::vector<std::string> trace;  // how to get there
  uint64_t states = 0;             // different ones
  uint64_t steps = 0;              // events that were tried
  uint64_t ends = 0;               // states in which nothing more can happen
  uint64_t depth = 0;              // of the longest path
  bool complete = true;            // false: there were more than most_states
};

// Looks for errors that ModelStore finds, and for ends from which some turn can not be served any
// more although there are no further faults. A turn that was abandoned needs no service.
SearchResult Search(const SearchBounds& bounds);

}  // namespace longstream::fleet

#endif  // LONGSTREAM_TESTS_FLEET_SEARCH_H_
