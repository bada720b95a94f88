// How many replicas a load needs, from the costs that a server has measured. Pure functions.
#ifndef LONGSTREAM_CLIENT_PLAN_CAPACITY_H_
#define LONGSTREAM_CLIENT_PLAN_CAPACITY_H_

#include <cstdint>

namespace longstream::client {

// The costs of a model, of one turn while nothing else runs (longstream.admin.v1.ArmCosts). A token
// behind a history of d tokens takes its time without context plus d / 1000 of the time per 1000.
struct TurnCosts {
  double prompt_token = 0;  // seconds, as the next three
  double prompt_token_per_1000 = 0;
  double generated_token = 0;
  double generated_token_per_1000 = 0;
  double bytes_per_token = 0;  // of caches of a session
  double bytes_fixed = 0;
};

struct Load {
  uint64_t sessions = 0;        // whose caches are to stay in memory
  double turns_per_minute = 0;  // in the busiest minute
  uint64_t session_tokens = 0;  // the length of a session at the end of a turn
  uint64_t prompt_tokens = 0;   // of a turn. REQUIRES: prompt + generated <= session
  uint64_t generated_tokens = 0;
};

struct ReplicaSize {
  double cache_bytes = 0;  // REQUIRES: > 0
  double busy = 0;         // share of its time that it may compute, above 0, at most 1
};

struct Capacity {
  double session_bytes = 0;
  double sessions_per_gib = 0;
  uint64_t sessions_per_replica = 0;
  double first_token_seconds = 0;  // of a turn that is alone
  double turn_seconds = 0;
  double turns_per_minute = 0;  // of a replica that computes one turn after the other
  // Replicas for the sessions, and for the turns. The second is an upper limit, because turns that
  // are computed together share the reading of weights. 0 sessions fit into a replica: 0.
  uint64_t for_sessions = 0;
  uint64_t for_turns = 0;  // 10^15 stands for more
  uint64_t replicas = 0;   // the larger one, and one that may leave; 0 if no session fits
};

Capacity CapacityFor(const TurnCosts& costs, const Load& load, const ReplicaSize& replica);

}  // namespace longstream::client

#endif  // LONGSTREAM_CLIENT_PLAN_CAPACITY_H_
