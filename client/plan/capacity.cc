// Adds up the time and the memory that a load takes.
#include "client/plan/capacity.h"

#include <algorithm>
#include <cmath>

namespace longstream::client {
namespace {

// The time of `count` tokens, one behind the other, the first one behind `depth` tokens:
//   sum over i < count of (token + (depth + i) / 1000 * per_1000)
double SecondsOf(double count, double depth, double token, double per_1000) {
  const double depths = count * depth + count * (count - 1) / 2;
  return count * token + depths / 1000 * per_1000;
}

}  // namespace

Capacity CapacityFor(const TurnCosts& costs, const Load& load, const ReplicaSize& replica) {
  const auto tokens = static_cast<double>(load.session_tokens);
  const auto prompt = static_cast<double>(load.prompt_tokens);
  const auto generated = static_cast<double>(load.generated_tokens);
  constexpr double kGib = 1024.0 * 1024 * 1024;
  constexpr double kMinute = 60;
  constexpr double kMostReplicas = 1e15;  // many turns of hours would need more than 2^64

  Capacity capacity;
  capacity.session_bytes = costs.bytes_fixed + tokens * costs.bytes_per_token;
  capacity.sessions_per_gib = kGib / std::max(capacity.session_bytes, 1.0);
  capacity.sessions_per_replica =
      static_cast<uint64_t>(replica.cache_bytes / std::max(capacity.session_bytes, 1.0));
  // The first token is drawn when the prompt has been read.
  capacity.first_token_seconds = SecondsOf(prompt, tokens - prompt - generated, costs.prompt_token,
                                           costs.prompt_token_per_1000);
  capacity.turn_seconds =
      capacity.first_token_seconds + SecondsOf(generated, tokens - generated, costs.generated_token,
                                               costs.generated_token_per_1000);
  capacity.turns_per_minute = kMinute * replica.busy / std::max(capacity.turn_seconds, 1e-9);
  if (capacity.sessions_per_replica == 0) return capacity;
  const uint64_t fit = capacity.sessions_per_replica;
  capacity.for_sessions = load.sessions / fit + (load.sessions % fit == 0 ? 0 : 1);
  capacity.for_turns = static_cast<uint64_t>(
      std::min(kMostReplicas, std::ceil(load.turns_per_minute / capacity.turns_per_minute)));
  capacity.replicas = std::max({capacity.for_sessions, capacity.for_turns, uint64_t{1}}) + 1;
  return capacity;
}

}  // namespace longstream::client
